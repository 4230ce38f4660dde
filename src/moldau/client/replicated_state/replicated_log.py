"""The log of the registry: the topic ``_schemas``, read and written over the wire.

    log = SchemaLog(cluster, state.apply)
    await log.open()               # the topic is there, and everything in it has been applied
    await log.lead()               # ours alone to write from now on, and nothing in it is unknown to us
    await log.append(entries)      # written, committed, read again and applied

Every instance reads; one writes. ``lead`` takes the log from whoever wrote before (``fenced_writer``) and
then reads to the end, which a NOOP record marks, as it does in Confluent's registry.

Invariant: only what was read is applied, our own records too, so that every instance comes to the same
state. A record that makes no sense is applied as such and never stops the reader. ``append`` returns when
its records are applied, or raises; then ``leads`` is false and only ``lead`` helps.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from moldau.base.clock import Clock, SystemClock
from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import READ_COMMITTED, ConfigResource, NewTopic, ResourceType
from moldau.client.consumer.consumer import BEGINNING, END, Consumer, at_offset
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.client.replicated_state.fenced_writer import FencedWriter
from moldau.registry.records import Entry, NoopKey, UnknownKey, read, write

log = logging.getLogger("moldau.registry")

TOPIC = "_schemas"
_REPLICAS = 3
_READ_AGAIN_SECONDS = 1.0


class SchemaLog:
    """``transactional_id`` is the fence: instances that share a log have to share it."""

    def __init__(
        self,
        cluster: Cluster,
        apply: Callable[[Entry], None],
        *,
        topic: str = TOPIC,
        transactional_id: str = "moldau-registry-schema-registry",
        timeout_ms: int = 30_000,
        clock: Clock | None = None,
    ) -> None:
        self._cluster = cluster
        self._apply = apply
        self._partition = TopicPartition(topic, 0)
        self._timeout_seconds = timeout_ms / 1000
        self._writer = FencedWriter(cluster, self._partition, transactional_id, clock or SystemClock())
        #: The offset behind the last record that was applied.
        self.position = 0
        self._moved = asyncio.Condition()
        self._reader: asyncio.Task[None] | None = None

    @property
    def leads(self) -> bool:
        return not self._writer.broken

    async def open(self) -> None:
        """Makes the topic where it is missing and reads it to its end."""
        await self._make_topic()
        await self._check_topic()
        consumer = Consumer(self._cluster, isolation_level=READ_COMMITTED, offset_reset=BEGINNING)
        try:
            ends = await consumer.offsets_of({self._partition: END})
            await consumer.assign({self._partition: BEGINNING})
            async with asyncio.timeout(self._timeout_seconds):
                async for batch in consumer.batches(until=ends):
                    await self._take(batch.records())
        except TimeoutError:
            await consumer.close()
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self._partition.topic} could not be read to its end at {ends[self._partition]} in "
                f"{self._timeout_seconds:g} s; the reader came to {self.position}",
            ) from None
        except BaseException:
            await consumer.close()
            raise
        self._reader = asyncio.create_task(self._follow(consumer), name="registry-reader")

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader
            self._reader = None

    async def lead(self) -> None:
        """Fences the writer before us and reads what it wrote, to the last record."""
        await self._writer.fence()
        await self.append([Entry(NoopKey())])

    async def append(self, entries: Sequence[Entry]) -> None:
        offset = await self._writer.write([write(entry) for entry in entries])
        try:
            await self.wait_for(offset)
        except BaseException:
            # Written, but not seen: nothing more is decided on a state that lags.
            self._writer.abandon()
            raise

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

    async def _follow(self, consumer: Consumer) -> None:
        """Reads for ever; a reader that fails begins again where it was."""
        while True:
            try:
                async with consumer:
                    async for batch in consumer.batches():
                        await self._take(batch.records())
            except KafkaError as error:
                log.warning("reading %s failed: %s; reading again", self._partition.topic, error)
                await asyncio.sleep(_READ_AGAIN_SECONDS)
            consumer = await self._again()

    async def _again(self) -> Consumer:
        while True:
            consumer = Consumer(self._cluster, isolation_level=READ_COMMITTED, offset_reset=BEGINNING)
            try:
                await consumer.assign({self._partition: at_offset(self.position)})
                return consumer
            except KafkaError as error:
                log.warning("reading %s failed: %s; reading again", self._partition.topic, error)
                await asyncio.sleep(_READ_AGAIN_SECONDS)

    async def _take(self, records: Sequence[tuple[int, int, bytes | None, bytes | None, object]]) -> None:
        for offset, timestamp, key, value, _ in records:
            entry = read(key, value, timestamp)
            if isinstance(entry.key, UnknownKey):
                log.warning(
                    "offset %d of %s is passed over: %s", offset, self._partition.topic, entry.key.reason
                )
            self._apply(entry)
            self.position = offset + 1
        async with self._moved:
            self._moved.notify_all()

    async def _make_topic(self) -> None:
        name = self._partition.topic
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
        name = self._partition.topic
        partitions = len((await self._cluster.topic(name)).partitions)
        if partitions != 1:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"{name} has {partitions} partitions; a registry needs one"
            )
        resource = ConfigResource(ResourceType.TOPIC, name)
        found = await Admin(self._cluster).describe_configs({resource: ["cleanup.policy"]})
        raise_errors(found)
        entries = found[resource]
        policies = [] if isinstance(entries, KafkaError) else [entry.value for entry in entries]
        if policies != ["compact"]:
            log.warning(
                "cleanup.policy of %s is %s: schemas will be lost. "
                "Next: moldau configs set %s cleanup.policy=compact",
                name,
                ",".join(map(str, policies)),
                name,
            )
