"""A compacted topic of several partitions that every worker reads and any of them writes.

Invariant: what was read is applied in the order of each partition, and only what is committed; ``catch_up``
returns when everything that was committed before it is applied.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from moldau.base.names import TopicPartition
from moldau.client.admin.descriptions import READ_COMMITTED, READ_UNCOMMITTED
from moldau.client.consumer.consumer import BEGINNING, END, Consumer
from moldau.client.producer.producer import Delivery, Producer
from moldau.client.transport.cluster import Cluster
from moldau.connect.worker.tasks.task_parts import ensure_topic
from moldau.protocol.errors import KafkaError

log = logging.getLogger("moldau.connect.worker")

Apply = Callable[[bytes, bytes | None], None]
_AGAIN_SECONDS = 1.0


class CompactedTopic:
    def __init__(self, cluster: Cluster, name: str, partitions: int, replicas: int, apply: Apply) -> None:
        self._cluster = cluster
        self._name = name
        self._partitions = partitions
        self._replicas = replicas
        self._apply = apply
        self._positions: dict[TopicPartition, int] = {}
        self._moved = asyncio.Condition()
        self._reading: asyncio.Task[None] | None = None
        self._producer: Producer | None = None
        self._pending: list[Delivery] = []

    async def open(self) -> None:
        """Makes the topic where it is missing and reads it to its end."""
        await ensure_topic(
            self._cluster, self._name, self._partitions, self._replicas, {"cleanup.policy": "compact"}
        )
        topic = await self._cluster.topic(self._name)
        partitions = [TopicPartition(self._name, each.index) for each in topic.partitions]
        self._positions = dict.fromkeys(partitions, 0)
        self._producer = await Producer.open(self._cluster)
        self._reading = asyncio.create_task(self._read(), name=f"connect-{self._name}")
        await self.catch_up()

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.close()
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading

    async def write(self, key: bytes, value: bytes | None) -> None:
        """Hands a record over; ``flush`` waits until it is written."""
        assert self._producer is not None
        self._pending.append(await self._producer.send(self._name, value, key))

    async def flush(self) -> None:
        pending, self._pending = self._pending, []
        for delivery in pending:
            await delivery

    async def catch_up(self, *, past_open: bool = False) -> None:
        """With ``past_open``, transactions that are still open before the end are waited for: what is
        committed behind them could not be read else."""
        level = READ_UNCOMMITTED if past_open else READ_COMMITTED
        async with Consumer(self._cluster, isolation_level=level) as consumer:
            ends = await consumer.offsets_of(dict.fromkeys(self._positions, END))
        async with self._moved:
            await self._moved.wait_for(
                lambda: all(self._positions[at] >= end for at, end in ends.items()) or self._ended()
            )

    def _ended(self) -> bool:
        return self._reading is not None and self._reading.done()

    async def _read(self) -> None:
        starts = dict.fromkeys(self._positions, BEGINNING)
        while True:
            try:
                async with Consumer(self._cluster, isolation_level=READ_COMMITTED) as consumer:
                    await consumer.assign(starts)
                    while True:
                        batch = await consumer.next_batch(timeout_ms=1000)
                        if batch is not None:
                            for record in batch.records():
                                if record.key is not None:
                                    value = None if record.value is None else bytes(record.value)
                                    self._apply(bytes(record.key), value)
                        await self._advance(consumer)
            except KafkaError as error:
                log.warning("%s cannot be read: %s; again in %g s", self._name, error, _AGAIN_SECONDS)
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _advance(self, consumer: Consumer) -> None:
        async with self._moved:
            for at in self._positions:
                self._positions[at] = max(self._positions[at], consumer.position(at))
            self._moved.notify_all()
