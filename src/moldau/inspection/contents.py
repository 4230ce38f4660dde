"""What is in a partition: segments, batches, codecs, producers, holes in the offsets, sizes over time.

Reads headers, and the records of a fixed number of batches per segment, so that a large directory costs
little more than its headers.

Invariant: changes nothing, and never stops at damage.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from moldau.base.names import Uuid
from moldau.inspection import dump
from moldau.inspection.history import History, Hole, walk_partition
from moldau.inspection.layout import DAMAGED_SUFFIX, PartitionFiles, SegmentFiles
from moldau.inspection.walk import DamagedRange, IntactBatch, ReadOnlyFile
from moldau.protocol.compression import Compression
from moldau.protocol.errors import KafkaError
from moldau.protocol.records import COMPRESSION_MASK, HEADER_SIZE, BatchHeader, decode_records, payload_of
from moldau.storage.directory import checkpoints
from moldau.storage.errors import CorruptFileError
from moldau.storage.file_names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of,
)
from moldau.storage.files import OsFiles
from moldau.storage.log.indexes import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from moldau.storage.log.producer_state import ProducerStateEntry

#: Batches per segment whose records are decoded.
SAMPLED_BATCHES = 32
#: The limit for the uncompressed records of one batch.
_UNCOMPRESSED_LIMIT = 256 * 1024 * 1024

#: Called with the bytes that were read since the last call.
Progress = Callable[[int], None]


class HoleKind(StrEnum):
    COMPACTION = "compaction"
    REPAIR = "repair"
    MISSING_SEGMENT = "missing segment"


# Sizes over time ---------------------------------------------------------------------------------------

_WIDTHS_MS = (
    *(1_000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000),
    *(604_800_000, 2_592_000_000, 31_536_000_000, 315_360_000_000),
)
_MOST_BUCKETS = 2048


@dataclass(slots=True)
class SizesOverTime:
    """Bytes by the time of their records; buckets become wider when there are too many."""

    width_ms: int = _WIDTHS_MS[0]
    bytes_by_bucket: Counter[int] = field(default_factory=Counter)

    def add(self, timestamp_ms: int, size: int) -> None:
        self.bytes_by_bucket[timestamp_ms // self.width_ms] += size
        if len(self.bytes_by_bucket) > _MOST_BUCKETS:
            self.widen()

    def widen(self) -> None:
        wider = [width for width in _WIDTHS_MS if width > self.width_ms]
        self._to(wider[0] if wider else self.width_ms * 10)

    def _to(self, width_ms: int) -> None:
        buckets: Counter[int] = Counter()
        for bucket, size in self.bytes_by_bucket.items():
            buckets[bucket * self.width_ms // width_ms] += size
        self.width_ms, self.bytes_by_bucket = width_ms, buckets

    def merge(self, other: "SizesOverTime") -> None:
        while self.width_ms < other.width_ms:
            self.widen()
        for bucket, size in other.bytes_by_bucket.items():
            self.add(bucket * other.width_ms, size)

    def rows(self, most: int) -> list[tuple[int, int]]:
        """At most ``most`` pairs (start of the bucket in ms, bytes); empty ones between others count too."""
        if not self.bytes_by_bucket:
            return []
        while max(self.bytes_by_bucket) - min(self.bytes_by_bucket) >= most:
            self.widen()
        first, last = min(self.bytes_by_bucket), max(self.bytes_by_bucket)
        return [
            (bucket * self.width_ms, self.bytes_by_bucket.get(bucket, 0)) for bucket in range(first, last + 1)
        ]


# Segments ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Sample:
    """What was found in the sampled batches."""

    batches: int = 0
    records: int = 0
    tombstones: int = 0
    without_key: int = 0
    stored_bytes: int = 0
    uncompressed_bytes: int = 0
    unreadable_batches: int = 0

    @property
    def ratio(self) -> float | None:
        """The compression ratio; None where no compressed batch was sampled."""
        return self.uncompressed_bytes / self.stored_bytes if self.stored_bytes else None

    def add(self, other: "Sample") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def add_batch(self, data: bytes, header: BatchHeader) -> None:
        self.batches += 1
        try:
            records = decode_records(data, 0, header, limit=_UNCOMPRESSED_LIMIT)
            if header.attributes & COMPRESSION_MASK:
                self.stored_bytes += header.size - HEADER_SIZE
                self.uncompressed_bytes += len(payload_of(data, 0, header, _UNCOMPRESSED_LIMIT))
        except KafkaError:
            self.unreadable_batches += 1
            return
        if header.is_control:
            return
        self.records += len(records)
        self.tombstones += sum(record.value is None for record in records)
        self.without_key += sum(record.key is None for record in records)


@dataclass(slots=True)
class SegmentView:
    base_offset: int
    size: int
    is_last: bool
    batches: int = 0
    records: int = 0
    control_batches: int = 0
    transactional_batches: int = 0
    #: The offset after the last batch.
    next_offset: int = 0
    min_timestamp: int = -1
    max_timestamp: int = -1
    batches_by_codec: Counter[str] = field(default_factory=Counter)
    bytes_by_codec: Counter[str] = field(default_factory=Counter)
    damage: list[DamagedRange] = field(default_factory=list)
    #: What is wrong with the indexes, by their suffixes.
    index_faults: dict[str, str] = field(default_factory=dict)
    sample: Sample = field(default_factory=Sample)

    def add(self, batch: IntactBatch) -> None:
        header = batch.header
        self.batches += 1
        self.next_offset = header.last_offset + 1
        if header.is_control:
            self.control_batches += 1
        else:
            self.records += header.record_count
        self.transactional_batches += header.is_transactional
        codec = codec_name(header)
        self.batches_by_codec[codec] += 1
        self.bytes_by_codec[codec] += header.size
        timestamp = header.max_timestamp
        if timestamp >= 0:
            self.max_timestamp = max(self.max_timestamp, timestamp)
            self.min_timestamp = timestamp if self.min_timestamp < 0 else min(self.min_timestamp, timestamp)


def codec_name(header: BatchHeader) -> str:
    number = header.attributes & COMPRESSION_MASK
    return (
        Compression(number).label if number in Compression.__members__.values() else f"unknown codec {number}"
    )


class ProducerView(NamedTuple):
    producer_id: int
    epoch: int
    batches: int
    records: int
    last_sequence: int
    last_offset: int
    last_timestamp: int
    #: The first offset of its open transaction; -1 without one.
    open_transaction: int


@dataclass(slots=True)
class PartitionView:
    name: str
    path: str
    topic_id: Uuid | None
    segments: list[SegmentView]
    producers: list[ProducerView]
    holes: list[tuple[Hole, HoleKind]]
    leader_epochs: list[tuple[int, int]]
    commits: int
    aborts: int
    thinned_batches: int
    sizes: SizesOverTime
    leftovers: list[str]
    #: From the checkpoints of the data directory; None if unknown.
    log_start_offset: int | None
    recovery_point: int | None
    high_watermark: int | None

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def batches(self) -> int:
        return sum(segment.batches for segment in self.segments)

    @property
    def records(self) -> int:
        return sum(segment.records for segment in self.segments)

    @property
    def control_batches(self) -> int:
        return sum(segment.control_batches for segment in self.segments)

    @property
    def start_offset(self) -> int:
        first = self.segments[0].base_offset if self.segments else 0
        return max(first, self.log_start_offset or 0)

    @property
    def end_offset(self) -> int:
        return self.segments[-1].next_offset if self.segments else 0

    @property
    def time_range(self) -> tuple[int, int]:
        """The smallest and the largest timestamp of a batch; -1 without any."""
        firsts = [segment.min_timestamp for segment in self.segments if segment.min_timestamp >= 0]
        return min(firsts, default=-1), max((segment.max_timestamp for segment in self.segments), default=-1)

    @property
    def codecs(self) -> Counter[str]:
        return sum((segment.batches_by_codec for segment in self.segments), Counter())

    @property
    def sample(self) -> Sample:
        total = Sample()
        for segment in self.segments:
            total.add(segment.sample)
        return total

    @property
    def open_transactions(self) -> list[ProducerView]:
        return [producer for producer in self.producers if producer.open_transaction >= 0]

    @property
    def faults(self) -> list[str]:
        """What ``verify`` should be run for, in a few words each."""
        damaged = sum(1 for segment in self.segments for _ in segment.damage)
        missing = sum(kind is HoleKind.MISSING_SEGMENT for _, kind in self.holes)
        indexes = sum(len(segment.index_faults) for segment in self.segments)
        counts = ((damaged, "damaged place(s)"), (missing, "missing segment(s)"), (indexes, "bad index(es)"))
        return [f"{count} {what}" for count, what in counts if count]


class Offsets(NamedTuple):
    """The checkpoints at the root of a data directory."""

    recovery_points: dict[str, int]
    high_watermarks: dict[str, int]
    log_start_offsets: dict[str, int]
    cleaner_offsets: dict[str, int]


def read_offsets(root: str | None) -> Offsets:
    """By the name of the partition; files that cannot be read are left out."""
    found = []
    for name in checkpoints.OFFSET_CHECKPOINT_FILES:
        try:
            offsets = {} if root is None else checkpoints.read_offsets(OsFiles(), f"{root}/{name}")
        except (CorruptFileError, OSError):
            offsets = {}
        found.append({str(topic_partition): offset for topic_partition, offset in offsets.items()})
    return Offsets(*found)


# Partitions --------------------------------------------------------------------------------------------


def inspect(
    partition: PartitionFiles,
    offsets: Offsets,
    *,
    sampled_batches: int = SAMPLED_BATCHES,
    progress: Progress = lambda size: None,
) -> PartitionView:
    """Everything about one partition."""
    history = History()
    counts: dict[int, list[int]] = {}
    sizes = SizesOverTime()
    segments: list[SegmentView] = []
    sampler = _Sampler(sampled_batches)
    for segment, found in walk_partition(partition, history):
        if found is None:
            segments.append(_view_of(segment))
            sampler.begin(segment)
            progress(0)
        elif isinstance(found, DamagedRange):
            segments[-1].damage.append(found)
            progress(found.size)
        else:
            header = found.header
            segments[-1].add(found)
            sizes.add(max(header.max_timestamp, 0), header.size)
            sampler.add(found, segments[-1].sample)
            if header.producer_id >= 0 and not header.is_control:
                count = counts.setdefault(header.producer_id, [0, 0])
                count[0] += 1
                count[1] += header.record_count
            progress(header.size)
    sampler.close()
    name = partition.name
    return PartitionView(
        name,
        str(partition.path),
        stored_topic_id(partition),
        segments,
        [_producer(each, *counts.get(each.producer_id, (0, 0))) for each in history.producers.active()],
        classify_holes(partition, history, offsets),
        history.epochs,
        history.commits,
        history.aborts,
        history.thinned_batches,
        sizes,
        [left for left, _ in partition.leftovers()],
        offsets.log_start_offsets.get(name),
        offsets.recovery_points.get(name),
        offsets.high_watermarks.get(name),
    )


class _Sampler:
    """Chooses batches that are evenly spread over the bytes of a segment."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._step = self._due = 0
        self._file: ReadOnlyFile | None = None

    def begin(self, segment: SegmentFiles) -> None:
        self.close()
        self._file = ReadOnlyFile(segment.path())
        self._step = max(1, segment.size // max(1, self._count))
        self._due = 0

    def add(self, batch: IntactBatch, sample: Sample) -> None:
        if batch.position < self._due or self._count <= 0 or self._file is None:
            return
        self._due = batch.position + self._step
        sample.add_batch(self._file.read(batch.position, batch.header.size), batch.header)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _view_of(segment: SegmentFiles) -> SegmentView:
    view = SegmentView(segment.base_offset, segment.size, segment.is_last, next_offset=segment.base_offset)
    view.index_faults = index_faults(segment)
    return view


def index_faults(segment: SegmentFiles) -> dict[str, str]:
    """What is wrong with the indexes, as far as the log is not needed to see it."""
    checks: tuple[tuple[str, int, Callable[[bytes, int, str], str | None]], ...] = (
        (OFFSET_INDEX_SUFFIX, OFFSET_ENTRY_SIZE, dump.offset_index_fault),
        (TIME_INDEX_SUFFIX, TIME_ENTRY_SIZE, dump.time_index_fault),
    )
    faults = {}
    for suffix, entry_size, check in checks:
        path = segment.path(suffix)
        try:
            data = path.read_bytes()
            used = without_unused(data, entry_size) if segment.is_last else data
            fault = check(used, segment.base_offset, str(path))
        except FileNotFoundError:
            # The index files of the active segment are created with their first entries.
            fault = None if segment.is_last else "is missing"
        if fault is not None:
            faults[suffix] = fault
    path = segment.path(TXN_INDEX_SUFFIX)
    if path.exists():
        data = path.read_bytes()
        try:
            dump.aborted_transactions(data, str(path))
        except dump.DumpError as error:
            faults[TXN_INDEX_SUFFIX] = str(error)
        if dump.trailing_txn_bytes(data):
            faults[TXN_INDEX_SUFFIX] = f"{len(data)} bytes are not a whole number of entries"
    return faults


def without_unused(data: bytes, entry_size: int) -> bytes:
    """An index without the zeros with which Kafka preallocates that of the active segment."""
    used = len(data.rstrip(b"\0"))
    end = -(-used // entry_size) * entry_size
    return data[:end] if len(data) - end >= entry_size else data


def stored_topic_id(partition: PartitionFiles) -> Uuid | None:
    """The id in the partition's directory; None without one that can be read."""
    try:
        return checkpoints.read_topic_id(OsFiles(), str(partition.path))
    except CorruptFileError:
        return None


def _producer(producer: ProducerStateEntry, batches: int, records: int) -> ProducerView:
    return ProducerView(
        producer.producer_id,
        producer.epoch,
        batches,
        records,
        producer.last_sequence,
        producer.last_offset,
        producer.last_timestamp,
        producer.transaction_first_offset,
    )


def classify_holes(
    partition: PartitionFiles, history: History, offsets: Offsets
) -> list[tuple[Hole, HoleKind]]:
    """Distinguishes what compaction has removed from what is lost.

    Compaction leaves traces: a cleaner checkpoint, and batches with removed records. Without any, a hole
    between two segments is a missing file.
    """
    cleaned_up_to = offsets.cleaner_offsets.get(partition.name, 0)
    repaired = {
        offset
        for name in partition.sizes
        if name.endswith(DAMAGED_SUFFIX) and LOG_SUFFIX in name and (offset := offset_of(name)) is not None
    }
    orphans = {offset for name in partition.orphans() if (offset := offset_of(name)) is not None}
    return [
        (hole, _kind_of(hole, history.thinned_batches > 0 or hole.first < cleaned_up_to, repaired, orphans))
        for hole in history.holes
    ]


def _kind_of(hole: Hole, compacted: bool, repaired: set[int], orphans: set[int]) -> HoleKind:
    if any(hole.first <= orphan <= hole.last for orphan in orphans):
        return HoleKind.MISSING_SEGMENT  # its indexes are still there
    if hole.segment in repaired or any(hole.first <= offset <= hole.last for offset in repaired):
        return HoleKind.REPAIR
    if hole.is_between_segments and not compacted:
        return HoleKind.MISSING_SEGMENT
    return HoleKind.COMPACTION
