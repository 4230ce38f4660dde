"""A topic as files, and back: the batches with their offsets, the configs, and checksums of it all.

    manifest = await take_snapshot(cluster, "orders", writer, now_ms=now)
    restored = await restore_snapshot(cluster, read_snapshot("orders.tar.zst"), name="orders-again")

Taking a snapshot is plain reading, so that it works with every Kafka; it ends at the last stable offset, or
as of a time. Restoring asks for APIs of our own, for no client of Kafka can choose offsets.

Invariant: a restored topic has the same records at the same offsets or does not exist. Every file is
compared with its checksum, every batch with its own; what was sent before a difference was found is given
up.
"""

import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from moldau.base.names import TopicPartition, Uuid, format_uuid, topic_name_error
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    ConfigResource,
    ConfigSource,
    ListedOffset,
    ResourceType,
)
from moldau.client.consumer.raw_reader import read_raw
from moldau.client.snapshots.files import CHECKSUM_FILE, MANIFEST_FILE, SnapshotFileError, SnapshotWriter
from moldau.client.snapshots.time_travel import ends_as_of
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.connection import Connection, error_code
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.begin_restore import BeginRestoreRequest, RestoreConfig, RestorePartition
from moldau.protocol.messages.end_restore import EndRestoreRequest, EndRestoreResponse
from moldau.protocol.messages.restore_batches import RestoreBatchesRequest
from moldau.protocol.records import batches, crc_matches, truncate_batch

FORMAT = "moldau-snapshot"
VERSION = 1
#: A file of a snapshot is closed when it has so many bytes.
_FILE_BYTES = 16 * 1024 * 1024
#: Most of what one request carries, unless a single batch is larger.
_REQUEST_BYTES = 1024 * 1024
_DECODED_LIMIT = 256 * 1024 * 1024
_BATCH_FILE = re.compile(r"(.+)-(\d{1,10})/(\d{20})\.log")

