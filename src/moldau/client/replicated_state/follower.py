"""Follows a compacted topic of one partition: reads it to its end, then goes on reading and applying.

    follower = Follower(cluster, "_schemas", state.apply)
    await follower.open()              # the topic is there, and everything in it has been applied
    await follower.wait_for(offset)    # until the record at this offset has been applied
    await follower.close()

Invariant: committed records are applied once each, in their order. A reader that fails begins again behind
the last record that it applied.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import READ_COMMITTED, ConfigResource, NewTopic, ResourceType
from moldau.client.consumer.consumer import BEGINNING, END, Consumer, at_offset
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("moldau.client.replicated_state")

_REPLICAS = 3
_READ_AGAIN_SECONDS = 1.0


class TopicRecord(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Follower:
    """``service`` is what needs the topic, and ``contents`` what it keeps there, for messages."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        apply: Callable[[TopicRecord], None],
        *,
        service: str = "service",
        contents: str = "records",
        timeout_ms: int = 30_000,
    ) -> None:
        self.partition = TopicPartition(topic, 0)
        #: The offset behind the last record that was applied.
        self.position = 0
        self._cluster = cluster
        self._apply = apply
        self._service = service
        self._contents = contents
        self._timeout_seconds = timeout_ms / 1000
        self._moved = asyncio.Condition()
        self._reader: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Creates the topic where it is missing and reads it to its end."""
        await self._create_topic()
        await self._check_topic()
        consumer = self._consumer()
        try:
            ends = await consumer.offsets_of({self.partition: END})
            await consumer.assign({self.partition: BEGINNING})
            async with asyncio.timeout(self._timeout_seconds):
                async for batch in consumer.batches(until=ends):
                    await self._apply_all(batch.records())
        except TimeoutError:
            await consumer.close()
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self.partition.topic} could not be read to its end at {ends[self.partition]} in "
                f"{self._timeout_seconds:g} s; the reader came to {self.position}",
            ) from None
        except BaseException:
            await consumer.close()
            raise
        self._reader = asyncio.create_task(self._follow(consumer), name=f"{self._service}-reader")

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader
            self._reader = None

    async def wait_for(self, offset: int) -> None:
        """Returns when the record at an offset was applied."""
        try:
            async with asyncio.timeout(self._timeout_seconds), self._moved:
                await self._moved.wait_for(lambda: self.position > offset)
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"offset {offset} was written but not read again in {self._timeout_seconds:g} s",
            ) from None

    async def _follow(self, consumer: Consumer | None) -> None:
        """Reads until it is cancelled; a reader that fails begins again where it was."""
        while True:
            try:
                if consumer is None:
                    consumer = self._consumer()
                    await consumer.assign({self.partition: at_offset(self.position)})
                async with consumer:
                    async for batch in consumer.batches():
                        await self._apply_all(batch.records())
            except KafkaError as error:
                log.warning("reading %s failed: %s; reading again", self.partition.topic, error)
                await asyncio.sleep(_READ_AGAIN_SECONDS)
            consumer = None

    def _consumer(self) -> Consumer:
        return Consumer(self._cluster, isolation_level=READ_COMMITTED, offset_reset=BEGINNING)

    async def _apply_all(
        self, records: Sequence[tuple[int, int, bytes | None, bytes | None, object]]
    ) -> None:
        for offset, timestamp_ms, key, value, _ in records:
            self._apply(TopicRecord(offset, timestamp_ms, key, value))
            self.position = offset + 1
        async with self._moved:
            self._moved.notify_all()

    async def _create_topic(self) -> None:
        name = self.partition.topic
        replicas = min(_REPLICAS, max(len(self._cluster.brokers), 1))
        wanted = NewTopic(name, 1, replicas, configs={"cleanup.policy": "compact"})
        try:
            await self._cluster.topic(name, refresh=True)
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            outcome = (await Admin(self._cluster).create_topics([wanted]))[name]
            if isinstance(outcome, KafkaError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise outcome from None
        await self._cluster.retry(lambda: self._cluster.topic(name, refresh=True))

    async def _check_topic(self) -> None:
        name = self.partition.topic
        partitions = len((await self._cluster.topic(name)).partitions)
        if partitions != 1:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"{name} has {partitions} partitions; a {self._service} needs one",
            )
        resource = ConfigResource(ResourceType.TOPIC, name)
        found = await Admin(self._cluster).describe_configs({resource: ["cleanup.policy"]})
        raise_errors(found)
        entries = found[resource]
        policies = [] if isinstance(entries, KafkaError) else [entry.value for entry in entries]
        if policies != ["compact"]:
            log.warning(
                "cleanup.policy of %s is %s: %s will be lost. "
                "Next: moldau configs set %s cleanup.policy=compact",
                name,
                ",".join(map(str, policies)),
                self._contents,
                name,
            )
