"""Markers: the bytes of the real broker, both ways."""

import json
from pathlib import Path

import pytest

from moldau.protocol.control_records import ControlType, Marker, control_type, decode_marker, encode_marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import Record, crc_matches, encode_batch, read_header

GOLDEN = Path(__file__).parent.parent / "data" / "golden_bytes" / "transaction-commit-abort.json"
BATCHES = [bytes.fromhex(batch["hex"]) for batch in json.loads(GOLDEN.read_text())["batches"]]
COMMIT, ABORT = BATCHES[1], BATCHES[3]


@pytest.mark.parametrize(("data", "kind"), [(COMMIT, ControlType.COMMIT), (ABORT, ControlType.ABORT)])
def test_markers_of_the_real_broker(data: bytes, kind: ControlType) -> None:
    header = read_header(data)
    marker = decode_marker(data, 0, header)
    assert marker == Marker(kind, coordinator_epoch=0)
    assert marker.committed == (kind is ControlType.COMMIT)
    assert len(data) == 78
    assert data == encode_marker(
        marker,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        timestamp_ms=header.base_timestamp,
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
    )


def test_a_marker_behind_other_bytes() -> None:
    marker = Marker(ControlType.ABORT, coordinator_epoch=2**31 - 1)
    data = b"before" + encode_marker(marker, producer_id=2**62, producer_epoch=5, timestamp_ms=17)
    header = read_header(data, 6)
    assert crc_matches(data, 6, header.size)
    assert header.is_control
    assert header.is_transactional
    assert (header.base_sequence, header.last_sequence) == (-1, -1)
    assert (header.partition_leader_epoch, header.base_timestamp) == (-1, 17)
    assert decode_marker(data, 6, header) == marker


def control_batch(*records: Record) -> bytes:
    return bytes(encode_batch(records, control=True))


def test_control_records_of_other_kinds_are_no_markers() -> None:
    for number, kind in ((2, ControlType.LEADER_CHANGE), (6, ControlType.KRAFT_VOTERS), (99, None)):
        record = Record(0, 0, bytes([0, 0, 0, number]), b"")
        assert control_type(record) is kind
        data = control_batch(record)
        assert decode_marker(data, 0, read_header(data)) is None


def test_a_control_batch_that_compaction_has_emptied_is_no_marker() -> None:
    data = control_batch()
    assert decode_marker(data, 0, read_header(data)) is None


def test_a_newer_version_may_say_more() -> None:
    data = control_batch(Record(0, 0, b"\x00\x01\x00\x01more", b"\x00\x01\x00\x00\x00\x07more"))
    assert decode_marker(data, 0, read_header(data)) == Marker(ControlType.COMMIT, 7)


@pytest.mark.parametrize(
    "records",
    [
        [Record(0, 0, b"\x00\x00\x00\x01", bytes(6))] * 2,
        [Record(0, 0, None, bytes(6))],
        [Record(0, 0, b"\x00\x00\x00", bytes(6))],
        [Record(0, 0, b"\x00\x00\x00\x01", None)],
        [Record(0, 0, b"\x00\x00\x00\x01", bytes(5))],
    ],
    ids=["two", "no key", "short key", "no value", "short value"],
)
def test_broken_markers(records: list[Record]) -> None:
    data = control_batch(*records)
    with pytest.raises(KafkaError) as caught:
        decode_marker(data, 0, read_header(data))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