#: Called with the bytes that were read or sent since the last call.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class SnapshotPartition:
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What stands at the front of a snapshot; partitions in their order."""

    topic: str
    topic_id: str
    cluster_id: str | None
    taken_ms: int
    configs: dict[str, str]
    partitions: list[SnapshotPartition]
    format: str = FORMAT
    version: int = VERSION
    #: Bytes of all batches; filled in while the snapshot is taken, and not part of the file.
    size: int = field(default=0, compare=False)

    def to_json(self) -> bytes:
        values = {"format": self.format, "version": self.version, **asdict(self)}
        del values["size"]
        return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()


def read_manifest(data: bytes) -> Manifest:
    """SnapshotFileError when it is not one that this release can read."""
    try:
        values: dict[str, Any] = json.loads(data)
        if values["format"] != FORMAT:
            raise SnapshotFileError(f"{MANIFEST_FILE} says that this is {values['format']!r}, no snapshot")
        if values["version"] != VERSION:
            raise SnapshotFileError(f"snapshots of version {values['version']} cannot be read here")
        partitions = [SnapshotPartition(**each) for each in values.pop("partitions")]
        return Manifest(partitions=partitions, **values)
    except (ValueError, KeyError, TypeError) as error:
        raise SnapshotFileError(f"{MANIFEST_FILE} is broken: {error}") from error


# Taking -----------------------------------------------------------------------------------------------------


async def take_snapshot(
    cluster: Cluster,
    topic: str,
    writer: SnapshotWriter,
    *,
    now_ms: int,
    timestamp_ms: int | None = None,
    progress: Progress = lambda size: None,
) -> Manifest:
    """Writes a topic up to its last stable offset, or as of a time, and closes the writer."""
    described = await cluster.topic(topic, refresh=True)
    partitions = [TopicPartition(topic, each.index) for each in described.partitions]
    bounds = await _bounds(cluster, partitions, timestamp_ms)
    manifest = Manifest(
        topic,
        format_uuid(described.topic_id),
        cluster.cluster_id,
        now_ms,
        await _own_configs(cluster, topic),
        [SnapshotPartition(*bounds[partition]) for partition in partitions],
    )
    sums: list[str] = []
    size = 0

    def add(name: str, data: bytes) -> None:
        writer.add(name, data)
        sums.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")

    add(MANIFEST_FILE, manifest.to_json())
    for partition in partitions:
        async for offset, data in _files(cluster, partition, *bounds[partition]):
            add(f"{partition}/{offset:020d}.log", data)
            size += len(data)
            progress(len(data))
    writer.add(CHECKSUM_FILE, "".join(sums).encode())
    writer.close()
    return Manifest(
        manifest.topic,
        manifest.topic_id,
        manifest.cluster_id,
        now_ms,
        manifest.configs,
        manifest.partitions,
        size=size,
    )


async def _bounds(
    cluster: Cluster, partitions: list[TopicPartition], timestamp_ms: int | None
) -> dict[TopicPartition, tuple[int, int]]:
    admin = Admin(cluster)
    starts = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    raise_errors(starts)
    if timestamp_ms is None:
        latest = await admin.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level=READ_COMMITTED)
        raise_errors(latest)
        ends = {p: found.offset for p, found in latest.items() if isinstance(found, ListedOffset)}
    else:
        ends = await ends_as_of(cluster, partitions, timestamp_ms, isolation_level=READ_COMMITTED)
    bounds = {}
    for partition in partitions:
        start = starts[partition]
        assert isinstance(start, ListedOffset)
        bounds[partition] = start.offset, max(ends[partition], start.offset)
    return bounds


async def _own_configs(cluster: Cluster, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = await Admin(cluster).describe_configs([resource])
    raise_errors(found)
    entries = found[resource]
    assert isinstance(entries, list)
    own = (each for each in entries if each.source == ConfigSource.DYNAMIC_TOPIC_CONFIG)
    return {each.name: each.value for each in own if each.value is not None}


async def _files(
    cluster: Cluster, partition: TopicPartition, start: int, end: int
) -> AsyncIterator[tuple[int, bytes]]:
    """The batches of a partition in pieces, each with the offset of its first batch."""
    waiting = bytearray()
    first = start
    async for piece in read_raw(cluster, partition, start, end):
        for position, header in batches(piece.records):
            if header.base_offset >= end:
                break
            if not crc_matches(piece.records, position, header.size):
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"the batch of {partition} at offset {header.base_offset} has a wrong checksum",
                )
            batch: Any = piece.records[position : position + header.size]
            if header.last_offset >= end:
                batch = truncate_batch(piece.records, position, header, end, limit=_DECODED_LIMIT) or b""
            if not waiting:
                first = header.base_offset
            waiting += batch
        if len(waiting) >= _FILE_BYTES:
            yield first, bytes(waiting)
            waiting = bytearray()
    if waiting:
        yield first, bytes(waiting)


# Bringing back ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RestoredTopic:
    name: str
    topic_id: Uuid
    manifest: Manifest
    partitions: tuple[SnapshotPartition, ...]


async def restore_snapshot(
    cluster: Cluster,
    files: Iterable[tuple[str, bytes]],
    *,
    name: str | None = None,
    configs: Mapping[str, str | None] | None = None,
    progress: Progress = lambda size: None,
) -> RestoredTopic:
    """Makes the topic of a snapshot, under its old name or a new one; ``configs`` change those it had."""
    entries = iter(files)
    first = next(entries, None)
    if first is None or first[0] != MANIFEST_FILE:
        raise SnapshotFileError(f"a snapshot begins with {MANIFEST_FILE}: this is none")
    manifest = read_manifest(first[1])
    topic = name or manifest.topic
    problem = topic_name_error(topic)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    wanted: dict[str, str | None] = {**manifest.configs, **(configs or {})}
    connection = await cluster.controller()
    topic_id = await _begin(connection, topic, manifest, wanted)
    try:
        await _send_all(connection, topic_id, manifest, first, entries, progress)
        answer = await _end(connection, topic_id, commit=True)
    except BaseException:
        if not connection.closed:
            await connection.send(EndRestoreRequest(topic_id=topic_id, commit=False))
        raise
    made = tuple(SnapshotPartition(p.log_start_offset, p.log_end_offset) for p in answer.partitions)
    return RestoredTopic(topic, topic_id, manifest, made)


async def _begin(
    connection: Connection, topic: str, manifest: Manifest, configs: Mapping[str, str | None]
) -> Uuid:
    request = BeginRestoreRequest(
        name=topic,
        partitions=[RestorePartition(p.log_start_offset, p.log_end_offset) for p in manifest.partitions],
        configs=[RestoreConfig(key, value) for key, value in configs.items() if value is not None],
    )
    answer = await connection.send(request)
    if answer.error_code:
        raise KafkaError(error_code(answer.error_code), answer.error_message)
    topic_id: Uuid = answer.topic_id
    return topic_id


async def _end(connection: Connection, topic_id: Uuid, *, commit: bool) -> EndRestoreResponse:
    answer: EndRestoreResponse = await connection.send(EndRestoreRequest(topic_id=topic_id, commit=commit))
    if answer.error_code:
        raise KafkaError(error_code(answer.error_code), answer.error_message)
    return answer


async def _send_all(
    connection: Connection,
    topic_id: Uuid,
    manifest: Manifest,
    first: tuple[str, bytes],
    entries: Iterator[tuple[str, bytes]],
    progress: Progress,
) -> None:
    """Every batch in order; SnapshotFileError when the checksums are not those of the files."""
    digests = {first[0]: hashlib.sha256(first[1]).hexdigest()}
    for name, data in entries:
        if name == CHECKSUM_FILE:
            _compare(data, digests)
            return
        found = _BATCH_FILE.fullmatch(name)
        if found is None or int(found[2]) >= len(manifest.partitions):
            raise SnapshotFileError(f"{name} has no place in a snapshot of {manifest.topic}")
        digests[name] = hashlib.sha256(data).hexdigest()
        for piece in _pieces(data):
            request = RestoreBatchesRequest(topic_id=topic_id, partition_index=int(found[2]), records=piece)
            answer = await connection.send(request)
            if answer.error_code:
                raise KafkaError(error_code(answer.error_code), f"{name}: {answer.error_message}")
            progress(len(piece))
    raise SnapshotFileError(f"{CHECKSUM_FILE} is missing: the snapshot is cut off")


def _compare(data: bytes, digests: Mapping[str, str]) -> None:
    expected = {}
    for line in data.decode(errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        expected[name] = digest
    for name in {*expected, *digests}:
        if expected.get(name) != digests.get(name):
            raise SnapshotFileError(f"{name} is not what {CHECKSUM_FILE} says: the snapshot is damaged")


def _pieces(data: bytes) -> Iterator[bytes]:
    """Whole batches, about as many as fit into a request."""
    start = end = 0
    for position, header in batches(data):
        if position + header.size - start > _REQUEST_BYTES and end > start:
            yield data[start:end]
            start = end
        end = position + header.size
    if end > start:
        yield data[start:end]
    if end != len(data):
        raise SnapshotFileError("a file of the snapshot ends in the middle of a batch")
