"""Making a new data directory from those of a stopped Apache Kafka (KRaft) or Moldau broker.

Partitions come with their topic ids, offsets and leader epochs. The offsets of groups and the state of
transactions are partitions too (``__consumer_offsets``, ``__transaction_state``), in the same format.

Invariant: sources are never changed: no lock, no rename, and a hard link only to a file that no broker
writes to any more. The new directory is built under a temporary name and renamed when everything is on
disk, so that an incomplete import is never taken for a complete one.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from moldau.base.names import TopicPartition, Uuid, parse_uuid
from moldau.cluster.configs.layers import NO_LAYERS, initial_default_broker_configs
from moldau.cluster.controller.config_changes import (
    ConfigChange,
    alter_default_broker,
    alter_group,
    alter_topic,
)
from moldau.cluster.records import (
    NO_LEADER,
    ClusterCreated,
    ConfigChanged,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
    ResourceType,
    TopicCreated,
)
from moldau.importing.metadata import ImportFailed, SourceMetadata, SourceTopic, read_metadata
from moldau.inspection import dump
from moldau.inspection.contents import read_offsets, stored_topic_id
from moldau.inspection.layout import NothingToRead, PartitionFiles, SegmentFiles, find_target
from moldau.protocol.errors import KafkaError
from moldau.storage.directory import checkpoints
from moldau.storage.directory.checkpoints import MetaProperties
from moldau.storage.directory.log_directory import new_id
from moldau.storage.errors import CorruptFileError
from moldau.storage.file_names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    file_name,
    offset_of,
)
from moldau.storage.files import OsFiles
from moldau.storage.log.leader_epoch_cache import LeaderEpochCache

STAGING_SUFFIX = ".importing"
_SEGMENT_SUFFIXES = (LOG_SUFFIX, *INDEX_SUFFIXES, SNAPSHOT_SUFFIX)
_SET = 0

#: Called with the bytes that were copied or linked since the last call.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class SourcePartition:
    files: PartitionFiles
    topic_partition: TopicPartition
    topic_id: Uuid
    #: Everything below it is flushed; the log end offset if the source was closed cleanly.
    recovery_point: int

    def file_names(self) -> Iterator[str]:
        """The files to import, including those of an interrupted compaction, which recovery completes."""
        for name in self.files.sizes:
            stem = name.removesuffix(SWAP_SUFFIX).removesuffix(CLEANED_SUFFIX)
            if name == checkpoints.LEADER_EPOCH_FILE or (
                stem.endswith(_SEGMENT_SUFFIXES) and offset_of(stem) is not None
            ):
                yield name

    def may_be_linked(self, name: str) -> bool:
        """Sealed segments below the recovery point: no broker writes to them or truncates them."""
        return any(_is_sealed(segment, name, self.recovery_point) for segment in self.files.segments)


def _is_sealed(segment: SegmentFiles, name: str, recovery_point: int) -> bool:
    following = segment.next_base_offset
    return following is not None and following <= recovery_point and name == segment.path().name


@dataclass(frozen=True, slots=True)
class ImportPlan:
    sources: tuple[Path, ...]
    target: Path
    node_id: int
    cluster_id: str
    link: bool
    clean: bool
    origin: str
    partitions: tuple[SourcePartition, ...]
    records: tuple[Record, ...]
    #: By the name of the checkpoint file.
    offsets: Mapping[str, Mapping[TopicPartition, int]]
    #: What the user should know before the import.
    remarks: tuple[str, ...]

    @property
    def size(self) -> int:
        return sum(p.files.sizes[name] for p in self.partitions for name in p.file_names())

    @property
    def topics(self) -> list[str]:
        return sorted({partition.topic_partition.topic for partition in self.partitions})


# The plan ----------------------------------------------------------------------------------------------


def plan_import(
    sources: Sequence[Path],
    target: Path,
    *,
    node_id: int = 1,
    cluster_id: str | None = None,
    link: bool = False,
) -> ImportPlan:
    """What an import would do; ImportFailed when it cannot be done."""
    _check_target(sources, target)
    roots = [_data_directory(source) for source in sources]
    identities = [_identity(root) for root in roots]
    remarks: list[str] = []
    found = [metadata for root in roots if (metadata := read_metadata(root)) is not None]
    metadata = found[0] if found else SourceMetadata("the names of directories")
    if not found:
        remarks.append(
            "no metadata is there (Kafka keeps __cluster_metadata-0 in metadata.log.dir or the first of "
            "log.dirs): topic configs are not imported, and a topic has the partitions that are found"
        )
    clean = all((root / checkpoints.CLEAN_SHUTDOWN_FILE).exists() for root in roots)
    if not clean:
        remarks.append("the source was not closed in order: the first start checks every log")
    partitions = _partitions(roots, metadata if found else None, remarks)
    topics = _topics(partitions, metadata, remarks)
    configs = _configs(metadata, topics, remarks)
    remarks += (f"{count} {what} are not imported" for what, count in metadata.left_out.items())
    known_id = next((identity.cluster_id for identity in identities if identity is not None), None)
    made_id = cluster_id or known_id or new_id(OsFiles())
    records = _records(made_id, node_id, topics, configs, _next_producer_id(metadata, partitions))
    return ImportPlan(
        *(tuple(roots), target, node_id, made_id, link, clean, metadata.origin),
        *(tuple(partitions), tuple(records), _offsets(roots, partitions), tuple(remarks)),
    )


def _check_target(sources: Sequence[Path], target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ImportFailed(f"{target} is not empty: give the name of a new directory")
    if staging(target).exists():
        raise ImportFailed(f"{staging(target)} is left of an import that did not end: remove it first")
    for source in sources:
        if source.resolve() in (target.resolve(), *target.resolve().parents):
            raise ImportFailed(f"{target} lies inside of {source}: give another place")


def _data_directory(source: Path) -> Path:
    try:
        target = find_target(source)
    except NothingToRead as error:
        raise ImportFailed(str(error)) from error
    if target.root != target.path:
        raise ImportFailed(f"{source} is not a whole data directory: give the one that holds meta.properties")
    return target.path


def _identity(root: Path) -> MetaProperties | None:
    try:
        return checkpoints.read_meta_properties(OsFiles(), str(root))
    except CorruptFileError as error:
        raise ImportFailed(f"{error}: is this a broker's data directory?") from error


def _partitions(
    roots: Iterable[Path], metadata: SourceMetadata | None, remarks: list[str]
) -> list[SourcePartition]:
    """Every partition once, with the id of its topic; partitions without a topic are left out."""
    found: dict[TopicPartition, SourcePartition] = {}
    listed = [(root, files) for root in roots for files in find_target(root).partitions]
    ids = _ids_by_name([files for _, files in listed]) if metadata is None else {}
    recovery_points = {root: read_offsets(str(root)).recovery_points for root, _ in listed}
    for root, files in listed:
        topic_partition = files.topic_partition
        assert topic_partition is not None, "a partition of a data directory has a name"
        topic_id = _topic_id(files, metadata, topic_partition.topic, ids)
        if topic_id is None:
            remarks.append(f"{files.path} belongs to no topic of the metadata and stays behind")
        elif topic_partition in found:
            taken = found[topic_partition].files.path
            remarks.append(f"{files.path} stays behind: {taken} holds the same partition")
        else:
            point = recovery_points[root].get(files.name, 0)
            found[topic_partition] = SourcePartition(files, topic_partition, topic_id, point)
    return [found[topic_partition] for topic_partition in sorted(found)]


def _ids_by_name(partitions: Iterable[PartitionFiles]) -> dict[str, Uuid]:
    """An id for every topic: that of one of its partitions, or a new one."""
    ids: dict[str, Uuid] = {}
    names = set()
    for files in partitions:
        topic = files.topic_partition.topic if files.topic_partition is not None else ""
        names.add(topic)
        stored = stored_topic_id(files)
        if stored is not None:
            ids.setdefault(topic, stored)
    return {topic: ids.get(topic) or parse_uuid(new_id(OsFiles())) for topic in names}


def _topic_id(
    files: PartitionFiles, metadata: SourceMetadata | None, topic: str, ids: Mapping[str, Uuid]
) -> Uuid | None:
    stored = stored_topic_id(files)
    if metadata is None:
        return stored or ids[topic]
    known = metadata.topics.get(topic)
    return None if known is None or stored not in (None, known.topic_id) else known.topic_id


def _topics(
    partitions: Iterable[SourcePartition], metadata: SourceMetadata, remarks: list[str]
) -> dict[str, SourceTopic]:
    """The topics to create, with the leader epoch of every partition, also of those without data."""
    epochs: dict[str, dict[int, int]] = {}
    ids: dict[str, Uuid] = {}
    for each in partitions:
        topic, partition = each.topic_partition
        if ids.setdefault(topic, each.topic_id) != each.topic_id:
            raise ImportFailed(f"the partitions of {topic} have different topic ids: verify the source first")
        known = metadata.topics.get(topic)
        stored = known.leader_epochs.get(partition, 0) if known is not None else 0
        epochs.setdefault(topic, {})[partition] = max(stored, _last_epoch(each.files), 0)
    for topic, found in epochs.items():
        known = metadata.topics.get(topic)
        expected = {*(known.leader_epochs if known is not None else ()), *range(max(found))}
        missing = sorted(expected - found.keys())
        if missing:
            shown = ", ".join(map(str, missing))
            remarks.append(
                f"partition(s) {shown} of {topic} are not in the source and begin empty at offset 0"
            )
        found.update(dict.fromkeys(missing, 0))
    left = sorted(metadata.topics.keys() - epochs.keys())
    if left:
        remarks.append(f"topic(s) without a partition in the source stay behind: {', '.join(left)}")
    return {topic: SourceTopic(ids[topic], found) for topic, found in sorted(epochs.items())}


def _last_epoch(files: PartitionFiles) -> int:
    epochs = LeaderEpochCache(OsFiles(), str(files.path))
    try:
        epochs.load()
    except CorruptFileError:
        return -1
    return epochs.latest


def _configs(
    metadata: SourceMetadata, topics: Mapping[str, SourceTopic], remarks: list[str]
) -> list[ConfigChanged]:
    """The configs that Moldau accepts; the others are in the remarks."""
    found: list[ConfigChanged] = []
    if (ResourceType.BROKER, "") not in metadata.configs:
        defaults = initial_default_broker_configs(NO_LAYERS)
        found += (ConfigChanged(ResourceType.BROKER, "", *pair) for pair in defaults.items())
    for (kind, resource), values in metadata.configs.items():
        if kind is ResourceType.TOPIC and resource not in topics:
            continue
        if (kind is ResourceType.BROKER and resource) or kind not in _ACCEPT:
            shown = f"{kind.name.lower().replace('_', ' ')} {resource}"
            remarks.append(f"configs of {shown} are not imported: {', '.join(sorted(values))}")
            continue
        accepted: dict[str, str] = {}
        for name, value in values.items():
            try:
                accepted = _ACCEPT[kind](accepted, [ConfigChange(name, _SET, value)])
            except KafkaError as error:
                remarks.append(
                    f"{resource or 'all brokers'}: {name}={value} is not imported: {error.message}"
                )
        found += (ConfigChanged(kind, resource, *pair) for pair in accepted.items())
    return found


_ACCEPT: Mapping[ResourceType, Callable[[Mapping[str, str], Sequence[ConfigChange]], dict[str, str]]] = {
    ResourceType.TOPIC: lambda current, changes: alter_topic(NO_LAYERS, current, changes),
    ResourceType.GROUP: lambda current, changes: alter_group(NO_LAYERS, current, changes),
    ResourceType.BROKER: lambda current, changes: alter_default_broker(
        NO_LAYERS._replace(default_broker=current), changes
    ),
}


def _next_producer_id(metadata: SourceMetadata, partitions: Iterable[SourcePartition]) -> int:
    """Above every producer id in the metadata and in the snapshots of the partitions."""
    largest = metadata.next_producer_id - 1
    for partition in partitions:
        for offset in partition.files.snapshots:
            path = partition.files.path / file_name(offset, SNAPSHOT_SUFFIX)
            try:
                entries = dump.producer_entries(path.read_bytes())
            except dump.DumpError:
                continue
            largest = max([largest, *(entry.producer_id for entry in entries)])
    return largest + 1


def _records(
    cluster_id: str,
    node_id: int,
    topics: Mapping[str, SourceTopic],
    configs: Iterable[ConfigChanged],
    next_producer_id: int,
) -> Iterator[Record]:
    yield ClusterCreated(cluster_id)
    if next_producer_id:
        yield ProducerIdsAllocated(NO_LEADER, 0, next_producer_id)
    for name, topic in topics.items():
        yield TopicCreated(topic.topic_id, name)
        for partition in sorted(topic.leader_epochs):
            epoch = topic.leader_epochs[partition]
            yield PartitionChanged(topic.topic_id, partition, (node_id,), (node_id,), NO_LEADER, epoch, 0)
    yield from configs


def _offsets(
    roots: Iterable[Path], partitions: Iterable[SourcePartition]
) -> dict[str, dict[TopicPartition, int]]:
    wanted = {partition.files.path: partition.topic_partition for partition in partitions}
    found: dict[str, dict[TopicPartition, int]] = {}
    for name in checkpoints.OFFSET_CHECKPOINT_FILES:
        offsets = found[name] = {}
        for root in roots:
            try:
                stored = checkpoints.read_offsets(OsFiles(), str(root / name))
            except CorruptFileError:
                continue
            here = (tp for path, tp in wanted.items() if path.parent == root and tp in stored)
            offsets.update({tp: stored[tp] for tp in here})
    return found


# The import --------------------------------------------------------------------------------------------


def staging(target: Path) -> Path:
    return target.with_name(f"{target.name}{STAGING_SUFFIX}")


def run_import(plan: ImportPlan, progress: Progress = lambda size: None) -> None:
    """Creates the directory; ImportFailed or OSError leaves the incomplete one under its temporary name."""
    place = staging(plan.target)
    place.mkdir(parents=True)
    files = OsFiles()
    for partition in plan.partitions:
        _import_partition(plan, partition, place / str(partition.topic_partition), progress)
    for name, offsets in plan.offsets.items():
        checkpoints.write_offsets(files, str(place / name), offsets)
    _write_metadata(place, plan.records)
    identity = MetaProperties(plan.node_id, plan.cluster_id, new_id(files))
    sources = ", ".join(map(str, plan.sources)).replace("\n", " ")
    checkpoints.write_meta_properties(files, str(place), identity, f"imported from {sources}")
    if plan.clean:
        checkpoints.write_clean_shutdown(files, str(place), 0)
    files.flush_directory(str(place))
    if plan.target.exists():
        plan.target.rmdir()  # ``plan_import`` has checked that it is empty
    place.rename(plan.target)
    files.flush_directory(str(plan.target.resolve().parent))


def _import_partition(
    plan: ImportPlan, partition: SourcePartition, directory: Path, progress: Progress
) -> None:
    directory.mkdir()
    for name in partition.file_names():
        source = partition.files.path / name
        if plan.link and partition.may_be_linked(name):
            _link(source, directory / name)
        else:
            _copy(source, directory / name)
        progress(partition.files.sizes[name])
    checkpoints.write_topic_id(OsFiles(), str(directory), partition.topic_id)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError as error:
        raise ImportFailed(
            f"{source} cannot be linked ({error.strerror}): leave out --link to copy, or choose a directory "
            "on the same file system"
        ) from error


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with target.open("rb+") as copied:
        os.fsync(copied.fileno())


def _write_metadata(place: Path, records: Sequence[Record]) -> None:
    from moldau.cluster.store.sqlite_log import SqliteLog

    log = SqliteLog(place)
    try:
        log.append(records, 0, log.increment_controller_epoch())
    finally:
        log.close()
