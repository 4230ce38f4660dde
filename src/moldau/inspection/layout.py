"""What is in a data directory, a partition directory or around one file, by names and sizes.

Invariant: opens nothing, locks nothing, changes nothing: the directory may belong to a running broker or to
Apache Kafka, or be on a read-only disk. Unknown files are listed, never guessed at.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from moldau.base.names import TopicPartition
from moldau.storage.directory import checkpoints
from moldau.storage.directory.log_directory import DELETE_SUFFIX, STRAY_SUFFIX, parse_directory_name
from moldau.storage.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    STRAY_FILE_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    file_name,
    offset_of,
    snapshot_offsets,
)

#: What a repair has moved aside.
DAMAGED_SUFFIX = ".damaged"
UNFINISHED_SUFFIX = ".unfinished"

#: Suffixes of files that are not in use, and what they mean.
LEFTOVERS = {
    CLEANED_SUFFIX: "a compaction was interrupted before it was done",
    SWAP_SUFFIX: "a compaction was interrupted while its result was put in place",
    DELETED_SUFFIX: "a deleted segment that waits to be removed",
    TEMPORARY_SUFFIX: "a write of a small file was interrupted",
    UNFINISHED_SUFFIX: "the fork or restore of a topic was interrupted, or is still on its way",
    STRAY_FILE_SUFFIX: "data that a recovery moved aside because the log before it was cut",
    DAMAGED_SUFFIX: "damaged bytes that a repair moved aside",
}

_KNOWN_NAMES = frozenset({checkpoints.LEADER_EPOCH_FILE, checkpoints.PARTITION_METADATA_FILE})


class NothingToRead(Exception):
    """There is no log at the path; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """A ``.log`` file and its indexes."""

    directory: Path
    base_offset: int
    size: int
    #: The base offset of the next segment; None for the active one.
    next_base_offset: int | None
    #: The log end offset after a clean shutdown; None where it is not known.
    log_end_offset: int | None = None

    @property
    def is_last(self) -> bool:
        return self.next_base_offset is None

    @property
    def limit(self) -> int | None:
        """Offsets from here on cannot be in this segment."""
        return self.log_end_offset if self.next_base_offset is None else self.next_base_offset

    def path(self, suffix: str = LOG_SUFFIX) -> Path:
        return self.directory / file_name(self.base_offset, suffix)


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    path: Path
    #: None when the directory is not named like a partition.
    topic_partition: TopicPartition | None
    segments: tuple[SegmentFiles, ...]
    snapshots: tuple[int, ...]
    #: Every regular file with its size.
    sizes: dict[str, int]

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def ending_at(self, log_end_offset: int | None) -> "PartitionFiles":
        """The same partition with a known log end offset."""
        if log_end_offset is None or not self.segments:
            return self
        *sealed, last = self.segments
        return replace(self, segments=(*sealed, replace(last, log_end_offset=log_end_offset)))

    def leftovers(self) -> Iterator[tuple[str, str]]:
        """The names of files that are not in use, and what they mean."""
        for name in self.sizes:
            for suffix, meaning in LEFTOVERS.items():
                if name.endswith(suffix):
                    yield name, meaning

    def orphans(self) -> list[str]:
        """Index files without a ``.log`` file."""
        return [
            name
            for name in self.sizes
            if name.endswith(INDEX_SUFFIXES)
            and (offset := offset_of(name)) is not None
            and file_name(offset, LOG_SUFFIX) not in self.sizes
        ]

    def unknown(self) -> list[str]:
        """Names of files that no broker writes."""
        suffixes = (LOG_SUFFIX, *INDEX_SUFFIXES, SNAPSHOT_SUFFIX)
        out_of_use = {name for name, _ in self.leftovers()}
        return [
            name
            for name in self.sizes
            if name not in _KNOWN_NAMES
            and name not in out_of_use
            and not (name.endswith(suffixes) and offset_of(name) is not None)
        ]


@dataclass(frozen=True, slots=True)
class LogTarget:
    """What a command shall look at: a data directory, a partition or one segment."""

    path: Path
    #: The data directory, which has the lock and the checkpoints; None if it is not known.
    root: Path | None
    partitions: tuple[PartitionFiles, ...]

    @property
    def size(self) -> int:
        return sum(partition.size for partition in self.partitions)


def find_target(path: Path) -> LogTarget:
    """A data directory, a partition directory or one file of it; NothingToRead for anything else."""
    if not path.exists():
        raise NothingToRead(f"{path} does not exist")
    path = path.resolve()
    if path.is_file():
        return _one_file(path)
    partition = read_partition(path)
    if partition.segments or checkpoints.PARTITION_METADATA_FILE in partition.sizes:
        return LogTarget(path, _root_of(path), (partition,))
    partitions = tuple(find_partitions(path))
    if not partitions and not (path / checkpoints.META_PROPERTIES_FILE).exists():
        raise NothingToRead(f"{path} holds neither partitions nor the files of one")
    return LogTarget(path, path, partitions)


def _one_file(path: Path) -> LogTarget:
    offset = offset_of(path.name)
    partition = read_partition(path.parent)
    segments = tuple(segment for segment in partition.segments if segment.base_offset == offset)
    if not segments:
        raise NothingToRead(f"{path} belongs to no segment: their names begin with an offset of 20 digits")
    alone = PartitionFiles(
        partition.path, partition.topic_partition, segments, partition.snapshots, partition.sizes
    )
    return LogTarget(path, _root_of(path.parent), (alone,))


def _root_of(partition: Path) -> Path | None:
    """The data directory that a partition directory is in, if it is in one."""
    parent = partition.parent
    names = (checkpoints.META_PROPERTIES_FILE, checkpoints.RECOVERY_POINT_FILE, checkpoints.LOCK_FILE)
    return parent if any((parent / name).exists() for name in names) else None


def find_partitions(root: Path) -> Iterator[PartitionFiles]:
    """The partitions of a data directory in the order of their names and numbers."""
    found = []
    for path in root.iterdir():
        topic_partition = parse_directory_name(path.name)
        if topic_partition is not None and path.is_dir():
            partition = read_partition(path)
            if partition.segments or checkpoints.PARTITION_METADATA_FILE in partition.sizes:
                found.append((topic_partition, partition))
    return (partition for _, partition in sorted(found, key=lambda pair: pair[0]))


def read_partition(path: Path) -> PartitionFiles:
    sizes: dict[str, int] = {}
    for entry in sorted(path.iterdir()):
        try:
            if entry.is_file():
                sizes[entry.name] = entry.stat().st_size
        except FileNotFoundError:
            continue  # a running broker has removed it meanwhile
    bases = [offset_of(name) for name in sizes if name.endswith(LOG_SUFFIX)]
    offsets = [offset for offset in bases if offset is not None]
    following: list[int | None] = [*offsets[1:], None] if offsets else []
    segments = tuple(
        SegmentFiles(path, offset, sizes[file_name(offset, LOG_SUFFIX)], after)
        for offset, after in zip(offsets, following, strict=True)
    )
    return PartitionFiles(
        path, parse_directory_name(path.name), segments, tuple(sorted(snapshot_offsets(sizes))), sizes
    )


def directories_out_of_use(root: Path) -> Iterator[tuple[str, str]]:
    """Directories of partitions that were deleted or renamed, and what that means."""
    for path in sorted(root.iterdir()):
        if path.is_dir() and path.name.endswith(DELETE_SUFFIX):
            yield path.name, "a deleted partition that waits to be removed"
        elif path.is_dir() and path.name.endswith(STRAY_SUFFIX):
            yield path.name, "a partition that was put aside because another topic has its name now"
