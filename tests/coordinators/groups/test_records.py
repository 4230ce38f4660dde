"""Bytes of a real Kafka 4.3.0, read and written."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.base.names import ZERO_UUID, parse_uuid
from moldau.coordinators.groups import records
from moldau.coordinators.groups.records import (
    GroupMember,
    GroupMetadata,
    GroupMetadataTombstone,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommit,
    OffsetCommitTombstone,
    OffsetCommitValue,
)
from moldau.protocol import consumer_protocol
from moldau.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

GOLDEN = [
    (
        "00010005672d6e657700066f726465727300000002",
        None,
        OffsetCommitTombstone("g-new", "orders", 2),
    ),
    (
        "00010013706572662d636f6e73756d65722d323237303400047065726600000000",
        "00040000000000004fdc0000000001000001a1e130317b010010ae65891f23f64cf79b6ed4de742d0ecd",
        OffsetCommit(
            "perf-consumer-22704",
            "perf",
            0,
            20444,
            0,
            "",
            1794779394427,
            -1,
            parse_uuid("rmWJHyP2TPebbtTedC0OzQ"),
        ),
    ),
    ("00020005672d6e6577", None, GroupMetadataTombstone("g-new")),
    (
        "00020013706572662d636f6e73756d65722d3232373034",
        "0003000000000000ffffffff000001a1e13030c900000000",
        GroupMetadata("perf-consumer-22704", "", 0, None, None, 1794779394249, ()),
    ),
]


@pytest.mark.parametrize(("key", "value", "record"), GOLDEN)
def test_bytes_of_kafka(key: str, value: str | None, record: object) -> None:
    raw = bytes.fromhex(key), None if value is None else bytes.fromhex(value)
    assert records.decode(*raw) == record
    assert records.encode(record) == raw


def test_a_stable_group_takes_as_many_bytes_as_with_kafka() -> None:
    """The dump-log tool showed this record with a key of 13 and a value of 255 bytes."""
    member_id = "console-consumer-6c85cd2c-81be-44aa-b3e5-0541b1af8162"
    record = GroupMetadata(
        "g-classic",
        "consumer",
        1,
        "range",
        member_id,
        1794778486676,
        (
            GroupMember(
                member_id,
                None,
                "console-consumer",
                "/127.0.0.1",
                300000,
                45000,
                consumer_protocol.write(ConsumerProtocolSubscription(["orders"])),
                consumer_protocol.write(ConsumerProtocolAssignment([TopicPartition("orders", [0, 1, 2])])),
            ),
        ),
    )
    key, value = records.encode(record)
    assert value is not None
    assert (len(key), len(value)) == (13, 255)
    assert records.decode(key, value) == record


def test_an_empty_group_that_had_members_takes_32_bytes() -> None:
    _, value = records.encode(GroupMetadata("vg2", "consumer", 2, None, None, 1794779374412, ()))
    assert value is not None
    assert len(value) == 32


@pytest.mark.parametrize("version", range(5))
def test_older_and_newer_offsets_are_read(version: int) -> None:
    key, _ = records.encode(OffsetCommitTombstone("g", "t", 3))
    value = records.value_bytes(version, OffsetCommitValue(9, 4, "m", 100, 200, b"i" * 16))
    assert records.decode(key, value) == OffsetCommit(
        "g",
        "t",
        3,
        9,
        4 if version >= 3 else -1,
        "m",
        100,
        200 if version == 1 else -1,
        b"i" * 16 if version == 4 else ZERO_UUID,
    )


@pytest.mark.parametrize("version", range(5))
def test_older_and_newer_groups_are_read(version: int) -> None:
    key, _ = records.encode(GroupMetadataTombstone("g"))
    member = MemberMetadata("m", "i", "c", "/h", 60_000, 10_000, b"s", b"a")
    value = records.value_bytes(version, GroupMetadataValue("consumer", 3, "range", "m", 77, [member]))
    assert records.decode(key, value) == GroupMetadata(
        "g",
        "consumer",
        3,
        "range",
        "m",
        77 if version >= 2 else -1,
        (
            GroupMember(
                "m",
                "i" if version >= 3 else None,
                "c",
                "/h",
                60_000 if version >= 1 else 10_000,
                10_000,
                b"s",
                b"a",
            ),
        ),
    )


@pytest.mark.parametrize("topic_id", [ZERO_UUID, b"i" * 16])
@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 128, 4096])
@pytest.mark.parametrize("letter", ["m", "ä"])
def test_the_quick_ways_are_the_plain_ways(topic_id: bytes, size: int, letter: str) -> None:
    record = OffsetCommit("grüße", "t", 3, -5, 9, letter * size, 100, -1, topic_id)
    key, value = records.encode(record)
    assert key == records.key_bytes(1, records.OffsetCommitKey("grüße", "t", 3))
    assert value == records.value_bytes(4, OffsetCommitValue(-5, 9, letter * size, 100, -1, topic_id))
    assert records.decode(key, value) == record


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60), st.integers(0, 60), st.integers(0, 255))
def test_whatever_the_bytes_nothing_but_a_value_error(
    key: bytes, value: bytes | None, position: int, byte: int
) -> None:
    golden_key, golden_value = (bytes.fromhex(text or "") for text in GOLDEN[1][:2])
    damaged = bytearray(golden_key)
    damaged[position % len(damaged)] = byte
    for raw_key, raw_value in [
        (key, value),
        (golden_key, value),
        (golden_key, golden_value[:position]),
        (golden_key[:position], golden_value),
        (bytes(damaged), golden_value),
        (b"\0\1" + key, b"\0\4" + (value or b"")),
        (b"\0\2" + key, b"\0\3" + (value or b"")),
    ]:
        with contextlib.suppress(ValueError):
            records.decode(raw_key, raw_value)


def test_an_offset_with_an_expiry_of_its_own_is_written_in_the_version_that_has_room_for_it() -> None:
    record = OffsetCommit("g", "t", 0, 1, -1, "", 100, 5000)
    key, value = records.encode(record)
    assert value is not None
    assert value[:2] == b"\x00\x01"
    assert records.decode(key, value) == record


def test_the_old_kind_of_key_is_read() -> None:
    key = records.key_bytes(0, records.OffsetCommitKey("g", "t", 1))
    assert records.decode(key, None) == OffsetCommitTombstone("g", "t", 1)


@pytest.mark.parametrize("kind", [9, 15, 99, -1])
def test_kinds_that_are_not_known_are_left_out(kind: int) -> None:
    assert records.decode(kind.to_bytes(2, "big", signed=True) + b"anything", b"\x00\x00") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("", None),
        ("00", None),
        ("0001", None),
        ("00010005672d6e657700066f7264", None),
        ("00020005672d6e6577", ""),
        ("00020005672d6e6577", "0003"),
        ("00020005672d6e6577", "0009000000000000ffffffff"),
        ("00020005672d6e6577", "ffff"),
        ("00020005ff2d6e6577", None),
        ("00020005672d6e6577", "00030000000000007fffffff000001a1e13030c900000000"),
    ],
)
def test_corrupt_records_are_named(key: str, value: str | None) -> None:
    with pytest.raises(ValueError, match=r"."):
        records.decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
