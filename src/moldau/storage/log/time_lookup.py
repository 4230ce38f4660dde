"""Finding records by their timestamps.

The time index only tells where to begin. The answer comes from the batches, of which only the one with the
answer is looked into, and no record of it is kept.

Invariant: with ``at_once`` the work is bounded, and a batch that is more raises ``HeavyLookup``.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.record_checks import record_fields
from moldau.protocol.records import TIMESTAMP_TYPE_MASK, BatchHeader, payload_of
from moldau.storage.log.segment import Segment
from moldau.storage.log.segments import Segments
from moldau.storage.log.validation import AT_ONCE

#: A batch in the log was accepted, so that its uncompressed size is bounded; this only stops corrupt data.
_DECODED_LIMIT = 1 << 30


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class HeavyLookup(Exception):
    """The answer is in a batch that is more work than the event loop may do at once."""

    def __init__(self, work: Callable[[], TimestampOffset | None], next_offset: int) -> None:
        super().__init__()
        #: Looks into the batch; works in any thread.
        self.work = work
        #: Where to go on when that finds nothing.
        self.next_offset = next_offset


def offset_for_timestamp(
    segments: Segments, log_start_offset: int, timestamp: int, at_once: bool = False
) -> TimestampOffset | None:
    """The first record from ``log_start_offset`` on whose timestamp is at least ``timestamp``."""
    for segment in segments.from_offset(log_start_offset):
        if segment.size and _largest_timestamp(segment) >= timestamp:
            segments.warm_up(segment)
            found = _search(segment, log_start_offset, timestamp, at_once)
            if found is not None:
                return found
    return None


def _largest_timestamp(segment: Segment) -> int:
    """-1 where no record has one. A log may have thousands of segments: their indexes stay on the disk."""
    if not segment.knows_timestamps:
        segment.largest_timestamp()
    return segment.max_timestamp


def _search(segment: Segment, start_offset: int, timestamp: int, at_once: bool) -> TimestampOffset | None:
    place = segment.locate(max(_search_start(segment, timestamp), start_offset))
    if place is None:
        return None
    for position, header in segment.headers(place[0]):
        if header.max_timestamp < timestamp or header.last_offset < start_offset:
            continue
        batch = _Batch(segment, position, header)
        found = batch.look(lambda records: _first(records, timestamp, start_offset), at_once)
        if found is not None:
            return found
    return None


def _first(records: Iterator[TimestampOffset], timestamp: int, start_offset: int) -> TimestampOffset | None:
    return next((each for each in records if each[0] >= timestamp and each[1] >= start_offset), None)


def _latest(records: Iterator[TimestampOffset]) -> TimestampOffset | None:
    return max(records, key=lambda each: each[0], default=None)


def _search_start(segment: Segment, timestamp: int) -> int:
    """An offset before which no record has that timestamp or a later one."""
    known, offset = segment.time_index.lookup(timestamp)
    if known < 0:
        return segment.base_offset
    header = segment.header_at(offset)
    if header is None or header.max_timestamp != known:
        segment.rebuild_indexes(f"the time index says {known} of offset {offset}")
        return segment.time_index.lookup(timestamp)[1]
    return offset


def max_timestamp(segments: Segments, log_start_offset: int, at_once: bool = False) -> TimestampOffset | None:
    """The record with the largest timestamp; the first if there are several."""
    best: Segment | None = None
    for segment in segments.from_offset(log_start_offset):
        if segment.size and _largest_timestamp(segment) > (-1 if best is None else best.max_timestamp):
            best = segment
    if best is None:
        return None
    segments.warm_up(best)
    place = best.locate(best.max_timestamp_offset)
    assert place is not None
    position, header = next(best.headers(place[0]))
    if header.record_count == 0:
        return _max_timestamp_of_records(segments, log_start_offset)
    return _Batch(best, position, header).look(_latest, at_once)


def _max_timestamp_of_records(segments: Segments, log_start_offset: int) -> TimestampOffset | None:
    """Reads all headers: the batch with the largest timestamp was emptied by compaction."""
    best: TimestampOffset | None = None
    for segment in segments.from_offset(log_start_offset):
        for position, header in segment.headers(0):
            if header.record_count and (best is None or header.max_timestamp > best.timestamp):
                best = _Batch(segment, position, header).look(_latest, at_once=False)
    return best


class _Batch:
    """A batch of a segment, whose records can be looked at now or later."""

    __slots__ = ("_data", "_header")

    def __init__(self, segment: Segment, position: int, header: BatchHeader) -> None:
        self._data = segment.file.read(position, header.size)
        self._header = header

    def look(
        self, find: Callable[[Iterator[TimestampOffset]], TimestampOffset | None], at_once: bool
    ) -> TimestampOffset | None:
        heavy = HeavyLookup(lambda: find(self._records(_DECODED_LIMIT)), self._header.last_offset + 1)
        if not at_once:
            return heavy.work()
        if self._header.record_count > AT_ONCE.records:
            raise heavy
        try:
            return find(self._records(AT_ONCE.uncompressed_bytes))
        except KafkaError as error:
            if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                raise heavy from None
            raise

    def _records(self, limit: int) -> Iterator[TimestampOffset]:
        header = self._header
        payload = payload_of(self._data, 0, header, limit)
        append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_MASK else None
        for timestamp, offset, _ in record_fields(payload, header.record_count):
            yield TimestampOffset(
                header.base_timestamp + timestamp if append_time is None else append_time,
                header.base_offset + offset,
                header.partition_leader_epoch,
            )
