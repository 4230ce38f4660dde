"""What compaction retains of single batches."""

from typing import Any

import pytest

from moldau.protocol.compression import Compression
from moldau.protocol.control_records import ControlType, Marker, encode_marker
from moldau.protocol.records import Record, crc_matches, decode_records, encode_batch, read_header
from moldau.storage.compaction.cleaned_batch import (
    BatchFilter,
    CleanedTransactionMetadata,
    LastRecord,
    RetainedBatch,
)
from moldau.storage.compaction.offset_map import OffsetMap
from moldau.storage.log.txn_index import AbortedTransaction

NOW = 1_700_000_000_000
DAY = 86_400_000
#: A filter far away from the end of what is compacted.
END = 1_000


def batch(base: int, *records: tuple[str | None, str | None], **options: Any) -> memoryview:
    """Records with consecutive offsets."""
    made = [
        Record(base + at, NOW + at, key and key.encode(), value and value.encode(), ())
        for at, (key, value) in enumerate(records)
    ]
    return memoryview(encode_batch(made, base_offset=base, **options))


def batch_filter(last: dict[str, int], latest: int, **options: Any) -> BatchFilter:
    """``last`` offsets of keys among the records up to ``latest``."""
    offset_map = OffsetMap(1 << 20)
    offset_map.put([key.encode() for key in last], last.values())
    offset_map.latest_offset = latest
    return BatchFilter(
        offset_map,
        options.get("tombstones", ()),
        options.get("first_dirty_offset", 0),
        options.get("end_offset", END),
        CleanedTransactionMetadata(options.get("aborted", ())),
        options.get("last_records", {}),
        NOW,
        DAY,
    )


def run(found: BatchFilter, view: memoryview) -> RetainedBatch | None:
    return found.filter(read_header(view), view)


