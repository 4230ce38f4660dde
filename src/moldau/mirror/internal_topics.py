"""The topics of a mirror itself: heartbeats, checkpoints and offset syncs, with MirrorMaker 2's names.

Invariant: made when they are first needed, compacted and with one partition, as MirrorMaker 2 makes them; a
topic that is there already is used as it is.
"""

import logging
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from moldau.base.clock import Clock
from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import EARLIEST, LATEST, ListedOffset, NewTopic
from moldau.client.consumer.raw_reader import read_raw
from moldau.client.producer.producer import Producer
from moldau.client.transport.cluster import Cluster
from moldau.mirror.rules.formats import Checkpoint, Heartbeat, OffsetSync, read_checkpoint, read_offset_sync
from moldau.mirror.rules.policies import HEARTBEATS
from moldau.mirror.rules.properties import FlowSettings
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import Record, batches, decode_records

log = logging.getLogger("moldau.mirror")

_DECODED_LIMIT = 64 * 1024 * 1024
_KEEP_SYNCS_MS = 7 * 24 * 3600 * 1000


class InternalTopics:
    """Of one flow. Checkpoints are at the target, offset syncs at the source or where settings say."""

    def __init__(self, settings: FlowSettings, source: Cluster, target: Cluster, clock: Clock) -> None:
        self._settings = settings
        self._source = source
        self._target = target
        self._clock = clock
        self._producers: dict[int, Producer] = {}
        self._made: set[tuple[int, str]] = set()
        self._last_checkpoints: dict[bytes, bytes] = {}

    async def close(self) -> None:
        for producer in self._producers.values():
            await producer.close(flush=False)
        self._producers.clear()

    @property
    def _syncs(self) -> tuple[Cluster, str]:
        """The cluster that has the offset syncs, and their topic, named after the other one."""
        settings = self._settings
        if settings.offset_syncs_location == "target":
            return self._target, settings.policy.offset_syncs_topic(settings.source)
        return self._source, settings.policy.offset_syncs_topic(settings.target)

    async def heartbeat(self) -> None:
        now_ms = self._clock.now_ms()
        beat = Heartbeat(self._settings.source, self._settings.target, now_ms)
        await self._make(self._target, HEARTBEATS, self._settings.heartbeats_replication_factor)
        await self._write(self._target, HEARTBEATS, [(beat.key(), beat.value())], now_ms)

    async def checkpoints(self, found: Sequence[Checkpoint]) -> None:
        """Writes those that differ from the last ones."""
        new = [each for each in found if self._last_checkpoints.get(each.key()) != each.value()]
        if not new:
            return
        topic = self._settings.policy.checkpoints_topic(self._settings.source)
        await self._make(self._target, topic, self._settings.checkpoints_replication_factor)
        written = [(each.key(), each.value()) for each in new]
        await self._write(self._target, topic, written, self._clock.now_ms())
        self._last_checkpoints.update(written)

    async def offset_syncs(self, syncs: Sequence[OffsetSync]) -> None:
        cluster, topic = self._syncs
        # While compaction leaves them alone, offsets can be translated to the record.
        await self._make(
            cluster,
            topic,
            self._settings.offset_syncs_replication_factor,
            {"min.compaction.lag.ms": str(_KEEP_SYNCS_MS)},
        )
        written = [(each.key(), each.value()) for each in syncs]
        await self._write(cluster, topic, written, self._clock.now_ms())

    async def read_offset_syncs(self) -> list[tuple[OffsetSync, bool]]:
        """Every sync that the topic still has, in order, and whether compaction took none behind it."""
        cluster, topic = self._syncs
        records = await read_topic(cluster, topic)
        dense_from = records[0].offset if records else 0
        for before, after in pairwise(records):
            if after.offset != before.offset + 1:
                dense_from = after.offset
        found = []
        for record in records:
            if record.key is not None and record.value is not None:
                try:
                    sync = read_offset_sync(record.key, record.value)
                except ValueError as error:
                    log.warning("%s has a record that is no offset sync: %s", topic, error)
                    continue
                found.append((sync, record.offset >= dense_from))
        return found

    async def _make(
        self,
        cluster: Cluster,
        topic: str,
        replication_factor: int,
        configs: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        key = (id(cluster), topic)
        if key in self._made:
            return
        new = NewTopic(topic, 1, replication_factor, configs={"cleanup.policy": "compact", **configs})
        outcome = (await Admin(cluster).create_topics([new]))[topic]
        if isinstance(outcome, KafkaError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise outcome
        await cluster.retry(lambda: cluster.topic(topic, refresh=True))
        self._made.add(key)

    async def _write(
        self, cluster: Cluster, topic: str, written: Sequence[tuple[bytes, bytes]], now_ms: int
    ) -> None:
        producer = self._producers.get(id(cluster))
        if producer is None:
            producer = self._producers[id(cluster)] = await Producer.open(cluster)
        sent = [
            await producer.send(topic, value, key, partition=0, timestamp_ms=now_ms) for key, value in written
        ]
        for each in sent:
            await each


async def read_topic(cluster: Cluster, topic: str) -> list[Record]:
    """All records of the only partition of a topic; none where there is no such topic."""
    partition = TopicPartition(topic, 0)
    try:
        await cluster.topic(topic, refresh=True)
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return []
        raise
    admin = Admin(cluster)
    start = (await admin.list_offsets({partition: EARLIEST}))[partition]
    end = (await admin.list_offsets({partition: LATEST}))[partition]
    if not isinstance(start, ListedOffset) or not isinstance(end, ListedOffset):
        return []
    found: list[Record] = []
    async for piece in read_raw(cluster, partition, start.offset, end.offset):
        for position, header in batches(piece.records):
            if not header.is_control:
                found += decode_records(piece.records, position, header, limit=_DECODED_LIMIT)
    return [record for record in found if record.offset < end.offset]


async def read_checkpoints(cluster: Cluster, topic: str) -> dict[tuple[str, TopicPartition], Checkpoint]:
    """The last checkpoint of each group and partition, as Kafka's RemoteClusterUtils reads them."""
    found = {}
    for record in await read_topic(cluster, topic):
        if record.key is not None and record.value is not None:
            each = read_checkpoint(record.key, record.value)
            found[each.group, TopicPartition(each.topic, each.partition)] = each
    return found
