"""Finding records by their timestamps.

The time index only tells where to begin. The answer comes from the batches, of which only the one with the
answer is decoded.
"""

from typing import NamedTuple

from moldau.protocol.records import BatchHeader, Record, decode_records
from moldau.storage.log.segment import Segment
from moldau.storage.log.segments import Segments

#: A batch in the log was accepted, so that its uncompressed size is bounded; this only stops corrupt data.
_DECODED_LIMIT = 1 << 30


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(segments: Segments, log_start_offset: int, timestamp: int) -> TimestampOffset | None:
    """The first record from ``log_start_offset`` on whose timestamp is at least ``timestamp``."""
    for segment in segments.from_offset(log_start_offset):
        if segment.size == 0:
            continue
        segments.warm_up(segment)
        segment.load_timestamps()
        if segment.max_timestamp >= timestamp:
            found = _search(segment, log_start_offset, timestamp)
            if found is not None:
                return found
    return None


def _search(segment: Segment, start_offset: int, timestamp: int) -> TimestampOffset | None:
    place = segment.locate(max(_search_start(segment, timestamp), start_offset))
    if place is None:
        return None
    for position, header in segment.headers(place[0]):
        if header.max_timestamp < timestamp or header.last_offset < start_offset:
            continue
        for record in _records(segment, position, header):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


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


def max_timestamp(segments: Segments, log_start_offset: int) -> TimestampOffset | None:
    """The record with the largest timestamp; the first if there are several."""
    best: Segment | None = None
    for segment in segments.from_offset(log_start_offset):
        if segment.size == 0:
            continue
        segments.warm_up(segment)
        segment.load_timestamps()
        if segment.max_timestamp >= 0 and (best is None or segment.max_timestamp > best.max_timestamp):
            best = segment
    if best is None:
        return None
    segments.warm_up(best)
    place = best.locate(best.max_timestamp_offset)
    assert place is not None
    position, header = next(best.headers(place[0]))
    if header.record_count == 0:
        return _max_timestamp_of_records(segments, log_start_offset)
    record = max(_records(best, position, header), key=lambda record: record.timestamp)
    return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)


def _max_timestamp_of_records(segments: Segments, log_start_offset: int) -> TimestampOffset | None:
    """Reads all headers: the batch with the largest timestamp was emptied by compaction."""
    best: TimestampOffset | None = None
    for segment in segments.from_offset(log_start_offset):
        for position, header in segment.headers(0):
            if header.record_count and (best is None or header.max_timestamp > best.timestamp):
                record = max(_records(segment, position, header), key=lambda record: record.timestamp)
                best = TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return best


def _records(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    return decode_records(segment.file.read(position, header.size), 0, header, limit=_DECODED_LIMIT)
