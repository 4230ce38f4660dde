"""The records of consumer groups against bytes of a real Kafka 4.3.0."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.base.names import parse_uuid
from moldau.coordinators.groups import records
from moldau.coordinators.groups.consumer import records as r

ORDERS = parse_uuid("POjc0XOnTtapx_rUmgcbdA")
MEMBER = "9XZDIdDuQ6-lbyPNg9Zrtg"
GROUP_KEY = "000a672d636f6e73756d6572"
MEMBER_KEY = GROUP_KEY + "001639585a444964447551362d6c6279504e67395a727467"

GOLDEN: list[tuple[str, str | None, Any]] = [
    (
        "0003" + GROUP_KEY,
        "000000000002010008582daf3fc0b533d6",
        r.ConsumerGroupMetadata("g-consumer", 2, 6353927337640539094),
    ),
    ("0003" + GROUP_KEY, None, r.ConsumerGroupMetadataTombstone("g-consumer")),
    ("0004" + GROUP_KEY, None, r.PartitionMetadataTombstone("g-consumer")),
    (
        "0005" + MEMBER_KEY,
        "00000000066170702d310b2f3132372e302e302e3102076f726465727301000493e00001000100",
        r.MemberMetadata(
            "g-consumer", MEMBER, None, None, "app-1", "/127.0.0.1", ("orders",), "", 300000, None
        ),
    ),
    ("0005" + MEMBER_KEY, None, r.MemberMetadataTombstone("g-consumer", MEMBER)),
    (
        "0006" + GROUP_KEY,
        "000000000002010008000001a1e12256df",
        r.TargetAssignmentMetadata("g-consumer", 2, 1794778486495),
    ),
    ("0006" + GROUP_KEY, None, r.TargetAssignmentMetadataTombstone("g-consumer")),
    (
        "0007" + MEMBER_KEY,
        "0000023ce8dcd173a74ed6a9c7fad49a071b74040000000000000001000000020000",
        r.TargetAssignment("g-consumer", MEMBER, frozenset((ORDERS, index) for index in range(3))),
    ),
    ("0007" + MEMBER_KEY, None, r.TargetAssignmentTombstone("g-consumer", MEMBER)),
    (
        "0008" + MEMBER_KEY,
        "0000000000020000000000023ce8dcd173a74ed6a9c7fad49a071b74040000000000000001000000020100"
        "0d040000000200000002000000020100",
        r.CurrentAssignment("g-consumer", MEMBER, 2, 0, 0, {(ORDERS, index): 2 for index in range(3)}, {}),
    ),
    ("0008" + MEMBER_KEY, None, r.CurrentAssignmentTombstone("g-consumer", MEMBER)),
]


@pytest.mark.parametrize(("key", "value", "record"), GOLDEN)
def test_bytes_of_the_real_broker(key: str, value: str | None, record: Any) -> None:
    raw = None if value is None else bytes.fromhex(value)
    assert records.decode(bytes.fromhex(key), raw) == record
    assert records.encode(record) == (bytes.fromhex(key), raw)


def test_a_member_that_speaks_the_classic_protocol() -> None:
    member = r.MemberMetadata(
        "g", "m", "", "", "c", "h", (), "", 1, "", r.ClassicMetadata(7, (("r", b"\x01\x02"),))
    )
    key, value = records.encode(member)
    # As Kafka's own generated class writes it.
    assert value == bytes.fromhex("00000101026302680101000000010101000d01000000070202720301020000")
    assert records.decode(key, value) == member


def test_a_regular_expression_and_its_end() -> None:
    record = r.RegularExpression("x1", "b.*", ("b1", "b3"), 3253, 1794792428018)
    key, value = records.encode(record)
    assert key == b"\0\x10\0\x02x1\0\x03b.*"
    assert records.decode(key, value) == record
    assert records.decode(key, None) == r.RegularExpressionTombstone("x1", "b.*")


def test_assignments_without_epochs_count_from_the_member_epoch() -> None:
    """As releases before 4.3 wrote them."""
    value = bytes.fromhex("0000000000050000000400023ce8dcd173a74ed6a9c7fad49a071b74020000000100") + b"\x01\0"
    read = records.decode(b"\0\x08\0\x01g\0\x01m", value)
    assert read == r.CurrentAssignment("g", "m", 5, 4, 0, {(ORDERS, 1): 5}, {})


def test_metadata_of_partitions_of_former_releases_is_passed_over() -> None:
    assert records.decode(b"\0\x04\0\x01g", b"\0\0\x01\0") is None


@pytest.mark.slow
@given(st.sampled_from(GOLDEN), st.integers(0, 80), st.binary(max_size=4))
def test_broken_bytes_are_refused_and_nothing_else(
    case: tuple[str, str | None, Any], at: int, put: bytes
) -> None:
    key, value, _ = case
    raw = bytes.fromhex(value or "0000")
    with suppress(ValueError):
        records.decode(bytes.fromhex(key), raw[:at] + put + raw[at + len(put) :])
