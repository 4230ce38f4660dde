"""Taking a backup: reads topics, offsets of groups, ACLs, quotas and configs, and writes what is new.

Invariant: plain requests of Kafka's protocol, so that every Kafka can be backed up. Batches are saved as the
log has them, control batches included, after their checksums are compared. The manifest is written last: a
run that was interrupted does not exist, and nothing of an earlier run is touched.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from moldau.backup.manifest import (
    SCHEMAS,
    BackupError,
    Chunk,
    GroupOffset,
    PartitionBackup,
    Run,
    TopicBackup,
    chunk_name,
    kept_chunks,
    manifest_name,
    may_continue,
    run_id_of,
    saved,
    write_manifest,
)
from moldau.backup.runs import latest_run
from moldau.base.names import TopicPartition, format_uuid
from moldau.base.object_stores import Store
from moldau.base.tasks import together
from moldau.client.admin.access import Access
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import (
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    EpochEndOffset,
    ResourceType,
)
from moldau.client.consumer.partition_fetcher import PartitionFetcher
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster, Topic
from moldau.mirror.rules.filters import NameFilter
from moldau.mirror.source import Bounds, source_bounds
from moldau.mirror.topics import FENCE, OWN_CONFIGS
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import batches, crc_matches

log = logging.getLogger("moldau.backup")

#: A chunk is closed when it has so many bytes; so many partitions are read at once. Their product, and what
#: one fetch brings, is the memory that a backup takes.
_CHUNK_BYTES = 32 * 1024 * 1024
_PARTITIONS_AT_ONCE = 4
_FETCH_BYTES = 8 * 1024 * 1024
_NOT_THERE = frozenset({ErrorCode.SECURITY_DISABLED, ErrorCode.UNSUPPORTED_VERSION})

#: Called with the bytes that were saved since the last call.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    topics: NameFilter
    groups: NameFilter
    #: Everything is copied again, whatever earlier runs have.
    full: bool = False


class _Source(NamedTuple):
    cluster: Cluster
    store: Store
    run_id: str
    progress: Progress
    at_once: asyncio.Semaphore


async def take_backup(
    cluster: Cluster,
    store: Store,
    wanted: Wanted,
    *,
    now_ms: Callable[[], int],
    schemas: bytes | None = None,
    progress: Progress = lambda size: None,
) -> Run:
    """Saves what earlier runs have not, and the manifest of it all."""
    started_ms = now_ms()
    previous = await asyncio.to_thread(latest_run, store)
    if previous is not None and previous.run_id >= run_id_of(started_ms):
        raise BackupError(
            f"the run {previous.run_id} is not in the past: is the clock of this machine right?"
        )
    if previous is not None and previous.cluster_id != cluster.cluster_id:
        raise BackupError(
            f"there is a backup of cluster {previous.cluster_id}, and this is {cluster.cluster_id}: give it "
            "a place of its own"
        )
    run_id = run_id_of(started_ms)
    source = _Source(cluster, store, run_id, progress, asyncio.Semaphore(_PARTITIONS_AT_ONCE))
    # Groups first: what they have read is certainly in what is copied after it.
    groups = await _groups(cluster, wanted)
    found = [t for t in await cluster.topics(None) if not t.error_code and not t.is_internal]
    topics = {}
    for topic in sorted((t for t in found if t.name in wanted.topics), key=lambda t: t.name):
        before = None if previous is None or wanted.full else previous.topics.get(topic.name)
        earlier_ms = 0 if previous is None else previous.started_ms
        try:
            topics[topic.name] = await _topic(source, topic, before, earlier_ms, started_ms)
        except KafkaError:
            if await _is_there(cluster, topic):
                raise
            log.warning("%s was deleted while it was copied: it is left out", topic.name)
    schemas_file = None if schemas is None else saved(f"{SCHEMAS}{run_id}.jsonl", schemas)
    if schemas_file is not None and schemas is not None:
        await asyncio.to_thread(store.put, schemas_file.name, schemas)
    run = Run(
        run_id,
        cluster.cluster_id,
        started_ms,
        now_ms(),
        topics,
        groups,
        await _acls(cluster),
        await _quotas(cluster),
        await _broker_configs(cluster),
        schemas_file,
    )
    newest = await asyncio.to_thread(latest_run, store)
    if newest is not None and (previous is None or newest.run_id != previous.run_id):
        # Whoever prunes takes the files of this run for leftovers: they are older than a whole run.
        raise BackupError(f"the run {newest.run_id} was made at the same time: run this one again")
    await asyncio.to_thread(store.put, manifest_name(run_id), write_manifest(run))
    return run


async def _is_there(cluster: Cluster, topic: Topic) -> bool:
    return any(
        each.name == topic.name and each.topic_id == topic.topic_id and not each.error_code
        for each in await cluster.topics(None)
    )


# Topics -----------------------------------------------------------------------------------------------------


async def _topic(
    source: _Source, topic: Topic, before: TopicBackup | None, earlier_ms: int, now_ms: int
) -> TopicBackup:
    resource = ConfigResource(ResourceType.TOPIC, topic.name)
    described = await Admin(source.cluster).describe_configs([resource])
    raise_errors(described)
    entries = described[resource]
    assert isinstance(entries, list)
    topic_id = format_uuid(topic.topic_id)
    if before is not None and before.topic_id != topic_id:
        log.warning("%s was deleted and made again since the last run: it is copied anew", topic.name)
        before = None
    if before is not None and not may_continue(earlier_ms, now_ms, {e.name: e.value for e in entries}):
        log.info("%s is compacted, and the last run is too long ago: it is copied anew", topic.name)
        before = None
    partitions = [TopicPartition(topic.name, each.index) for each in topic.partitions]
    bounds = await source_bounds(source.cluster, partitions)
    for partition in partitions:
        if partition not in bounds:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} cannot be read: it has no leader")
    earlier = dict(zip(partitions, () if before is None else before.partitions, strict=False))
    kept = await _kept(source.cluster, earlier, bounds)
    saved_partitions = await together(
        *(_partition(source, topic_id, p, kept.get(p, ()), bounds[p]) for p in partitions)
    )
    return TopicBackup(topic_id, _own(entries), tuple(saved_partitions))


def _own(entries: list[ConfigEntry]) -> dict[str, str]:
    return {
        each.name: each.value
        for each in entries
        if each.source == ConfigSource.DYNAMIC_TOPIC_CONFIG
        and each.value is not None
        and each.name not in OWN_CONFIGS
        and (each.name, each.value) != FENCE
    }


async def _kept(
    cluster: Cluster,
    earlier: Mapping[TopicPartition, PartitionBackup],
    bounds: Mapping[TopicPartition, Bounds],
) -> dict[TopicPartition, tuple[Chunk, ...]]:
    """What of earlier runs is still as it was copied; an unclean election may have made the rest another."""
    asked = {p: each.chunks[-1].max_epoch for p, each in earlier.items() if each.chunks}
    answers = await Admin(cluster).offsets_for_leader_epochs(asked) if asked else {}
    kept = {}
    for partition, each in earlier.items():
        start, end = bounds[partition]
        answer = answers.get(partition)
        if isinstance(answer, EpochEndOffset) and answer.end_offset >= 0:
            end = min(end, answer.end_offset)
        kept[partition] = kept_chunks(each.chunks, start, end)
        if each.chunks and each.chunks[-1].next_offset > end:
            log.warning("%s no longer has what was copied behind offset %d: copied anew", partition, end)
    return kept


async def _partition(
    source: _Source, topic_id: str, partition: TopicPartition, kept: tuple[Chunk, ...], bounds: Bounds
) -> PartitionBackup:
    position = max(bounds.start, kept[-1].next_offset if kept else 0)
    chunks = list(kept)
    async with source.at_once:
        async for data, first, end, timestamp, epoch in _read(
            source.cluster, partition, position, bounds.end
        ):
            name = chunk_name(partition.topic, topic_id, partition.partition, first, source.run_id)
            file = saved(name, data)
            await asyncio.to_thread(source.store.put, name, data)
            chunks.append(Chunk(name, file.size, file.sha256, first, end, timestamp, epoch))
            source.progress(file.size)
    end = max(bounds.end, chunks[-1].next_offset if chunks else 0)
    return PartitionBackup(bounds.start, end, tuple(chunks))


async def _read(
    cluster: Cluster, partition: TopicPartition, start: int, end: int
) -> AsyncIterator[tuple[bytes, int, int, int, int]]:
    """Bytes of whole batches, their first and next offset, the newest timestamp and the last epoch."""
    waiting = bytearray()
    first, position, timestamp, epoch = start, start, -1, -1
    fetcher = PartitionFetcher(
        cluster, partition, end=end, max_bytes=_FETCH_BYTES, purpose=f"backup-{partition}"
    )
    try:
        while position < end:
            fetched = await fetcher.fetch(position, _FETCH_BYTES)
            if not fetched.records:
                break  # compaction took everything up to the end
            before = position
            for at, header in batches(fetched.records):
                if header.last_offset < position or header.base_offset >= end:
                    continue
                if not crc_matches(fetched.records, at, header.size):
                    raise KafkaError(
                        ErrorCode.CORRUPT_MESSAGE,
                        f"the batch of {partition} at offset {header.base_offset} has a wrong checksum",
                    )
                if not waiting:
                    first, timestamp = header.base_offset, -1
                waiting += fetched.records[at : at + header.size]
                position = header.last_offset + 1
                timestamp = max(timestamp, header.max_timestamp)
                epoch = max(epoch, header.partition_leader_epoch)
            if position == before:
                break
            if len(waiting) >= _CHUNK_BYTES:
                yield bytes(waiting), first, position, timestamp, epoch
                waiting = bytearray()
    finally:
        await fetcher.disconnect()
    if waiting:
        yield bytes(waiting), first, position, timestamp, epoch


# What else there is -----------------------------------------------------------------------------------------


async def _groups(cluster: Cluster, wanted: Wanted) -> dict[str, tuple[GroupOffset, ...]]:
    groups = Groups(cluster)
    names = {each.group_id for each in await groups.list() if each.is_consumer_group}
    found = {}
    for name in sorted(name for name in names if name in wanted.groups):
        committed = await groups.committed(name)
        offsets = [
            GroupOffset(*partition, offset.offset, offset.metadata or "")
            for partition, offset in sorted(committed.items())
            if isinstance(offset, CommittedOffset)
        ]
        found[name] = tuple(offsets)
    return found


async def _acls(cluster: Cluster) -> tuple[tuple[int, str, int, str, str, int, int], ...]:
    """Those of the cluster; none where it has no authorizer."""
    try:
        return tuple((*acl,) for acl in sorted(await Access(cluster).list_acls()))
    except KafkaError as error:
        if error.code in _NOT_THERE:
            return ()
        raise


async def _quotas(cluster: Cluster) -> tuple[tuple[dict[str, str | None], dict[str, float]], ...]:
    try:
        return tuple(await Access(cluster).quotas([], strict=False))
    except KafkaError as error:
        if error.code in _NOT_THERE:
            return ()
        raise


async def _broker_configs(cluster: Cluster) -> dict[str, str]:
    """The dynamic defaults of all brokers; what is secret is not told, and so not saved."""
    resource = ConfigResource(ResourceType.BROKER, "")
    entries = (await Admin(cluster).describe_configs([resource]))[resource]
    if isinstance(entries, KafkaError):
        raise entries
    return {
        each.name: each.value
        for each in entries
        if each.source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG and each.value is not None
    }
