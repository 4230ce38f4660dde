"""What the directory of a stopped broker says about its cluster: topics, configs, producer ids.

It is read from Moldau's ``metadata.sqlite`` or from the metadata log of Apache Kafka
(``__cluster_metadata-0``, with its newest snapshot). Where there is neither, only the names of partition
directories are known.

Invariant: reads only; Moldau's database is copied before it is opened, because opening it writes.
"""

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from moldau.base.names import Uuid
from moldau.cluster import kraft_records
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.kraft_records import KraftCluster
from moldau.cluster.records import MetadataError, ResourceType
from moldau.inspection import dump
from moldau.inspection.dump import DumpError
from moldau.inspection.layout import read_partition

KRAFT_DIRECTORY = "__cluster_metadata-0"
MOLDAU_FILE = "metadata.sqlite"
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class ImportFailed(Exception):
    """The import cannot be done; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class SourceTopic:
    topic_id: Uuid
    #: The leader epoch of each partition.
    leader_epochs: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class SourceMetadata:
    """What is known of the cluster that a directory comes from."""

    #: The file that it was read from, for the report.
    origin: str
    topics: Mapping[str, SourceTopic] = field(default_factory=dict)
    configs: Mapping[tuple[ResourceType, str], Mapping[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    #: What cannot be imported, and how many of each.
    left_out: Mapping[str, int] = field(default_factory=dict)


def read_metadata(root: Path) -> SourceMetadata | None:
    """None when the directory has no metadata."""
    if (root / MOLDAU_FILE).exists():
        return _of_moldau(read_moldau_image(root))
    if (root / KRAFT_DIRECTORY).is_dir():
        return _of_kraft(read_kraft_cluster(root / KRAFT_DIRECTORY))
    return None


# Moldau ------------------------------------------------------------------------------------------------


def read_moldau_image(root: Path) -> ClusterImage:
    """The cluster image in ``metadata.sqlite``; ImportFailed when it cannot be read."""
    from moldau.cluster.store.sqlite_log import SqliteLog

    with TemporaryDirectory(prefix="moldau-metadata-") as place:
        for name in (MOLDAU_FILE, f"{MOLDAU_FILE}-wal"):
            if (root / name).exists():
                shutil.copy(root / name, Path(place, name))
        try:
            log = SqliteLog(Path(place))
            try:
                return EMPTY_IMAGE.apply_all(log.load(0).records)
            finally:
                log.close()
        except MetadataError as error:
            raise ImportFailed(str(error).replace(place, str(root))) from error


def _of_moldau(image: ClusterImage) -> SourceMetadata:
    topics = {
        name: SourceTopic(topic.topic_id, {each.partition: each.leader_epoch for each in topic.partitions})
        for name, topic in image.topics_by_name.items()
    }
    return SourceMetadata(MOLDAU_FILE, topics, dict(image.overrides), image.next_producer_id)


# Apache Kafka ------------------------------------------------------------------------------------------


def read_kraft_cluster(directory: Path) -> KraftCluster:
    """The cluster in Kafka's metadata log; ImportFailed when it cannot be read."""
    try:
        snapshot, start = _newest_snapshot(directory)
        cluster = KraftCluster() if snapshot is None else kraft_records.replay(_values(snapshot, 0))
        segments = read_partition(directory).segments
        return kraft_records.replay(
            (value for segment in segments for value in _values(segment.path(), start)), cluster
        )
    except (DumpError, MetadataError) as error:
        raise ImportFailed(
            f"{directory}: {error} Move the directory away to import with the names of directories alone."
        ) from error


def _newest_snapshot(directory: Path) -> tuple[Path | None, int]:
    """The newest snapshot of the metadata log, and the offset from which the log has to be read."""
    found = [
        (match[1], match[2], path)
        for path in directory.iterdir()
        if (match := _SNAPSHOT.fullmatch(path.name))
    ]
    if not found:
        return None, 0
    offset, _, path = max(found)
    return path, int(offset)


def _values(path: Path, start: int) -> Iterator[bytes]:
    """The values of all records from an offset on, up to an incomplete batch at the end."""
    with path.open("rb") as file:
        for batch in dump.read_batches(file, str(path)):
            if not batch.valid:
                raise DumpError(f"the checksum of the batch at position {batch.position} does not match.")
            if batch.header.is_control or batch.header.last_offset < start:
                continue
            for record in dump.read_records(batch):
                if record.offset >= start and record.value is not None:
                    yield record.value


def _of_kraft(cluster: KraftCluster) -> SourceMetadata:
    topics = {
        topic.name: SourceTopic(topic.topic_id, dict(topic.leader_epochs))
        for topic in cluster.topics.values()
    }
    configs: dict[tuple[ResourceType, str], Mapping[str, str]] = {}
    known = {member.value for member in ResourceType}
    for (number, name), values in cluster.configs.items():
        if values and number in known:
            configs[ResourceType(number), name] = dict(values)
    left_out = {what: count for what, count in cluster.left_out.items() if count > 0}
    return SourceMetadata(KRAFT_DIRECTORY, topics, configs, cluster.next_producer_id, left_out)
