"""Records by their timestamps: over segments, inside batches, and behind the start of the log."""

from typing import Any

import pytest

from moldau.protocol.compression import Compression
from moldau.protocol.records import Record, encode_batch
from moldau.storage.log.config import LogConfig
from moldau.storage.log.time_lookup import HeavyLookup
from moldau.storage.log.validation import NO_LIMITS
from tests.storage.storage_fixtures import NOW, batch

#: Every batch of two records begins a segment of its own.
SMALL = LogConfig(segment_bytes=150, index_interval_bytes=1)


@pytest.fixture
def log(node: Any) -> Any:
    """Offsets 0-1 at +10 and +11, 2-3 at +50 and +51, 4-5 at +30 and +31."""
    log = node.log(SMALL)
    for timestamp in (10, 50, 30):
        log.append(batch(2, timestamp=NOW + timestamp), 0, NOW)
    assert len(log.segments) > 1
    return log


@pytest.mark.parametrize(
    ("timestamp", "expected"), [(0, (10, 0)), (11, (11, 1)), (12, (50, 2)), (51, (51, 3)), (52, None)]
)
def test_the_first_record_that_is_not_older(log: Any, timestamp: int, expected: Any) -> None:
    found = log.offset_for_timestamp(NOW + timestamp)
    assert (found and (found.timestamp - NOW, found.offset)) == expected


def test_the_record_with_the_largest_timestamp(log: Any) -> None:
    found = log.max_timestamp()
    assert (found.timestamp - NOW, found.offset, found.leader_epoch) == (51, 3, 0)


def test_only_the_segment_with_the_answer_is_loaded(log: Any, node: Any) -> None:
    """A log may have thousands of others, and every look-up would open and close them all."""
    again = node.restart()
    *sealed, _ = again.segments
    for _ in range(2):
        assert again.offset_for_timestamp(NOW + 50).offset == 2
        assert again.max_timestamp().offset == 3
        assert [segment.is_loaded for segment in sealed] == [False, True]


def test_what_is_behind_the_start_of_the_log_is_not_found(log: Any) -> None:
    log.delete_records_before(3)
    found = log.offset_for_timestamp(NOW)
    assert (found.timestamp - NOW, found.offset) == (51, 3)
    log.delete_records_before(4)
    assert log.max_timestamp().offset == 5


def test_an_empty_log(node: Any) -> None:
    log = node.log()
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp() is None


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([Record(at, NOW + at, None, b"", ()) for at in range(10_001)], id="many records"),
        pytest.param([Record(at, NOW + at, None, bytes(3 << 20), ()) for at in range(2)], id="many bytes"),
    ],
)
def test_a_heavy_batch_is_looked_into_elsewhere(node: Any, records: list[Record]) -> None:
    log = node.log()
    heavy = memoryview(encode_batch(records, compression=Compression.ZSTD))
    for _ in range(2):
        view, header = log.check(heavy, NOW, 9, NO_LIMITS)
        log.append_checked(view, header, 0, NOW)
    last = records[-1]
    with pytest.raises(HeavyLookup) as lookup:
        log.offset_for_timestamp(NOW + 1, at_once=True)
    assert lookup.value.work() == (NOW + 1, 1, 0) == log.offset_for_timestamp(NOW + 1)
    assert lookup.value.next_offset == len(records)
    with pytest.raises(HeavyLookup) as lookup:
        log.offset_for_timestamp(NOW + 1, len(records), at_once=True)
    assert lookup.value.work() == (NOW + 1, len(records) + 1, 0)
    with pytest.raises(HeavyLookup) as lookup:
        log.max_timestamp(at_once=True)
    assert lookup.value.work() == (last.timestamp, last.offset, 0) == log.max_timestamp()
    assert log.offset_for_timestamp(last.timestamp + 1, at_once=True) is None
