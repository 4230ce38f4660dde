"""The compaction of one log: find the last record of every key, and write segments without the others.

It gets everything from a plan, reads sealed segments through file handles of its own, and writes new files
with the suffix ``.cleaned``; the caller puts them in place. So it can run in any thread or process, and it
can be stopped between two batches.

Invariant: no log and none of its files are changed, and the new files are flushed when a step returns.
Segments are cleaned in the order of their offsets, so that the older values of a key are gone before the
tombstone that deletes them.
"""

import threading
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from moldau.base.clock import Clock
from moldau.base.names import TopicPartition
from moldau.protocol.checksum import crc32c
from moldau.protocol.errors import KafkaError
from moldau.protocol.records import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_BATCH_LENGTH,
    BatchHeader,
    payload_of,
    read_header,
)
from moldau.storage.compaction.cleaned_batch import (
    DECODED_LIMIT,
    BatchFilter,
    CleanedTransactionMetadata,
    CleaningStats,
    LastRecord,
)
from moldau.storage.compaction.cleaned_segment import CleanedSegment, remove_leftovers
from moldau.storage.compaction.offset_map import OffsetMap
from moldau.storage.compaction.record_keys import keys_of
from moldau.storage.errors import CorruptLogError
from moldau.storage.file_names import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, file_name
from moldau.storage.files import Files
from moldau.storage.log.scan import MAX_RELATIVE_OFFSET
from moldau.storage.log.txn_index import AbortedTransaction

_MIN_CHUNK = 1024 * 1024


class SegmentToClean(NamedTuple):
    base_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """All that a compaction has to know; a plain value that can be sent to another process."""

    topic_partition: TopicPartition
    directory: str
    #: From the start of the log up to ``end_offset``.
    segments: tuple[SegmentToClean, ...]
    #: Below it an earlier compaction has seen the keys.
    first_dirty_offset: int
    #: The base offset of the first segment that must not be compacted.
    end_offset: int
    aborted: tuple[AbortedTransaction, ...]
    last_records: dict[int, LastRecord]
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    #: log.cleaner.dedupe.buffer.size and log.cleaner.io.* for this one compaction.
    memory_bytes: int
    load_factor: float
    read_bytes: int
    bytes_per_second: float


class CleanedGroup(NamedTuple):
    """A new segment that is ready to replace some segments of the log."""

    base_offsets: tuple[int, ...]
    size: int
    #: The suffixes of its files.
    suffixes: tuple[str, ...]


class CleaningStep(NamedTuple):
    """The result of ``Cleaning.step``: a group, or None at the end of the work."""

    group: CleanedGroup | None
    #: Below it the keys of all records have been seen.
    next_dirty_offset: int
    stats: CleaningStats


class CleaningAbortedError(Exception):
    """The compaction was stopped."""


class Throttler:
    """Keeps reading and writing below ``log.cleaner.io.max.bytes.per.second``; ``stop`` ends the work."""

    def __init__(self, clock: Clock) -> None:
        self.bytes_per_second = float("inf")
        self._clock = clock
        self._stopped = threading.Event()
        self._due = clock.monotonic()

    def stop(self) -> None:
        self._stopped.set()

    def throttle(self, size: int) -> None:
        """Waits until ``size`` more bytes are within the limit; CleaningAbortedError once it was stopped."""
        now = self._clock.monotonic()
        self._due = max(self._due, now) + size / self.bytes_per_second
        if self._stopped.is_set() or (self._due > now and self._stopped.wait(self._due - now)):
            raise CleaningAbortedError


