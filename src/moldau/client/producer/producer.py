"""Writes records: collects them in batches, and tells where each record went.

    async with await Producer.open(cluster, linger_ms=5) as producer:
        delivery = await producer.send("orders", b"value", key=b"key", headers=(("trace", b"1"),))
        metadata = await delivery  # RecordMetadata, or the KafkaError that the record met is raised

``send`` waits only while the producer's memory is full or the topic is not known yet; ``try_send`` never
waits and returns None where ``send`` would, for a caller that counts microseconds. ``on_delivery`` is
called with the outcome for those who do not await it. ``flush`` returns when everything sent so far has
its outcome. The options are those of ``ProducerOptions``: acks=all, idempotent, batches of 16 KiB, linger
5 ms unless told.

Invariant: this file collects, ``sender`` sends. Records of a partition leave in the order of the sends;
each has one outcome, told once, within ``delivery_timeout_ms``.
"""

import asyncio
from collections.abc import Generator, Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple

from moldau.base.clock import Clock, SystemClock
from moldau.client.producer.accumulator import (
    RECORD_OVERHEAD,
    Batch,
    OnDelivery,
    PartitionQueue,
    RecordMetadata,
    headers_size,
)
from moldau.client.producer.partitioner import partition_of
from moldau.client.producer.sender import ProducerOptions, Sender
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError

_new_tuple = tuple.__new__  # a named tuple's own constructor is twice the price, and each record pays it


class Delivery(NamedTuple):
    """The fate of one record: await it for its metadata; it raises the error that the record met."""

    batch: Batch
    #: Which record of the batch it is, and its timestamp.
    place: int
    timestamp: int

    @property
    def done(self) -> bool:
        return self.batch.outcome is not None

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if self.batch.outcome is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def finished() -> None:
                if not waiter.done():
                    waiter.set_result(None)

            self.batch.listeners.append(finished)
            yield from waiter
        outcome = self.batch.metadata(self.place, self.timestamp)
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome


class _TopicQueues:
    """The queues of a topic, and the one that records without a key go to at present."""

    __slots__ = ("queues", "sticky")

    def __init__(self, name: str, count: int, first: int) -> None:
        self.queues = [PartitionQueue(name, index) for index in range(count)]
        self.sticky = self.queues[first % count]

    def next_sticky(self) -> None:
        self.sticky = self.queues[(self.sticky.index + 1) % len(self.queues)]


