"""Repairing a data directory beyond what recovery does by itself: a plan of steps, and doing them.

A damaged range is removed from its segment: the batches before and after it stay, with their offsets, and
the hole looks like that of a compaction. The damaged bytes go to a file beside the segment
(``<base>.log.<position>.damaged``), from which the old file can be put together again. Wrong indexes,
producer snapshots and leader epochs are rebuilt from the log.

Invariant: nothing is deleted. Planning only reads, and every step tells what it does before it does it. New
content is written to another file, flushed, verified if it is a log, and then renamed: a crash leaves the
old file or the new one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from moldau.inspection.contents import Offsets, read_offsets
from moldau.inspection.history import History, consistent_epochs, walk_partition
from moldau.inspection.layout import DAMAGED_SUFFIX, LogTarget, PartitionFiles, SegmentFiles
from moldau.inspection.segment_checks import IndexCheck
from moldau.inspection.verify import (
    SnapshotCheck,
    checkpoint_fault,
    epochs_fault,
    txn_index_fault,
)
from moldau.inspection.walk import DamagedRange, IntactBatch, ReadOnlyFile, walk
from moldau.storage.directory import checkpoints
from moldau.storage.errors import StorageError
from moldau.storage.file_names import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from moldau.storage.files import Files, OsFiles
from moldau.storage.log.indexes import OffsetIndex, TimeIndex
from moldau.storage.log.leader_epoch_cache import LeaderEpochCache
from moldau.storage.log.txn_index import AbortedTransaction, TxnIndex

_COPY_CHUNK = 4 * 1024 * 1024
_INDEX_INTERVAL_BYTES = 4096
#: A batch begins with its base offset.
_BASE_OFFSET_BYTES = 8


class RepairError(StorageError):
    """A step failed; everything is as it was before the step."""


# Steps -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RemoveDamage:
    """Removes damaged ranges; a batch of which only the offset is wrong gets the right one."""

    segment: SegmentFiles
    ranges: tuple[DamagedRange, ...]

    @property
    def text(self) -> str:
        taken = [each for each in self.ranges if each.correct_offset is None]
        pieces = ", ".join(f"{each.size} bytes at {each.position} ({each.reason})" for each in taken)
        offsets = ", ".join(
            f"{each.correct_offset} at {each.position} ({each.reason})"
            for each in self.ranges
            if each.correct_offset is not None
        )
        texts = [f"restore offset {offsets}"] if offsets else []
        texts += [f"move aside {pieces}"] if pieces else []
        return f"{self.segment.path()}: {', '.join(texts)}; keep all other batches with their offsets"

    def run(self, files: Files) -> None:
        path = self.segment.path()
        temporary = Path(f"{path}{TEMPORARY_SUFFIX}")
        with ReadOnlyFile(path) as source:
            for damaged in self.ranges:
                target = free_name(f"{path}.{damaged.position}")
                _copy(files, source, [(damaged.position, damaged.size)], target)
            _copy(files, source, list(self._kept(source)), temporary, rename=False)
            moved = sum(damaged.size for damaged in self.ranges if damaged.correct_offset is None)
            if temporary.stat().st_size + moved != source.size:
                raise RepairError(f"{path}: the parts do not add up to the whole; nothing was changed")
        contents = index_contents(temporary, self.segment.base_offset, self.segment.limit)
        for suffix, content in contents.items():
            files.write_atomically(str(self.segment.path(suffix)), content)
        files.rename(str(temporary), str(path))
        files.flush_directory(str(path.parent))

    def _kept(self, source: ReadOnlyFile) -> Iterator[tuple[int, int] | bytes]:
        position = 0
        for damaged in self.ranges:
            yield position, damaged.position - position
            if damaged.correct_offset is not None:
                batch = source.read(damaged.position, damaged.size)
                yield damaged.correct_offset.to_bytes(_BASE_OFFSET_BYTES, "big") + batch[_BASE_OFFSET_BYTES:]
            position = damaged.position + damaged.size
        yield position, source.size - position


@dataclass(frozen=True, slots=True)
class MoveSegmentAside:
    """Renames a segment without an intact batch."""

    segment: SegmentFiles

    @property
    def text(self) -> str:
        return f"{self.segment.path()}: move the whole segment aside, no batch in it is whole"

    def run(self, files: Files) -> None:
        for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
            path = str(self.segment.path(suffix))
            if files.exists(path):
                files.rename(path, str(free_name(path)))
        files.flush_directory(str(self.segment.directory))


@dataclass(frozen=True, slots=True)
class CreateSegment:
    """Creates an empty segment after lost records, so that their offsets are not used again."""

    directory: Path
    base_offset: int

    @property
    def text(self) -> str:
        path = self.directory / file_name(self.base_offset, LOG_SUFFIX)
        return f"{path}: begin a new segment, so that lost offsets are not given to other records"

    def run(self, files: Files) -> None:
        path = str(self.directory / file_name(self.base_offset, LOG_SUFFIX))
        assert not files.exists(path), f"{path} exists"
        files.write_atomically(path, b"")


@dataclass(frozen=True, slots=True)
class RebuildIndexes:
    segment: SegmentFiles
    faults: tuple[str, ...]

    @property
    def text(self) -> str:
        name = self.segment.path(OFFSET_INDEX_SUFFIX)
        return f"{name} and {TIME_INDEX_SUFFIX}: build anew from the log ({'; '.join(self.faults)})"

    def run(self, files: Files) -> None:
        path = self.segment.path()
        contents = index_contents(path, self.segment.base_offset, self.segment.limit)
        for suffix, content in contents.items():
            files.write_atomically(str(self.segment.path(suffix)), content)


@dataclass(frozen=True, slots=True)
class RewriteTxnIndex:
    segment: SegmentFiles
    entries: tuple[AbortedTransaction, ...]
    fault: str

    @property
    def text(self) -> str:
        path = self.segment.path(TXN_INDEX_SUFFIX)
        return f"{path}: write {len(self.entries)} aborted transaction(s) anew from the log ({self.fault})"

    def run(self, files: Files) -> None:
        path = str(self.segment.path(TXN_INDEX_SUFFIX))
        if files.exists(path) and not self.entries:
            files.rename(path, str(free_name(path)))
            return
        index = TxnIndex(files, path)
        index.entries = list(self.entries)
        index.rewrite()


@dataclass(frozen=True, slots=True)
class RewriteFile:
    """Writes a small file whose right content is known."""

    path: Path
    content: bytes
    fault: str

    @property
    def text(self) -> str:
        return f"{self.path}: write anew from the log ({self.fault})"

    def run(self, files: Files) -> None:
        if files.exists(str(self.path)):
            files.write_atomically(str(free_name(str(self.path))), files.read_whole(str(self.path)))
        files.write_atomically(str(self.path), self.content)


@dataclass(frozen=True, slots=True)
class MoveAside:
    """Renames a useless small file that a broker can do without."""

    path: Path
    fault: str

    @property
    def text(self) -> str:
        return f"{self.path}: move aside ({self.fault})"

    def run(self, files: Files) -> None:
        files.rename(str(self.path), str(free_name(str(self.path))))
        files.flush_directory(str(self.path.parent))


RepairStep: TypeAlias = (
    RemoveDamage
    | MoveSegmentAside
    | CreateSegment
    | RebuildIndexes
    | RewriteTxnIndex
    | RewriteFile
    | MoveAside
)


# The plan ----------------------------------------------------------------------------------------------


def plan_root(root: Path) -> list[RepairStep]:
    """The steps for the files at the root of a data directory."""
    steps: list[RepairStep] = []
    for name in checkpoints.OFFSET_CHECKPOINT_FILES:
        fault = checkpoint_fault(root, name)
        if fault is not None:
            steps.append(MoveAside(root / name, fault))
    return steps


def plan_partition(partition: PartitionFiles, root: Path | None) -> list[RepairStep]:
    """The steps for one partition; none where nothing is wrong or recovery is enough."""
    # Outside of a data directory no broker recovers the partition, so an incomplete end is repaired too.
    clean = root is None or (root / checkpoints.CLEAN_SHUTDOWN_FILE).exists()
    offsets = read_offsets(None if root is None else str(root))
    end = offsets.recovery_points.get(partition.name) if clean else None
    return _Planner(partition.ending_at(end), offsets, clean).plan()


def plan(target: LogTarget) -> list[RepairStep]:
    steps = plan_root(target.root) if target.root is not None and target.path == target.root else []
    for partition in target.partitions:
        steps += plan_partition(partition, target.root)
    return steps


@dataclass(slots=True)
class _Planner:
    partition: PartitionFiles
    offsets: Offsets
    clean: bool
    steps: list[RepairStep] = field(default_factory=list)
    history: History = field(default_factory=History)
    _damage: dict[int, list[DamagedRange]] = field(default_factory=dict)
    _intact: dict[int, int] = field(default_factory=dict)
    _indexes: dict[int, IndexCheck] = field(default_factory=dict)

    def plan(self) -> list[RepairStep]:
        snapshots = SnapshotCheck(self.partition)
        for segment, found in walk_partition(self.partition, self.history, contents=True):
            base = segment.base_offset
            if found is None:
                self._damage[base], self._intact[base] = [], 0
                self._indexes[base] = IndexCheck(segment)
                snapshots.compare(base, self.history)
            elif isinstance(found, DamagedRange):
                self._damage[base].append(found)
            else:
                self._intact[base] += 1
                self._indexes[base].add(found)
        snapshots.compare(self.history.next_offset, self.history)
        self._plan_segments()
        for offset, content in snapshots.contents.items():
            path = self.partition.path / file_name(offset, SNAPSHOT_SUFFIX)
            fault = "it cannot be used"
            self.steps.append(
                MoveAside(path, fault) if content is None else RewriteFile(path, content, fault)
            )
        self._plan_epochs()
        return self.steps

    def _plan_segments(self) -> None:
        flushed_up_to = max(
            self.offsets.recovery_points.get(self.partition.name, 0),
            self.offsets.high_watermarks.get(self.partition.name, 0),
        )
        new_end = flushed_up_to if self.partition.segments and flushed_up_to > self._end() else None
        for segment in self.partition.segments:
            moved = self._plan_segment(segment, keep_tail=new_end is None)
            if moved and segment.is_last and new_end is None:
                new_end = segment.base_offset
        if new_end is not None:
            self.steps.append(CreateSegment(self.partition.path, new_end))

    def _end(self) -> int:
        """The log end offset after a last batch got its right offset."""
        last = self._damage[self.partition.segments[-1].base_offset]
        restored = last and last[-1].next_offset is None and last[-1].correct_offset is not None
        limit = self.partition.segments[-1].limit
        return limit if restored and limit is not None else self.history.next_offset

    def _is_lost(self, segment: SegmentFiles) -> bool:
        """Whether nothing of a segment is left once its damage is removed."""
        damage = self._damage[segment.base_offset]
        kept = any(each.is_old_format or each.correct_offset is not None for each in damage)
        return bool(damage) and not kept and not self._intact[segment.base_offset]

    def _plan_segment(self, segment: SegmentFiles, *, keep_tail: bool) -> bool:
        """Whether the whole segment is moved aside."""
        base = segment.base_offset
        damage = [each for each in self._damage[base] if not each.is_old_format]
        if keep_tail and segment.is_last and damage and self._is_torn_end(damage[-1]):
            damage.pop()
        if damage and self._is_lost(segment):
            self.steps.append(MoveSegmentAside(segment))
            return True
        if damage:
            self.steps.append(RemoveDamage(segment, tuple(damage)))
        elif not any(not each.is_old_format for each in self._damage[base]):
            faults = self._indexes[base].faults(damaged=bool(self._damage[base]))
            if faults:
                texts = tuple(f"{suffix}: {fault}" for suffix, fault in faults.items())
                self.steps.append(RebuildIndexes(segment, texts))
        fault, entries = txn_index_fault(segment, self.history)
        if fault is not None:
            self.steps.append(RewriteTxnIndex(segment, tuple(entries), fault))
        return False

    def _is_torn_end(self, damage: DamagedRange) -> bool:
        """Whether the next start truncates it by itself."""
        recovery_point = self.offsets.recovery_points.get(self.partition.name, 0)
        if damage.correct_offset is not None:
            return False
        return damage.next_offset is None and not self.clean and damage.offset >= recovery_point

    def _plan_epochs(self) -> None:
        fault = epochs_fault(self.partition, self.offsets, self.history, clean=self.clean)
        if fault is None:
            return
        epochs = LeaderEpochCache(OsFiles(), str(self.partition.path))
        for epoch, offset in consistent_epochs(self.history.epochs)[0]:
            epochs.assign(epoch, offset)
        epochs.truncate_from_start(self.offsets.log_start_offsets.get(self.partition.name, 0))
        path = self.partition.path / checkpoints.LEADER_EPOCH_FILE
        self.steps.append(RewriteFile(path, epochs.content(), fault[0]))


# Doing it ----------------------------------------------------------------------------------------------


def index_contents(path: Path, base_offset: int, limit: int | None) -> dict[str, bytes]:
    """The content of both indexes of a log, in which every batch must be intact."""
    offsets = OffsetIndex(OsFiles(), "", base_offset)
    times = TimeIndex(OsFiles(), "", base_offset)
    indexed = 0
    latest = (-1, -1)
    with ReadOnlyFile(path) as file:
        for found in walk(file, base_offset, limit):
            if not isinstance(found, IntactBatch):
                if found.is_old_format:
                    continue
                raise RepairError(f"{path}: still damaged at {found.position}: {found.reason}")
            header = found.header
            if header.max_timestamp > latest[0]:
                latest = (header.max_timestamp, header.last_offset)
            if found.position - indexed > _INDEX_INTERVAL_BYTES:
                offsets.append(header.last_offset, found.position)
                times.append(*latest)
                indexed = found.position
    if latest[0] >= 0:
        times.append(*latest)
    return {OFFSET_INDEX_SUFFIX: offsets.encode(), TIME_INDEX_SUFFIX: times.encode()}


def free_name(path: str) -> Path:
    """An unused name for what is moved aside."""
    number = 0
    while True:
        target = Path(f"{path}{f'-{number}' if number else ''}{DAMAGED_SUFFIX}")
        if not target.exists():
            return target
        number += 1


def _copy(
    files: Files,
    source: ReadOnlyFile,
    pieces: Sequence[tuple[int, int] | bytes],
    target: Path,
    *,
    rename: bool = True,
) -> None:
    """Writes pieces of a file (position and size), or bytes, to a new file and flushes it."""
    temporary = f"{target}{TEMPORARY_SUFFIX}" if rename else str(target)
    written = files.create(temporary)
    try:
        for piece in pieces:
            if isinstance(piece, bytes):
                written.append(piece)
                continue
            position, size = piece
            while size > 0:
                chunk = source.read(position, min(size, _COPY_CHUNK))
                if not chunk:
                    raise RepairError(f"{source.path} became shorter while it was read")
                written.append(chunk)
                position += len(chunk)
                size -= len(chunk)
        written.flush()
    finally:
        written.close()
    if rename:
        files.rename(temporary, str(target))
        files.flush_directory(str(target.parent))