class Cleaning:
    """One compaction of one log: call ``step`` until there is no group left."""

    def __init__(self, files: Files, plan: CleaningPlan, throttler: Throttler) -> None:
        self._files = files
        self._plan = plan
        self._throttler = throttler
        throttler.bytes_per_second = plan.bytes_per_second
        self._map = OffsetMap(plan.memory_bytes, plan.load_factor)
        #: Offsets of all tombstones among the records that were put into the map.
        self._tombstones = array("q")
        self._without_key = 0
        self._filter: BatchFilter | None = None
        self._groups: list[list[SegmentToClean]] = []

    def step(self) -> CleaningStep:
        """Cleans the next group of segments. CorruptLogError for a corrupt batch; the log stays as it is."""
        if self._filter is None:
            remove_leftovers(self._files, self._plan.directory)
            self._build_map()
            self._filter = self._new_filter()
            self._groups = group_segments(self._files, self._plan, self._map.latest_offset + 1)[::-1]
        group = self._clean(self._groups.pop(), self._filter) if self._groups else None
        return CleaningStep(group, self._map.latest_offset + 1, self._filter.stats)

    def _new_filter(self) -> BatchFilter:
        plan = self._plan
        made = BatchFilter(
            self._map,
            self._tombstones,
            plan.first_dirty_offset,
            plan.end_offset,
            CleanedTransactionMetadata(plan.aborted),
            plan.last_records,
            plan.now_ms,
            plan.delete_retention_ms,
        )
        made.stats.without_key = self._without_key
        return made

    # -- the last record of every key

    def _build_map(self) -> None:
        """Reads the dirty part of the log, up to its end or until the map is full."""
        plan = self._plan
        aborted = [entry for entry in plan.aborted if entry.last_offset >= plan.first_dirty_offset]
        transactions = CleanedTransactionMetadata(aborted)
        self._map.latest_offset = plan.first_dirty_offset - 1
        ends = [segment.base_offset for segment in plan.segments[1:]] + [plan.end_offset]
        for segment, end_offset in zip(plan.segments, ends, strict=True):
            if end_offset > plan.first_dirty_offset:
                if not self._map_segment(segment, transactions):
                    return
                self._map.latest_offset = max(self._map.latest_offset, end_offset - 1)

    def _map_segment(self, segment: SegmentToClean, transactions: CleanedTransactionMetadata) -> bool:
        """False when the map became full before the end of the segment."""
        first_dirty_offset = self._plan.first_dirty_offset
        for position, header, view in self._batches(segment):
            try:
                if header.is_control:
                    transactions.on_control_batch_read(header, view)
                elif not transactions.on_batch_read(header) and header.last_offset >= first_dirty_offset:
                    if not self._has_capacity_for(header.record_count):
                        return False
                    self._map_batch(header, view)
            except KafkaError as error:
                raise self._corrupt(segment, position, header, error) from error
            self._map.latest_offset = max(self._map.latest_offset, header.last_offset)
        return True

    def _has_capacity_for(self, count: int) -> bool:
        """A first batch always fits: otherwise the compaction would never make progress."""
        if not len(self._map):
            return True
        tombstone_bytes = (len(self._tombstones) + count) * self._tombstones.itemsize
        return self._map.has_capacity_for(count) and tombstone_bytes <= self._plan.memory_bytes // 4

    def _map_batch(self, header: BatchHeader, view: memoryview) -> None:
        base_offset, first = header.base_offset, self._plan.first_dirty_offset
        data = bytes(payload_of(view, 0, header, DECODED_LIMIT))
        keys, deltas, tombstones, without_key = keys_of(data, header.record_count)
        self._without_key += without_key
        offsets = [base_offset + delta for delta in deltas]
        if base_offset < first:
            dirty = [(key, offset) for key, offset in zip(keys, offsets, strict=True) if offset >= first]
            keys, offsets = [key for key, _ in dirty], [offset for _, offset in dirty]
        self._map.put(keys, offsets)
        self._tombstones.extend(base_offset + delta for delta in tombstones)

    # -- the new segments

    def _clean(self, group: list[SegmentToClean], keep: BatchFilter) -> CleanedGroup:
        plan = self._plan
        cleaned = CleanedSegment(self._files, plan.directory, group[0].base_offset, plan.index_interval_bytes)
        known = len(keep.transactions.retained)
        for segment in group:
            for position, header, view in self._batches(segment):
                try:
                    kept = keep.filter(header, view)
                except KafkaError as error:
                    raise self._corrupt(segment, position, header, error) from error
                if kept is not None:
                    self._throttler.throttle(len(kept.content))
                    cleaned.append(kept.content, header.last_offset, kept.max_timestamp)
        suffixes = cleaned.finish(keep.transactions.retained[known:])
        return CleanedGroup(tuple(segment.base_offset for segment in group), cleaned.size, suffixes)

    # -- reading

    def _batches(self, segment: SegmentToClean) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Position, header and bytes of every batch of a segment, with the checksum verified."""
        path = self._path(segment)
        file = self._files.open(path)
        chunk = max(self._plan.read_bytes, _MIN_CHUNK)
        view = memoryview(b"")
        position = start = 0
        expected = segment.base_offset
        while position < segment.size:
            at, left = position - start, segment.size - position
            size = LOG_OVERHEAD + read_header(view, at).batch_length if len(view) - at >= HEADER_SIZE else 0
            if size > left or left < HEADER_SIZE:
                raise CorruptLogError(path, position, expected, "a batch is cut off")
            if len(view) - at < max(size, HEADER_SIZE):
                view, start = memoryview(file.read(position, min(max(size, chunk), left))), position
                self._throttler.throttle(len(view))
                if len(view) < min(max(size, HEADER_SIZE), left):
                    raise CorruptLogError(path, position, expected, "the file ends too soon")
                continue
            header = read_header(view, at)
            batch = view[at : at + size]
            reason = _batch_fault(header, batch, expected)
            if reason is not None:
                raise CorruptLogError(path, position, expected, reason)
            yield position, header, batch
            expected = header.last_offset + 1
            position += size

    def _path(self, segment: SegmentToClean) -> str:
        return f"{self._plan.directory}/{file_name(segment.base_offset, LOG_SUFFIX)}"

    def _corrupt(
        self, segment: SegmentToClean, position: int, header: BatchHeader, error: KafkaError
    ) -> CorruptLogError:
        return CorruptLogError(self._path(segment), position, header.base_offset, str(error))


def _batch_fault(header: BatchHeader, batch: memoryview, expected: int) -> str | None:
    """Why the batch is corrupt; None if it is not."""
    if header.magic != MAGIC or header.batch_length < MIN_BATCH_LENGTH:
        return "no batch"
    if header.base_offset < expected or header.last_offset_delta < 0 or header.record_count < 0:
        return f"offset {header.base_offset} after {expected - 1}"
    if crc32c(batch[ATTRIBUTES_AT:]) != header.crc:
        return "the checksum of a batch does not match"
    return None


def group_segments(files: Files, plan: CleaningPlan, end_offset: int) -> list[list[SegmentToClean]]:
    """Adjacent segments below ``end_offset`` that together fit into one, with their indexes and offsets."""
    groups: list[list[SegmentToClean]] = []
    size = index_size = time_index_size = 0
    segments = [segment for segment in plan.segments if segment.base_offset < end_offset]
    for at, segment in enumerate(segments):
        own_index_size = _size_of(files, plan, segment, OFFSET_INDEX_SUFFIX)
        own_time_index_size = _size_of(files, plan, segment, TIME_INDEX_SUFFIX)
        last_offset = (segments[at + 1].base_offset if at + 1 < len(segments) else plan.end_offset) - 1
        size += segment.size
        index_size += own_index_size
        time_index_size += own_time_index_size
        if (
            not groups
            or size > plan.segment_bytes
            or max(index_size, time_index_size) > plan.segment_index_bytes
            or (segment.size and last_offset - groups[-1][0].base_offset > MAX_RELATIVE_OFFSET)
        ):
            groups.append([])
            size, index_size, time_index_size = segment.size, own_index_size, own_time_index_size
        groups[-1].append(segment)
    return groups


def _size_of(files: Files, plan: CleaningPlan, segment: SegmentToClean, suffix: str) -> int:
    path = f"{plan.directory}/{file_name(segment.base_offset, suffix)}"
    return files.size_of(path) if files.exists(path) else 0