def read(kept: RetainedBatch | None) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offsets, keys and values of what is a sound batch."""
    assert kept is not None
    content = bytes(kept.content)
    assert crc_matches(content, 0, len(content))
    header = read_header(content)
    assert header.size == len(content)
    return [(each.offset, each.key, each.value) for each in decode_records(content, 0, header, limit=1 << 20)]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_the_last_record_of_a_key_stays_at_its_offset(compression: Compression) -> None:
    view = batch(10, ("a", "1"), ("b", "2"), ("a", "3"), compression=compression)
    made = batch_filter({"a": 12, "b": 50}, 60)
    kept = run(made, view)
    assert read(kept) == [(12, b"a", b"3")]
    assert kept is not None
    header = read_header(bytes(kept.content))
    assert (header.base_offset, header.last_offset, header.compression) == (10, 12, compression)
    assert kept.max_timestamp == header.max_timestamp == NOW + 2
    assert (made.stats.records_read, made.stats.records_retained) == (3, 1)
    assert (made.stats.bytes_read, made.stats.bytes_written) == (len(view), len(kept.content))


def test_a_batch_that_stays_whole_is_not_copied() -> None:
    view = batch(10, ("a", "1"), ("b", "2"))
    kept = run(batch_filter({"a": 10, "b": 11}, 60), view)
    assert kept is not None
    assert kept.content is view


def test_a_batch_behind_the_map_stays_whole() -> None:
    view = batch(70, ("a", "1"), ("a", "2"))
    kept = run(batch_filter({"a": 10}, 60), view)
    assert kept is not None
    assert kept.content is view


def test_a_batch_of_which_nothing_stays() -> None:
    assert run(batch_filter({"a": 50}, 60), batch(10, ("a", "1"), ("a", "2"))) is None


def test_records_without_a_key_go() -> None:
    made = batch_filter({"a": 11}, 60)
    assert read(run(made, batch(10, (None, "1"), ("a", "2")))) == [(11, b"a", b"2")]


@pytest.mark.parametrize(
    ("options", "stays"),
    [
        ({}, False),
        ({"last_records": {7: LastRecord(11, 0)}}, True),
        ({"last_records": {7: LastRecord(90, 0)}}, False),
        ({"last_records": {8: LastRecord(11, 0)}}, False),
        ({"end_offset": 12}, True),
    ],
)
def test_the_last_batch_of_a_producer_stays_without_records(options: dict[str, Any], stays: bool) -> None:
    view = batch(10, ("a", "1"), ("a", "2"), producer_id=7, producer_epoch=3, base_sequence=20)
    kept = run(batch_filter({"a": 50}, 60, **options), view)
    assert (kept is not None) is stays
    if kept is not None:
        assert read(kept) == []
        header = read_header(bytes(kept.content))
        assert (header.base_offset, header.last_offset, header.record_count) == (10, 11, 0)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 20)


def test_a_tombstone_gets_a_horizon_first() -> None:
    made = batch_filter({"a": 11}, 60, tombstones=[11])
    kept = run(made, batch(10, ("a", "1"), ("a", None)))
    assert read(kept) == [(11, b"a", None)]
    assert kept is not None
    header = read_header(bytes(kept.content))
    assert (header.has_delete_horizon, header.base_timestamp) == (True, NOW + DAY)
    assert (header.base_offset, header.last_offset) == (10, 11)


@pytest.mark.parametrize(("horizon", "stays"), [(NOW + 1, True), (NOW, False), (NOW - 1, False)])
def test_a_tombstone_goes_at_its_horizon(horizon: int, stays: bool) -> None:
    view = batch(10, ("a", None), base_timestamp=horizon, delete_horizon=True)
    kept = run(batch_filter({"a": 10}, 60, tombstones=[10]), view)
    assert (kept is not None) is stays
    if kept is not None:
        assert kept.content is view, "it keeps the horizon that it has"


def test_an_older_record_below_the_dirty_part_goes_too() -> None:
    made = batch_filter({"a": 50}, 60, first_dirty_offset=40)
    assert read(run(made, batch(10, ("a", "1"), ("b", "2")))) == [(11, b"b", b"2")]
    untouched = batch(20, ("b", "3"), ("c", "4"))
    kept = run(made, untouched)
    assert kept is not None
    assert kept.content is untouched


def marker(base: int, kind: ControlType, producer_id: int = 7) -> memoryview:
    content = encode_marker(Marker(kind, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=NOW)
    content = bytearray(content)
    content[:8] = base.to_bytes(8, "big")  # not part of the checksum
    return memoryview(content)


def data(base: int, *records: tuple[str, str]) -> memoryview:
    return batch(base, *records, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)


def test_records_of_an_aborted_transaction_go_and_its_marker_stays() -> None:
    aborted = AbortedTransaction(7, 10, 12, 13)
    made = batch_filter({"a": 10, "b": 11}, 60, aborted=[aborted])
    assert run(made, data(10, ("a", "1"), ("b", "2"))) is None
    end = marker(12, ControlType.ABORT)
    kept = run(made, end)
    assert kept is not None
    assert kept.content is end
    assert made.transactions.retained == [aborted]


def test_records_of_a_committed_transaction_and_its_marker_stay() -> None:
    made = batch_filter({"a": 10}, 60)
    view, end = data(10, ("a", "1")), marker(11, ControlType.COMMIT)
    for each in (view, end):
        kept = run(made, each)
        assert kept is not None
        assert kept.content is each
    assert made.transactions.retained == []


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_a_marker_without_records_gets_a_horizon_like_a_tombstone(kind: ControlType) -> None:
    kept = run(batch_filter({}, 60), marker(11, kind))
    assert kept is not None
    header = read_header(bytes(kept.content))
    assert (header.has_delete_horizon, header.base_timestamp, header.is_control) == (True, NOW + DAY, True)
    assert header.base_offset == 11
    later = batch_filter({}, 60)
    later._now_ms = NOW + DAY
    assert run(later, memoryview(bytes(kept.content))) is None


def test_the_next_transaction_of_the_same_producer_is_its_own() -> None:
    """An abort before it does not concern its records."""
    made = batch_filter({"a": 13}, 60, aborted=[AbortedTransaction(7, 10, 11, 12)])
    assert run(made, data(10, ("a", "1"))) is None
    assert run(made, marker(11, ControlType.ABORT)) is not None
    assert read(run(made, data(13, ("a", "2")))) == [(13, b"a", b"2")]


@pytest.mark.parametrize("again", [False, True])
def test_an_abort_whose_marker_is_gone_ends_where_its_marker_was(again: bool) -> None:
    """The marker can be gone where the index still has its entry."""
    aborted = [AbortedTransaction(7, 10, 11, 12)]
    if again:
        aborted.append(AbortedTransaction(7, 13, 15, 16))
    made = batch_filter({"a": 13}, 60, aborted=aborted)
    assert run(made, data(10, ("a", "1"))) is None
    kept = run(made, data(13, ("a", "2")))
    assert (kept is None) is again, "only the second transaction decides"
