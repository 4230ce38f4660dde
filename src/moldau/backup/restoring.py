"""Bringing a backup back: topics with the offsets that they had, then groups, access and configs.

A topic is made as a mirror, filled with the batches of its chunks as they are, and promoted: from then on it
is an ordinary topic. A restore that was interrupted is finished by running it again.

Invariant: a topic that is there already is never written to, unless it is the unfinished restore of the same
topic. A chunk is compared with its checksum before a byte of it is sent. No group is set behind the end of
what it reads.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from moldau.backup.manifest import BackupError, Chunk, GroupOffset, PartitionBackup, Run, TopicBackup
from moldau.backup.runs import read_saved
from moldau.base.names import TopicPartition
from moldau.base.object_stores import Store
from moldau.base.tasks import together
from moldau.client.admin.access import Access
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.mirror.exact_target import ExactTarget, MirrorPlace, MirrorWrite, supports_mirrors
from moldau.mirror.promotion import promote
from moldau.mirror.topics import SOURCE, STATE, own_configs
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import batches, decode_records, encode_batch, truncate_batch
from moldau.security.acls import Acl

log = logging.getLogger("moldau.backup")

_REQUEST_BYTES = 4 * 1024 * 1024
_PARTITIONS_AT_ONCE = 4
_DECODED_LIMIT = 256 * 1024 * 1024
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    #: Name in the backup -> name in the cluster, for every topic that is restored.
    names: Mapping[str, str]
    #: Records up to this time; None for all.
    at_ms: int | None = None
    replication_factor: int = -1


@dataclass(slots=True)
class Restored:
    """What there is now, and what was not taken."""

    #: Topic of the cluster -> where each partition ends.
    topics: dict[str, tuple[int, ...]] = field(default_factory=dict)
    groups: int = 0
    refused: list[str] = field(default_factory=list)


async def check_target(cluster: Cluster, options: RestoreOptions, run: Run) -> None:
    """BackupError before anything is changed: for a cluster that cannot, and for topics that are there."""
    if not await supports_mirrors(cluster):
        raise BackupError(
            "this cluster cannot keep the offsets of a backup: restore into Moldau, and copy from there with "
            "'moldau mirror'"
        )
    known = {topic.name for topic in await cluster.topics(None) if not topic.error_code}
    there = [name for name in options.names.values() if name in known]
    configs = await own_configs(cluster, there)
    wanted = {target: _source(run, run.topics[name]) for name, target in options.names.items()}
    in_the_way = [name for name in there if configs.get(name, {}).get(SOURCE) != wanted[name]]
    if in_the_way:
        raise BackupError(
            f"{', '.join(sorted(in_the_way)[:5])} exist{'s' if len(in_the_way) == 1 else ''} already: delete "
            "what is there, or give a new name with --rename OLD=NEW"
        )


async def restore_topics(
    cluster: Cluster,
    store: Store,
    run: Run,
    options: RestoreOptions,
    *,
    progress: Progress = lambda size: None,
) -> Restored:
    """Makes every topic of ``options.names`` as the run has it."""
    await check_target(cluster, options, run)
    restored = Restored()
    for name, target in options.names.items():
        topic = run.topics[name]
        await _create(cluster, target, topic, _source(run, topic), options.replication_factor)
        work = _Filling(cluster, store, options.at_ms, progress)
        await work.fill(target, topic)
        # What the promotion adds are ends of transactions that were open.
        restored.topics[target] = (await promote(cluster, target)).ends
    return restored


def _source(run: Run, topic: TopicBackup) -> str:
    """The value of ``moldau.mirror.source``: whose records these are."""
    return f"backup/{run.cluster_id or ''}/{topic.topic_id}"


async def _create(cluster: Cluster, name: str, topic: TopicBackup, source: str, factor: int) -> None:
    configs: dict[str, str | None] = {**topic.configs, STATE: "mirror", SOURCE: source}
    new = NewTopic(name, len(topic.partitions), factor, configs=configs)
    outcome = (await Admin(cluster).create_topics([new]))[name]
    if isinstance(outcome, KafkaError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise KafkaError(outcome.code, f"{name} cannot be made: {outcome.message}")
    await cluster.retry(lambda: cluster.topic(name, refresh=True))


class _Filling:
    """Sends the batches of one topic."""

    def __init__(self, cluster: Cluster, store: Store, at_ms: int | None, progress: Progress) -> None:
        self._target = ExactTarget(cluster)
        self._store = store
        self._at_ms = at_ms
        self._progress = progress
        self._at_once = asyncio.Semaphore(_PARTITIONS_AT_ONCE)

    async def fill(self, name: str, topic: TopicBackup) -> None:
        partitions = {TopicPartition(name, index): each for index, each in enumerate(topic.partitions)}
        epochs = {p: max(c.max_epoch for c in each.chunks) for p, each in partitions.items() if each.chunks}
        if epochs:
            await self._target.raise_leader_epochs(epochs)
            await self._target.cluster.topic(name, refresh=True)
        await together(*(self._fill_partition(partition, each) for partition, each in partitions.items()))

    async def _fill_partition(self, partition: TopicPartition, backup: PartitionBackup) -> None:
        async with self._at_once:
            place = await self._write(partition, MirrorWrite(backup.log_start_offset, -1, None))
            place = await self._write(
                partition, MirrorWrite(backup.log_start_offset, place.log_end_offset, None)
            )
            position, cut = place.log_end_offset, False
            for chunk in backup.chunks:
                if chunk.next_offset <= position:
                    continue  # an earlier attempt has sent it
                data = await asyncio.to_thread(read_saved, self._store, chunk)
                end = None if self._at_ms is None else cut_offset(chunk, data, self._at_ms)
                for piece in pieces(data, position, end):
                    write = MirrorWrite(backup.log_start_offset, position, piece)
                    position = (await self._write(partition, write)).log_end_offset
                    self._progress(len(piece))
                if end is not None:
                    cut = True
                    break
            if not cut and backup.log_start_offset <= position < backup.log_end_offset:
                await self._write(
                    partition, MirrorWrite(backup.log_start_offset, position, _gap(backup, position))
                )

    async def _write(self, partition: TopicPartition, write: MirrorWrite) -> MirrorPlace:
        async def attempt() -> MirrorPlace:
            outcome = (await self._target.write({partition: write}))[partition]
            if isinstance(outcome, KafkaError):
                raise outcome
            return outcome

        return await self._target.cluster.retry(attempt)


def _gap(backup: PartitionBackup, position: int) -> bytearray:
    """An empty batch over offsets at the end that no record has: compaction took them."""
    epoch = max((chunk.max_epoch for chunk in backup.chunks), default=0)
    delta = backup.log_end_offset - 1 - position
    return encode_batch([], base_offset=position, last_offset_delta=delta, leader_epoch=max(epoch, 0))


def cut_offset(chunk: Chunk, data: bytes, at_ms: int) -> int | None:
    """The offset of the first record of a chunk that is newer than a time; None where there is none."""
    if chunk.max_timestamp <= at_ms:
        return None
    for position, header in batches(data):
        if header.max_timestamp > at_ms:
            for record in decode_records(data, position, header, limit=_DECODED_LIMIT):
                if record.timestamp > at_ms:
                    return record.offset
    return None


def pieces(data: bytes, position: int, end: int | None) -> Iterator[bytes | bytearray]:
    """The batches behind a position and before an end, about as many together as fit into a request."""
    view = memoryview(data)
    start = stop = -1
    for at, header in batches(data):
        if header.last_offset < position:
            continue
        if end is not None and header.last_offset >= end:
            if start >= 0:
                yield bytes(view[start:stop])
            part = None
            if header.base_offset < end:
                part = truncate_batch(data, at, header, end, limit=_DECODED_LIMIT)
            if part is not None:
                yield part
            return
        if start >= 0 and at + header.size - start > _REQUEST_BYTES:
            yield bytes(view[start:stop])
            start = -1
        if start < 0:
            start = at
        stop = at + header.size
    if start >= 0:
        yield bytes(view[start:stop])


# What else there was ----------------------------------------------------------------------------------------


async def restore_groups(
    cluster: Cluster, groups: Mapping[str, tuple[GroupOffset, ...]], names: Mapping[str, str], done: Restored
) -> None:
    """Sets the offsets of groups in topics that were restored."""
    asked = Groups(cluster)
    for group, offsets in groups.items():
        wanted = {}
        for each in offsets:
            target = names.get(each.topic)
            ends = done.topics.get(target or "", ())
            if target is not None and each.partition < len(ends):
                offset = min(each.offset, ends[each.partition])
                wanted[TopicPartition(target, each.partition)] = CommittedOffset(offset, -1, each.metadata)
        if not wanted:
            continue
        try:
            outcomes = await asked.commit(group, wanted)
            refusals = [error for error in outcomes.values() if error is not None]
        except KafkaError as error:
            refusals = [error]
        if refusals:
            done.refused.append(f"offsets of group {group}: {refusals[0]}")
        else:
            done.groups += 1


async def restore_acls(cluster: Cluster, run: Run) -> int:
    """Adds the ACLs that are not there; how many."""
    if not run.acls:
        return 0
    access = Access(cluster)
    there = set(await access.list_acls())
    missing = [Acl(*each) for each in run.acls if Acl(*each) not in there]
    if missing:
        await access.create_acls(missing)
    return len(missing)


async def restore_quotas(cluster: Cluster, run: Run) -> int:
    for entity, values in run.quotas:
        await Access(cluster).alter_quotas(entity, values)
    return len(run.quotas)


async def restore_broker_configs(cluster: Cluster, run: Run) -> int:
    """Sets the dynamic defaults of all brokers."""
    changes = [ConfigChange(name, ConfigOperation.SET, value) for name, value in run.broker_configs.items()]
    if changes:
        resource = ConfigResource(ResourceType.BROKER, "")
        raise_errors(await Admin(cluster).incremental_alter_configs({resource: changes}))
    return len(changes)
