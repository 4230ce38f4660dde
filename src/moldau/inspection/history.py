"""What the batches of a partition tell in their order: producers, transactions, leader epochs, holes.

Invariant: fed with headers (and the content of markers) and nothing else; the same ``apply`` as in a live
log, so that what comes out is what a broker would know after reading the log from its start.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.inspection.layout import PartitionFiles, SegmentFiles
from moldau.inspection.walk import Damaged, ReadOnlyFile, Whole, walk
from moldau.protocol.control_records import decode_marker
from moldau.protocol.errors import KafkaError
from moldau.storage.errors import CorruptFileError
from moldau.storage.file_names import SNAPSHOT_SUFFIX, file_name
from moldau.storage.log.producer_state import ProducerStates
from moldau.storage.log.txn_index import AbortedTransaction

_NOBODY = TopicPartition("", 0)


class Hole(NamedTuple):
    """Offsets that no batch covers."""

    first: int
    last: int
    #: The segment in which the hole begins, or behind which.
    segment: int
    is_between_segments: bool

    @property
    def size(self) -> int:
        return self.last - self.first + 1


@dataclass(slots=True)
class History:
    """What is known behind the last batch that was taken in."""

    producers: ProducerStates = field(default_factory=lambda: ProducerStates(_NOBODY))
    #: (epoch, first offset) whenever the epoch of the batches changes.
    epochs: list[tuple[int, int]] = field(default_factory=list)
    holes: list[Hole] = field(default_factory=list)
    #: By the base offset of the segment that holds the abort marker.
    aborted: dict[int, list[AbortedTransaction]] = field(default_factory=dict)
    commits: int = 0
    aborts: int = 0
    #: Markers that cannot be read, by their offset.
    bad_markers: list[tuple[int, str]] = field(default_factory=list)
    next_offset: int = 0
    #: Batches with fewer records than offsets: compaction has been here.
    thinned_batches: int = 0
    #: Stretches that were passed over because they are damaged.
    damaged_stretches: int = 0
    segment: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether every record since the beginning was seen: what was taken out may have told more."""
        return not (self.holes or self.thinned_batches or self.damaged_stretches)

    def begin(self, base_offset: int, is_first: bool) -> None:
        """A new segment; offsets before the first one are nobody's loss."""
        if is_first:
            self.next_offset = base_offset
        elif base_offset > self.next_offset:
            self.holes.append(Hole(self.next_offset, base_offset - 1, self.segment, True))
            self.next_offset = base_offset
        self.segment = base_offset

    def take(self, batch: Whole) -> None:
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
            self._take_marker(batch)
        else:
            self.producers.apply(header, base_offset, 0)

    def skip(self, damage: Damaged) -> None:
        """Offsets that are lost to damage are no hole."""
        self.damaged_stretches += 1
        self.next_offset = max(self.next_offset, damage.next_offset or 0)

    def _take_marker(self, batch: Whole) -> None:
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
        ended = self.producers.apply_marker(
            header,
            header.base_offset,
            committed=marker.committed,
            coordinator_epoch=marker.coordinator_epoch,
            now_ms=0,
        )
        if ended is not None and not ended.committed:
            self.aborted.setdefault(self.segment, []).append(self.producers.aborted(ended))


def sane_epochs(
    epochs: list[tuple[int, int]],
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Leader epochs that follow each other, and those that do not fit in between.

    The checksum of a batch does not cover its epoch. Epochs only grow along a log, so one that goes up and
    down again, or down and up, is not true.
    """
    sane = list(epochs)
    odd: list[tuple[int, int]] = []
    at = 0
    while at + 1 < len(sane):
        epoch, following = sane[at][0], sane[at + 1][0]
        if epoch == following:
            del sane[at + 1]
        elif epoch < following:
            at += 1
        elif at + 2 < len(sane) and sane[at + 2][0] >= epoch:
            odd.append(sane.pop(at + 1))
        else:
            odd.append(sane.pop(at))
            at = max(at - 1, 0)
    return sane, odd


def walk_partition(
    partition: PartitionFiles, history: History, *, contents: bool = False
) -> Iterator[tuple[SegmentFiles, Whole | Damaged | None]]:
    """Every batch and every damage of a partition, taken into ``history`` before it is yielded.

    Before the first batch of a segment comes one pair without a batch: ``history`` stands at its beginning.
    What the first snapshot says is where the history begins.
    """
    load_first_snapshot(partition, history.producers)
    for segment in partition.segments:
        history.begin(segment.base_offset, segment is partition.segments[0])
        yield segment, None
        with ReadOnlyFile(segment.path()) as file:
            for found in walk(file, segment.base_offset, segment.limit, contents=contents):
                if isinstance(found, Whole):
                    history.take(found)
                else:
                    history.skip(found)
                yield segment, found


def load_first_snapshot(partition: PartitionFiles, producers: ProducerStates) -> None:
    """Producers whose batches were deleted before the first segment."""
    if not partition.segments or partition.segments[0].base_offset not in partition.snapshots:
        return
    path = partition.path / file_name(partition.segments[0].base_offset, SNAPSHOT_SUFFIX)
    try:
        producers.load(path.read_bytes(), str(path), 0)
    except (CorruptFileError, OSError):
        producers.clear()
