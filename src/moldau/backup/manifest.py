"""What one run of a backup has saved, as values and as JSON.

A backup is a folder of runs. Each run has a manifest that names everything that it consists of: chunks of
raw batches (those of earlier runs too, which are not copied again), and what else there was at that time.

Invariant: pure. A manifest carries the checksum of itself and of every file that it names; nothing that is
not named by a manifest belongs to a backup.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

FORMAT = "moldau-backup"
VERSION = 1
RUNS = "runs/"
CHUNKS = "chunks/"
SCHEMAS = "schemas/"


class BackupError(Exception):
    """A backup that cannot be used, or not like this; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class SavedFile:
    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Chunk(SavedFile):
    """Whole batches of one partition that follow each other, as they were in the log."""

    first_offset: int
    next_offset: int
    max_timestamp: int
    max_epoch: int


@dataclass(frozen=True, slots=True)
class PartitionBackup:
    log_start_offset: int
    log_end_offset: int
    chunks: tuple[Chunk, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicBackup:
    topic_id: str
    configs: dict[str, str]
    partitions: tuple[PartitionBackup, ...]


@dataclass(frozen=True, slots=True)
class GroupOffset:
    topic: str
    partition: int
    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class Run:
    """One ``moldau backup create``; ACLs are their seven fields, quotas an entity and its values."""

    run_id: str
    cluster_id: str | None
    started_ms: int
    finished_ms: int
    topics: dict[str, TopicBackup]
    groups: dict[str, tuple[GroupOffset, ...]] = field(default_factory=dict)
    acls: tuple[tuple[int, str, int, str, str, int, int], ...] = ()
    quotas: tuple[tuple[dict[str, str | None], dict[str, float]], ...] = ()
    broker_configs: dict[str, str] = field(default_factory=dict)
    schemas: SavedFile | None = None

    @property
    def chunks(self) -> list[Chunk]:
        return [chunk for t in self.topics.values() for p in t.partitions for chunk in p.chunks]

    @property
    def size(self) -> int:
        return sum(chunk.size for chunk in self.chunks)

    @property
    def own_size(self) -> int:
        """Bytes that this run itself has copied."""
        return sum(chunk.size for chunk in self.chunks if f"-{self.run_id}." in chunk.name)


def run_id_of(started_ms: int) -> str:
    """Names of runs sort as their times do."""
    moment = datetime.fromtimestamp(started_ms / 1000, UTC)
    return moment.strftime("%Y%m%dT%H%M%S") + f"{moment.microsecond // 1000:03d}Z"


def manifest_name(run_id: str) -> str:
    return f"{RUNS}{run_id}.json"


def chunk_name(topic: str, topic_id: str, partition: int, first_offset: int, run_id: str) -> str:
    """Unique for ever: no run writes over what another has written."""
    return f"{CHUNKS}{topic}/{topic_id}/{partition}/{first_offset:020d}-{run_id}.log"


def saved(name: str, data: bytes) -> SavedFile:
    return SavedFile(name, len(data), hashlib.sha256(data).hexdigest())


def write_manifest(run: Run) -> bytes:
    content = asdict(run)
    text = {"format": FORMAT, "version": VERSION, "sha256": _digest(content), "run": content}
    return (json.dumps(text, ensure_ascii=False, indent=1) + "\n").encode()


def read_manifest(name: str, data: bytes) -> Run:
    """BackupError when it is damaged, or not one that this release can read."""
    try:
        text: dict[str, Any] = json.loads(data)
        if text["format"] != FORMAT:
            raise BackupError(f"{name} says that this is {text['format']!r}, no backup")
        if text["version"] != VERSION:
            raise BackupError(f"{name}: backups of version {text['version']} cannot be read here")
        content = text["run"]
        if _digest(content) != text["sha256"]:
            raise BackupError(f"{name} is damaged: its checksum is another")
        return _run(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackupError(f"{name} is damaged: {error}") from error


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _run(content: dict[str, Any]) -> Run:
    topics = {name: _topic(each) for name, each in content.pop("topics").items()}
    groups = {
        name: tuple(GroupOffset(**each) for each in offsets)
        for name, offsets in content.pop("groups").items()
    }
    acls = tuple(tuple(each) for each in content.pop("acls"))
    quotas = tuple((entity, values) for entity, values in content.pop("quotas"))
    schemas = content.pop("schemas")
    return Run(
        **content,
        topics=topics,
        groups=groups,
        acls=acls,
        quotas=quotas,
        schemas=None if schemas is None else SavedFile(**schemas),
    )


def _topic(content: dict[str, Any]) -> TopicBackup:
    partitions = tuple(
        PartitionBackup(
            each["log_start_offset"],
            each["log_end_offset"],
            tuple(Chunk(**chunk) for chunk in each["chunks"]),
        )
        for each in content["partitions"]
    )
    return TopicBackup(content["topic_id"], content["configs"], partitions)


def kept_chunks(chunks: Iterable[Chunk], log_start_offset: int, agreed_end: int) -> tuple[Chunk, ...]:
    """The chunks of an earlier run that the source still has as they were copied.

    ``agreed_end``: from there on the source has other records than those that were copied, or none.
    """
    kept = []
    for chunk in chunks:
        if chunk.next_offset > agreed_end:
            break
        if chunk.next_offset > log_start_offset:
            kept.append(chunk)
    return tuple(kept)


def may_continue(previous_ms: int, now_ms: int, configs: Mapping[str, str | None]) -> bool:
    """Whether a topic can be copied from where the earlier run ended.

    Compaction takes a tombstone ``delete.retention.ms`` after it came. A run that comes later than that may
    not see it any more, and the key that it deleted would come back: such a topic is copied anew.
    """
    if "compact" not in (configs.get("cleanup.policy") or ""):
        return True
    try:
        kept_ms = int(configs.get("delete.retention.ms") or 0)
    except ValueError:
        kept_ms = 0
    return now_ms - previous_ms < kept_ms