class Producer:
    """Made by ``Producer.open``; ``close`` (or the end of ``async with``) flushes first."""

    def __init__(self, cluster: Cluster, options: ProducerOptions, clock: Clock | None = None) -> None:
        options.check()
        self.cluster = cluster
        self.options = options
        self._now_ms = (clock or SystemClock()).now_ms
        self._loop = asyncio.get_running_loop()
        self._sender = Sender(cluster, options, self._queues, self._finish)
        self._topics: dict[str, _TopicQueues] = {}
        self._free_bytes = options.buffer_memory_bytes
        self._unfinished = 0
        self._progress: asyncio.Future[None] | None = None
        self._closed = False

    @classmethod
    async def open(cls, cluster: Cluster, *, clock: Clock | None = None, **options: Any) -> "Producer":
        """Takes the fields of ``ProducerOptions``; an idempotent producer asks for its id here."""
        producer = cls(cluster, ProducerOptions(**options), clock)
        await producer._sender.start()
        return producer

    async def __aenter__(self) -> "Producer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(flush=error is None)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Takes a record; waits while there is no room. The outcome comes with the delivery."""
        while True:
            delivery = self.try_send(topic, value, key, partition, headers, timestamp_ms, on_delivery)
            if delivery is not None:
                return delivery
            if topic not in self._topics:
                await self._learn_topic(topic)
            elif self._sender.pump_scheduled:
                await asyncio.sleep(0)
            else:
                await self._wait_for_progress()

    def try_send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery | None:
        """As ``send``, but None while the topic is not known, memory is full, or the loop must turn first."""
        queues = self._topics.get(topic)
        if queues is None or self._sender.pump_scheduled:
            return None
        if partition is not None:
            queue = self._chosen(queues, partition)
        elif key is not None:
            queue = queues.queues[partition_of(key, len(queues.queues))]
        else:
            queue = queues.sticky
        batch = queue.filling
        size = RECORD_OVERHEAD
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        if headers:
            size += headers_size(headers)
        if batch is not None and batch.builder.size + size > self.options.batch_size_bytes:
            if queue is queues.sticky:
                queues.next_sticky()
            queue.close_batch()
            self._sender.ready(queue)
            return None  # the loop turns, so that what is full leaves before more is collected
        if batch is None:
            batch = self._open_batch(queue, size)
            if batch is None:
                return None
        if timestamp_ms is None:
            timestamp_ms = self._now_ms()
        builder = batch.builder
        index = builder.count
        builder.append(key, value, headers, timestamp_ms)
        if on_delivery is not None:
            batch.callbacks.append((index, timestamp_ms, on_delivery))
        return _new_tuple(Delivery, (batch, index, timestamp_ms))

    async def flush(self) -> None:
        """Returns when every record taken so far has its outcome."""
        for queue in self._queues():
            if queue.filling is not None:
                queue.close_batch()
                self._sender.ready(queue)
        while self._unfinished:
            await self._wait_for_progress()

    async def close(self, *, flush: bool = True) -> None:
        """Without ``flush``, records that are not on their way yet are given up."""
        if flush and not self._closed:
            await self.flush()
        self._closed = True
        self._sender.close()
        gone = KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer was closed before the record was sent")
        for queue in self._queues():
            for batch in queue.drop_all():
                self._finish(batch, gone)

    def _queues(self) -> Iterator[PartitionQueue]:
        for topic in self._topics.values():
            yield from topic.queues

    def _chosen(self, queues: _TopicQueues, partition: int) -> PartitionQueue:
        count = len(queues.queues)
        if not 0 <= partition < count:
            topic = queues.sticky.topic
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}",
            )
        return queues.queues[partition]

    def _open_batch(self, queue: PartitionQueue, size: int) -> Batch | None:
        """A fresh batch for the queue; None when there is no memory for it before another is done."""
        options = self.options
        if self._closed:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer is closed")
        if size > options.max_request_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a record of about {size} bytes does not fit a request of {options.max_request_bytes} bytes",
            )
        reserved = max(options.batch_size_bytes, size)
        if self._free_bytes < reserved and self._unfinished:
            return None
        self._free_bytes -= reserved
        self._unfinished += 1
        deadline = self._loop.time() + options.delivery_timeout_ms / 1000
        queue.filling = batch = Batch(queue, reserved, deadline)
        if options.linger_ms > 0:
            self._loop.call_later(options.linger_ms / 1000, self._linger_over, batch)
        else:
            self._loop.call_soon(self._linger_over, batch)
        return batch

    def _linger_over(self, batch: Batch) -> None:
        queue = batch.queue
        if queue.filling is batch:
            queue.close_batch()
            self._sender.ready(queue)
            self._sender.pump()

    def _finish(self, batch: Batch, outcome: tuple[int, int] | KafkaError) -> None:
        self._free_bytes += batch.reserved
        self._unfinished -= 1
        if self._progress is not None and not self._progress.done():
            self._progress.set_result(None)
        batch.finish(outcome)

    async def _wait_for_progress(self) -> None:
        """Until some batch has its outcome."""
        if self._progress is None or self._progress.done():
            self._progress = self._loop.create_future()
        await asyncio.shield(self._progress)

    async def _learn_topic(self, name: str) -> None:
        """Waits for a topic that the cluster may be creating because we ask for it."""
        topic = await self.cluster.retry(
            lambda: self.cluster.topic(name, refresh=True, allow_auto_topic_creation=True),
            timeout_ms=self.options.max_block_ms,
        )
        if name not in self._topics:
            first = self._now_ms()  # not every producer starts with partition 0
            self._topics[name] = _TopicQueues(name, len(topic.partitions), first)
            await self._sender.connect()
