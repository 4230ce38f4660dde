"""The checks of one segment: checksums, records, and the indexes against the batches.

A job is a plain value and its ``run`` needs nothing but the disk, so that jobs can run in other processes.

Invariant: reads only; a fault is a finding, not an exception.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from moldau.inspection import dump
from moldau.inspection.contents import without_unused
from moldau.inspection.findings import Finding, note, problem, warning
from moldau.inspection.layout import SegmentFiles
from moldau.inspection.walk import DamagedRange, IntactBatch, ReadOnlyFile, walk
from moldau.protocol.errors import KafkaError
from moldau.protocol.records import (
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    decode_records,
    payload_of,
    records_error,
)
from moldau.storage.file_names import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from moldau.storage.log.indexes import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE

_UNCOMPRESSED_LIMIT = 1 << 30
#: Findings of one kind in one segment that are reported one by one.
_MAX_OF_A_KIND = 10

_REPAIR = "'moldau log repair' moves the damaged bytes aside and keeps the batches around them"
_REBUILT = "'moldau log repair' builds it anew; a broker does so too when it needs it"


class SegmentReport(NamedTuple):
    findings: list[Finding]
    size: int
    batches: int
    records: int


@dataclass(frozen=True, slots=True)
class SegmentJob:
    """One segment to check."""

    segment: SegmentFiles
    #: Whether the directory was closed cleanly; otherwise an incomplete batch at the end is expected.
    clean: bool
    #: Everything below it was flushed.
    recovery_point: int
    #: Decode every record, or only check their lengths.
    deep: bool = True

    @property
    def size(self) -> int:
        return self.segment.size

    def run(self) -> SegmentReport:
        return _Check(self).run()


@dataclass(slots=True)
class _Check:
    job: SegmentJob
    findings: list[Finding] = field(default_factory=list)
    batches: int = 0
    records: int = 0
    _count_by_kind: dict[str, int] = field(default_factory=dict)

    def run(self) -> SegmentReport:
        segment = self.job.segment
        indexes = IndexCheck(segment)
        damaged = False
        with ReadOnlyFile(segment.path()) as file:
            for found in walk(file, segment.base_offset, segment.limit):
                if isinstance(found, DamagedRange):
                    damaged = True
                    self._damage(found, file.size)
                else:
                    self._batch(found)
                    indexes.add(found)
        self.findings += indexes.findings(damaged=damaged)
        for kind, count in self._count_by_kind.items():
            if count > _MAX_OF_A_KIND:
                more = f"{count - _MAX_OF_A_KIND} more batches like these: {kind}"
                self.findings.append(note(str(segment.path()), more))
        return SegmentReport(self.findings, segment.size, self.batches, self.records)

    def _damage(self, damage: DamagedRange, file_size: int) -> None:
        path = str(self.job.segment.path())
        position, offset = damage.position, damage.offset
        what = f"{damage.size} bytes are no batch: {damage.reason}"
        if damage.is_old_format:
            meaning = "their records cannot be served in this format"
            action = "copy the topic with a Kafka older than 4.0, which writes batches of magic 2"
            self.findings.append(problem(path, what, meaning, action, position=position, offset=offset))
            return
        if damage.correct_offset is not None:
            meaning = f"only its offset is wrong, the records are whole; it must be {damage.correct_offset}"
            action = "'moldau log repair' writes the offset anew"
            self.findings.append(problem(path, what, meaning, action, position=position, offset=offset))
            return
        at_the_end = damage.next_offset is None and position + damage.size == file_size
        recoverable = not self.job.clean and offset >= self.job.recovery_point
        if self.job.segment.is_last and at_the_end and recoverable:
            meaning = "a write was cut off by a crash; nobody was promised these bytes"
            action = "nothing: the next start cuts them off"
            self.findings.append(warning(path, what, meaning, action, position=position, offset=offset))
            return
        if damage.next_offset is None:
            next_base_offset = self.job.segment.next_base_offset
            until = "the end" if next_base_offset is None else f"{next_base_offset - 1} at most"
        else:
            until = str(damage.next_offset - 1)
        meaning = f"the records with offsets {offset} to {until} are lost, and the partition goes offline"
        self.findings.append(problem(path, what, meaning, _REPAIR, position=position, offset=offset))

    def _batch(self, batch: IntactBatch) -> None:
        header = batch.header
        self.batches += 1
        self.records += header.record_count
        fault = record_fault(batch.data, header, deep=self.job.deep)
        if fault is None:
            return
        kind, what = fault
        self._count_by_kind[kind] = self._count_by_kind.get(kind, 0) + 1
        if self._count_by_kind[kind] > _MAX_OF_A_KIND:
            return
        place = {"position": batch.position, "offset": header.base_offset}
        path = str(self.job.segment.path())
        if kind == "timestamps":
            meaning = "it was written like this: looking for a time may miss the record"
            self.findings.append(warning(path, what, meaning, "", **place))
            return
        meaning = "the checksum is right, so it was written like this: consumers fail here"
        action = "let consumers begin behind it: 'moldau groups reset GROUP --to ...'"
        self.findings.append(problem(path, what, meaning, action, **place))


def record_fault(data: memoryview, header: BatchHeader, *, deep: bool) -> tuple[str, str] | None:
    """The fault in the records of a batch with the right checksum: its kind, and a sentence."""
    try:
        payload = payload_of(data, 0, header, _UNCOMPRESSED_LIMIT)
    except KafkaError as error:
        return "compression", f"the records cannot be decompressed: {error.message}"
    if not deep:
        fault = records_error(payload, header.record_count)
        return None if fault is None else ("records", f"the records make no sense: {fault}")
    try:
        records = decode_records(data, 0, header, limit=_UNCOMPRESSED_LIMIT)
    except KafkaError as error:
        return "records", f"the records make no sense: {error.message}"
    before = header.base_offset - 1
    for record in records:
        if not before < record.offset <= header.last_offset:
            return "offsets", (
                f"a record has offset {record.offset} behind {before} in a batch that ends with "
                f"{header.last_offset}"
            )
        before = record.offset
    if records and not header.attributes & TIMESTAMP_TYPE_MASK:
        latest = max(record.timestamp for record in records)
        if latest > header.max_timestamp:
            return "timestamps", (
                f"a record has timestamp {latest}, but its batch says that the largest is "
                f"{header.max_timestamp}"
            )
    return None


class IndexCheck:
    """Compares the entries of both indexes with the batches, which are added one by one."""

    def __init__(self, segment: SegmentFiles) -> None:
        self.segment = segment
        base_offset = segment.base_offset
        self._data = {
            suffix: _content(segment.path(suffix)) for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
        }
        self._positions = {entry.position: entry.offset for entry in self._offset_entries(base_offset)}
        self._times = self._time_entries(base_offset)
        self._time_offsets = [entry.offset for entry in self._times]
        self._seen_positions: set[int] = set()
        self._faults: dict[str, str] = {}
        self._max_timestamp = -1

    def _offset_entries(self, base_offset: int) -> list[dump.OffsetEntry]:
        data = without_unused(self._data[OFFSET_INDEX_SUFFIX] or b"", OFFSET_ENTRY_SIZE)
        return dump.offset_entries(data, base_offset)

    def _time_entries(self, base_offset: int) -> list[dump.TimeEntry]:
        data = without_unused(self._data[TIME_INDEX_SUFFIX] or b"", TIME_ENTRY_SIZE)
        return dump.time_entries(data, base_offset)

    def add(self, batch: IntactBatch) -> None:
        header = batch.header
        last_offset = header.last_offset
        indexed = self._positions.get(batch.position)
        if indexed is not None:
            self._seen_positions.add(batch.position)
            # Older Kafkas write one entry for an append of several batches, with the last offset of all.
            if indexed < header.base_offset:
                self._fault(
                    OFFSET_INDEX_SUFFIX,
                    f"offset {indexed} leads to the batch of offsets {header.base_offset} to {last_offset}",
                )
        self._max_timestamp = max(self._max_timestamp, header.max_timestamp)
        at = bisect_left(self._time_offsets, header.base_offset)
        while at < len(self._time_offsets) and self._time_offsets[at] <= last_offset:
            if self._times[at].timestamp != self._max_timestamp:
                self._fault(
                    TIME_INDEX_SUFFIX,
                    f"timestamp {self._times[at].timestamp} stands for offset {self._times[at].offset}, "
                    f"where the largest so far is {self._max_timestamp}",
                )
            at += 1

    def _fault(self, suffix: str, fault: str) -> None:
        self._faults.setdefault(suffix, fault)

    def faults(self, *, damaged: bool) -> dict[str, str]:
        """What is wrong with the indexes, by suffix, after all batches were added.

        In a damaged log, entries that point to no batch are expected.
        """
        self._check_shapes()
        if not damaged:
            self._check_ends()
        return self._faults

    def findings(self, *, damaged: bool) -> list[Finding]:
        meaning = "reads take longer, or begin at a wrong place in a broker that trusts its indexes"
        return [
            warning(str(self.segment.path(suffix)), fault, meaning, _REBUILT)
            for suffix, fault in self.faults(damaged=damaged).items()
        ]

    def _check_shapes(self) -> None:
        offsets = [*self._positions.values()]
        if offsets != sorted(set(offsets)) or [*self._positions] != sorted(self._positions):
            self._fault(OFFSET_INDEX_SUFFIX, "offsets or positions do not increase")
        times = [entry.timestamp for entry in self._times]
        if times != sorted(set(times)) or self._time_offsets != sorted(set(self._time_offsets)):
            self._fault(TIME_INDEX_SUFFIX, "timestamps or offsets do not increase")
        for suffix, entry_size in (
            (OFFSET_INDEX_SUFFIX, OFFSET_ENTRY_SIZE),
            (TIME_INDEX_SUFFIX, TIME_ENTRY_SIZE),
        ):
            data = self._data[suffix]
            if data is None and not self.segment.is_last:
                self._fault(suffix, "is missing")
            elif data is not None and len(data) % entry_size:
                self._fault(suffix, f"{len(data)} bytes are not a whole number of entries")

    def _check_ends(self) -> None:
        lost = sorted(set(self._positions) - self._seen_positions)
        if lost:
            self._fault(OFFSET_INDEX_SUFFIX, f"no batch begins at position {lost[0]}")
        if self.segment.is_last or self._max_timestamp < 0:
            return
        last = self._times[-1].timestamp if self._times else -1
        if self._data[TIME_INDEX_SUFFIX] is not None and last != self._max_timestamp:
            self._fault(
                TIME_INDEX_SUFFIX,
                f"ends with timestamp {last}, where the largest of the segment is {self._max_timestamp}",
            )


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
