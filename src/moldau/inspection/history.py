"""What the batches of a partition tell in their order: producers, transactions, leader epochs, holes.

Batches are applied as by a live log, so that the result is what a broker knows after it has read the log
from the start. Only headers are needed, and the content of transaction markers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.inspection.layout import PartitionFiles, SegmentFiles
from moldau.inspection.walk import DamagedRange, IntactBatch, ReadOnlyFile, walk
from moldau.protocol.control_records import decode_marker
from moldau.protocol.errors import KafkaError
from moldau.storage.errors import CorruptFileError
from moldau.storage.file_names import SNAPSHOT_SUFFIX, file_name
from moldau.storage.log.producer_state import ProducerStates
from moldau.storage.log.txn_index import AbortedTransaction

#: Only error messages contain the partition, and none is raised here.
_NO_PARTITION = TopicPartition("", 0)


class Hole(NamedTuple):
    """Offsets that no batch covers."""

    first: int
    last: int
    #: The segment in or after which the hole begins.
    segment: int
    is_between_segments: bool

    @property
    def size(self) -> int:
        return self.last - self.first + 1


@dataclass(slots=True)
class History:
    """The state after the last batch that was added."""

    producers: ProducerStates = field(default_factory=lambda: ProducerStates(_NO_PARTITION))
    #: (epoch, first offset) whenever the epoch of the batches changes.
    epochs: list[tuple[int, int]] = field(default_factory=list)
    holes: list[Hole] = field(default_factory=list)
    #: By the base offset of the segment that has the abort marker.
    aborted: dict[int, list[AbortedTransaction]] = field(default_factory=dict)
    commits: int = 0
    aborts: int = 0
    #: Markers that cannot be decoded: offset and reason.
    bad_markers: list[tuple[int, str]] = field(default_factory=list)
    next_offset: int = 0
    #: Batches with fewer records than offsets, from which compaction has removed records.
    thinned_batches: int = 0
    #: Damaged ranges that were skipped.
    damaged_ranges: int = 0
    segment: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether no record is missing, so that snapshots and indexes can be compared with the log."""
        return not (self.holes or self.thinned_batches or self.damaged_ranges)

    def begin(self, base_offset: int, is_first: bool) -> None:
        """A new segment; offsets before the first one are not a hole."""
        if is_first:
            self.next_offset = base_offset
        elif base_offset > self.next_offset:
            self.holes.append(Hole(self.next_offset, base_offset - 1, self.segment, True))
            self.next_offset = base_offset
        self.segment = base_offset

    def add(self, batch: IntactBatch) -> None:
        header = batch.header
        base_offset, last_offset = header.base_offset, header.last_offset
        if base_offset > self.next_offset:
            self.holes.append(Hole(self.next_offset, base_offset - 1, self.segment, False))
        self.next_offset = last_offset + 1
        if header.record_count < last_offset - base_offset + 1:
            self.thinned_batches += 1
        epoch = header.partition_leader_epoch
        if epoch >= 0 and (not self.epochs or self.epochs[-1][0] != epoch):
            self.epochs.append((epoch, base_offset))
        if header.producer_id < 0:
            return
        if header.is_control:
            self._add_marker(batch)
        else:
            self.producers.apply(header, base_offset, 0)

    def skip(self, damage: DamagedRange) -> None:
        """Offsets that are lost in a damaged range are not a hole."""
        self.damaged_ranges += 1
        self.next_offset = max(self.next_offset, damage.next_offset or 0)

    def _add_marker(self, batch: IntactBatch) -> None:
        header = batch.header
        try:
            marker = decode_marker(batch.data, 0, header)
        except KafkaError as error:
            self.bad_markers.append((header.base_offset, error.message or str(error)))
            return
        if marker is None:
            return
        self.commits += marker.committed
        self.aborts += not marker.committed
        completed = self.producers.apply_marker(
            header,
            header.base_offset,
            committed=marker.committed,
            coordinator_epoch=marker.coordinator_epoch,
            now_ms=0,
        )
        if completed is not None and not completed.committed:
            self.aborted.setdefault(self.segment, []).append(self.producers.aborted(completed))


def consistent_epochs(
    epochs: list[tuple[int, int]],
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The leader epochs that increase along the log, and those that do not fit in between.

    The checksum of a batch does not cover its epoch. Epochs increase along a log, so that one that is higher
    or lower than both its neighbours is wrong.
    """
    consistent = list(epochs)
    odd: list[tuple[int, int]] = []
    at = 0
    while at + 1 < len(consistent):
        epoch, following = consistent[at][0], consistent[at + 1][0]
        if epoch == following:
            del consistent[at + 1]
        elif epoch < following:
            at += 1
        elif at + 2 < len(consistent) and consistent[at + 2][0] >= epoch:
            odd.append(consistent.pop(at + 1))
        else:
            odd.append(consistent.pop(at))
            at = max(at - 1, 0)
    return consistent, odd


def walk_partition(
    partition: PartitionFiles, history: History, *, contents: bool = False
) -> Iterator[tuple[SegmentFiles, IntactBatch | DamagedRange | None]]:
    """Every batch and damaged range of a partition, after it was added to ``history``.

    Each segment begins with a pair without a batch, when ``history`` is at its start. The history begins with
    the producers of the first snapshot.
    """
    load_first_snapshot(partition, history.producers)
    for segment in partition.segments:
        history.begin(segment.base_offset, segment is partition.segments[0])
        yield segment, None
        with ReadOnlyFile(segment.path()) as file:
            for found in walk(file, segment.base_offset, segment.limit, contents=contents):
                if isinstance(found, IntactBatch):
                    history.add(found)
                else:
                    history.skip(found)
                yield segment, found


def load_first_snapshot(partition: PartitionFiles, producers: ProducerStates) -> None:
    """Loads the producers whose batches were deleted before the first segment."""
    if not partition.segments or partition.segments[0].base_offset not in partition.snapshots:
        return
    path = partition.path / file_name(partition.segments[0].base_offset, SNAPSHOT_SUFFIX)
    try:
        producers.load(path.read_bytes(), str(path), 0)
    except (CorruptFileError, OSError):
        producers.clear()
