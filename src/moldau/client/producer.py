"""Writes records: collects them in batches, sends the batches to the leaders, tells where each record went.

    async with await Producer.open(cluster, linger_ms=5) as producer:
        delivery = await producer.send("orders", b"value", key=b"key", headers=(("trace", b"1"),))
        metadata = await delivery            # RecordMetadata, or the KafkaError that the record met

``send`` waits only when the producer's memory is full or the topic is not known yet; ``try_send`` never waits and
returns None where ``send`` would. ``on_delivery`` is called with the outcome instead of awaiting it. ``flush``
returns when everything sent so far has its outcome. The defaults are those of Kafka 4's Java client: acks=all,
idempotent, batches of 16 KiB, linger 5 ms, five requests on their way to each broker.

Law: with idempotence, records of a partition are written once and in the order of the sends, whatever is retried.
A batch has one outcome, told once. Nothing waits longer than ``delivery_timeout_ms``.
"""

import asyncio
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

from moldau.base.clock import Clock, SystemClock
from moldau.base.names import ZERO_UUID, Uuid
from moldau.client.accumulator import (
    Batch,
    OnDelivery,
    PartitionQueue,
    ProducerIdentity,
    RecordMetadata,
    estimated_size,
)
from moldau.client.connection import Connection, error_code
from moldau.client.metadata import Cluster, may_pass
from moldau.client.partitioner import partition_of
from moldau.protocol.compression import Compression
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

#: The producer's sequence has no place in the log any more: only a new producer id helps.
_LOST_SEQUENCE = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)

#: The last version of Produce that names topics; later ones have their ids.
_LAST_VERSION_WITH_NAMES = 12


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    acks: int = -1
    compression: Compression = Compression.NONE
    compression_level: int | None = None
    #: None: on where acks=all.
    enable_idempotence: bool | None = None
    batch_size_bytes: int = 16_384
    linger_ms: float = 5
    max_request_bytes: int = 1_048_576
    buffer_memory_bytes: int = 33_554_432
    max_in_flight: int = 5
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    #: How long ``send`` may wait for a topic to be known.
    max_block_ms: int = 60_000

    @property
    def idempotent(self) -> bool:
        return self.acks == -1 if self.enable_idempotence is None else self.enable_idempotence

    def check(self) -> None:
        if self.acks not in (-1, 0, 1):
            raise ValueError(f"acks={self.acks}: it is 0, 1 or -1 (all)")
        if self.idempotent and self.acks != -1:
            raise ValueError("an idempotent producer needs acks=all (-1)")
        if self.idempotent and self.max_in_flight > 5:
            raise ValueError("an idempotent producer has at most five requests on their way")
        if min(self.batch_size_bytes, self.linger_ms, self.buffer_memory_bytes) < 0 or self.max_in_flight < 1:
            raise ValueError("sizes and times are not negative, and at least one request must be on its way")


class Delivery:
    """The fate of one record: await it for its metadata; it raises the error that the record met."""

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: Batch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    @property
    def done(self) -> bool:
        return self._batch.outcome is not None

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if self._batch.outcome is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._batch.listeners.append(lambda: waiter.done() or waiter.set_result(None))
            yield from waiter
        outcome = self._batch.metadata(self._index, self._timestamp)
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome


class _TopicQueues:
    """The queues of a topic, and the one that records without a key go to at present."""

    __slots__ = ("queues", "sticky", "topic_id")

    def __init__(self, name: str, topic_id: Uuid, count: int, first: int) -> None:
        self.topic_id = topic_id
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
        self._clock = clock or SystemClock()
        self._now_ms = self._clock.now_ms
        self._loop = asyncio.get_running_loop()
        self._identity: ProducerIdentity | None = None
        self._topics: dict[str, _TopicQueues] = {}
        #: Queues with a full batch, in the order in which they are served.
        self._ready: dict[PartitionQueue, None] = {}
        self._connections: dict[int, Connection] = {}
        self._in_flight: dict[int, int] = {}
        self._free_bytes = options.buffer_memory_bytes
        self._unfinished = 0
        self._pump_scheduled = False
        self._recovery: asyncio.Task[None] | None = None
        self._new_identity_needed = False
        self._progress: asyncio.Future[None] | None = None
        self._closed = False

    @classmethod
    async def open(
        cls,
        cluster: Cluster,
        *,
        clock: Clock | None = None,
        **options: Any,
    ) -> "Producer":
        """Takes the fields of ``ProducerOptions``; an idempotent producer asks for its id here."""
        producer = cls(cluster, ProducerOptions(**options), clock)
        if producer.options.idempotent:
            await producer._take_identity()
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
        *,
        partition: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Takes a record; waits while there is no room. The outcome comes with the delivery."""
        if headers:
            headers = tuple(headers)
        while True:
            delivery = self.try_send(
                topic,
                value,
                key,
                partition=partition,
                headers=headers,
                timestamp_ms=timestamp_ms,
                on_delivery=on_delivery,
            )
            if delivery is not None:
                return delivery
            if topic not in self._topics:
                await self._learn_topic(topic)
            elif self._pump_scheduled:
                await asyncio.sleep(0)
            else:
                await self._wait_for_progress()

    def try_send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery | None:
        """As ``send``; None when the topic is not known yet, the memory is full, or the loop must turn first."""
        queues = self._topics.get(topic)
        if queues is None or self._pump_scheduled:
            return None
        if partition is not None:
            if not 0 <= partition < len(queues.queues):
                count = len(queues.queues)
                raise ValueError(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}")
            queue = queues.queues[partition]
        elif key is not None:
            queue = queues.queues[partition_of(key, len(queues.queues))]
        else:
            queue = queues.sticky
        batch = queue.filling
        size = estimated_size(key, value, headers)
        if batch is not None and batch.builder.size + size > self.options.batch_size_bytes:
            self._close_batch(queue)
            if key is None and partition is None:
                queues.next_sticky()
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
        return Delivery(batch, index, timestamp_ms)

    async def flush(self) -> None:
        """Returns when every record taken so far has its outcome."""
        for queues in self._topics.values():
            for queue in queues.queues:
                if queue.filling is not None:
                    self._close_batch(queue)
        while self._unfinished:
            await self._wait_for_progress()

    async def close(self, *, flush: bool = True) -> None:
        if flush and not self._closed:
            await self.flush()
        self._closed = True
        if self._recovery is not None:
            self._recovery.cancel()
        gone = KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer was closed before the record was sent")
        for queues in self._topics.values():
            for queue in queues.queues:
                for batch in queue.drop_all():
                    self._finish(batch, gone)

    # Collecting.

    def _open_batch(self, queue: PartitionQueue, size: int) -> Batch | None:
        options = self.options
        if size > options.max_request_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a record of about {size} bytes is larger than a request of {options.max_request_bytes}",
            )
        reserved = max(options.batch_size_bytes, size)
        if self._free_bytes < reserved and self._unfinished:
            return None
        self._free_bytes -= reserved
        self._unfinished += 1
        queue.filling = batch = Batch(queue, reserved, self._loop.time() + options.delivery_timeout_ms / 1000)
        if options.linger_ms > 0:
            self._loop.call_later(options.linger_ms / 1000, self._linger_over, batch)
        else:
            self._loop.call_soon(self._linger_over, batch)
        return batch

    def _linger_over(self, batch: Batch) -> None:
        if batch.queue.filling is batch:
            self._close_batch(batch.queue)
            self._pump()

    def _close_batch(self, queue: PartitionQueue) -> None:
        queue.close_batch()
        self._ready[queue] = None
        self._schedule_pump()

    def _schedule_pump(self) -> None:
        if not self._pump_scheduled and not self._closed:
            self._pump_scheduled = True
            self._loop.call_soon(self._pump)

    # Sending.

    def _pump(self) -> None:
        """Sends what can be sent: to each broker one batch of each partition in a request."""
        self._pump_scheduled = False
        if self._new_identity_needed or self._closed:
            return
        options = self.options
        stuck = False
        while True:
            requests: dict[int, list[Batch]] = {}
            sizes: dict[int, int] = {}
            for queue in list(self._ready):
                if not queue.can_send(options.max_in_flight):
                    if not queue.full:
                        del self._ready[queue]
                    continue
                node_id = self._leader(queue)
                connection = self._connections.get(node_id)
                if connection is None or connection.closed:
                    stuck = True
                    continue
                taken = requests.setdefault(node_id, [])
                room = self._in_flight.get(node_id, 0) < options.max_in_flight
                if not room or (
                    taken and sizes[node_id] + queue.full[0].reserved > options.max_request_bytes
                ):
                    continue
                batch = queue.take(self._identity, options.compression, options.compression_level)
                taken.append(batch)
                sizes[node_id] = sizes.get(node_id, 0) + batch.reserved
            requests = {node_id: batches for node_id, batches in requests.items() if batches}
            if not requests:
                break
            for node_id, batches in requests.items():
                self._send(node_id, batches)
        if stuck:
            self._recover()

    def _leader(self, queue: PartitionQueue) -> int:
        topic = self.cluster.known_topic(queue.topic)
        if topic is None or queue.index >= len(topic.partitions):
            return -1
        return topic.partitions[queue.index].leader_id

    def _send(self, node_id: int, batches: list[Batch]) -> None:
        options = self.options
        connection = self._connections[node_id]
        request, by_name = self._request(batches)
        max_version = _LAST_VERSION_WITH_NAMES if by_name else None
        try:
            if options.acks == 0:
                connection.post(request, max_version=max_version)
                for batch in batches:
                    batch.queue.arrived(batch)
                    self._finish(batch, (-1, -1))
                return
            answer = connection.submit(
                request, max_version=max_version, timeout_ms=options.request_timeout_ms
            )
        except KafkaError as error:
            for batch in batches:
                self._failed(batch, error)
            return
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        answer.add_done_callback(partial(self._answered, node_id, batches))

    def _request(self, batches: list[Batch]) -> tuple[ProduceRequest, bool]:
        by_name = False
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            name = batch.queue.topic
            data = topics.get(name)
            if data is None:
                known = self.cluster.known_topic(name)
                topic_id = ZERO_UUID if known is None else known.topic_id
                by_name = by_name or topic_id == ZERO_UUID
                topics[name] = data = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
            data.partition_data.append(PartitionProduceData(index=batch.queue.index, records=batch.records))
        options = self.options
        request = ProduceRequest(None, options.acks, options.request_timeout_ms, list(topics.values()))
        return request, by_name

    def _answered(self, node_id: int, batches: list[Batch], answer: "asyncio.Future[Any]") -> None:
        self._in_flight[node_id] -= 1
        error = answer.exception()
        if error is not None:
            assert isinstance(error, KafkaError), error
            for batch in batches:
                self._failed(batch, error)
        else:
            found = {
                (topic.name or self.cluster.topic_name(topic.topic_id), p.index): p
                for topic in answer.result().responses
                for p in topic.partition_responses
            }
            for batch in batches:
                self._outcome(batch, found.get((batch.queue.topic, batch.queue.index)))
        self._pump()

    def _outcome(self, batch: Batch, given: PartitionProduceResponse | None) -> None:
        if given is None:
            self._failed(batch, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker left a partition out"))
        elif given.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            batch.queue.arrived(batch)
            self._finish(batch, (given.base_offset, given.log_append_time_ms))
        else:
            said = given.error_message
            if given.record_errors and given.record_errors[0].batch_index_error_message:
                said = given.record_errors[0].batch_index_error_message
            self._failed(batch, KafkaError(error_code(given.error_code), said))

    def _failed(self, batch: Batch, error: KafkaError) -> None:
        """Sends again what may still succeed; a lost sequence is the end of the first batch it hits."""
        queue = batch.queue
        first = not any(other.order < batch.order for other in queue.in_flight)
        waits_for_another = error.code in _LOST_SEQUENCE and (not first or queue.resending)
        again = (may_pass(error) or waits_for_another) and self._loop.time() < batch.deadline
        if again and not self._closed:
            queue.send_again(batch)
            self._ready[queue] = None
            self._recover()
            return
        queue.arrived(batch)
        self._finish(batch, error)
        if self._identity is not None and error.code in _LOST_SEQUENCE:
            self._new_identity_needed = True
            self._recover()
        elif self._identity is not None and not may_pass(error):
            # The broker never counted this batch: those behind it would be out of order for ever.
            self._new_identity_needed = True
            self._recover()

    def _finish(self, batch: Batch, outcome: tuple[int, int] | KafkaError) -> None:
        self._free_bytes += batch.reserved
        self._unfinished -= 1
        batch.finish(outcome)
        self._tell_progress()

    def _tell_progress(self) -> None:
        if self._progress is not None and not self._progress.done():
            self._progress.set_result(None)

    async def _wait_for_progress(self) -> None:
        """Until some batch has its outcome."""
        if self._progress is None or self._progress.done():
            self._progress = self._loop.create_future()
        await asyncio.shield(self._progress)

    # When something is missing.

    async def _learn_topic(self, name: str) -> None:
        topic = await self.cluster.retry(
            lambda: self.cluster.topic(name, refresh=True, allow_auto_topic_creation=True),
            timeout_ms=self.options.max_block_ms,
        )
        if name not in self._topics:
            first = self._now_ms()  # not every producer starts with partition 0
            self._topics[name] = _TopicQueues(name, topic.topic_id, len(topic.partitions), first)
            await self._connect()

    async def _connect(self) -> None:
        """Opens what is missing of the connections to the leaders of the topics in use."""
        for name, queues in self._topics.items():
            for queue in queues.queues:
                node_id = self._leader(queue)
                connection = self._connections.get(node_id)
                if node_id < 0 or (connection is not None and not connection.closed):
                    continue
                try:
                    self._connections[node_id] = await self.cluster.connection(node_id, "produce")
                except KafkaError as error:
                    if not may_pass(error):
                        raise KafkaError(error.code, f"{name}: {error.message}") from error

    def _recover(self) -> None:
        if self._recovery is None and not self._closed:
            self._recovery = self._loop.create_task(self._recovering())

    async def _recovering(self) -> None:
        """One pause, then new metadata, connections and, where it is lost, a new identity; then on."""
        cluster = self.cluster
        try:
            attempt = max((b.attempts for q in self._ready for b in q.full), default=1)
            pause_ms = min(cluster.retry_backoff_ms * 2 ** min(attempt - 1, 10), cluster.retry_backoff_max_ms)
            await asyncio.sleep(pause_ms / 1000)
            self._expire()
            await cluster.refresh()
            await self._connect()
            if self._new_identity_needed:
                await self._restart_identity()
        except KafkaError as error:
            if not may_pass(error):
                self._give_up(error)
        finally:
            self._recovery = None
        self._pump()

    def _expire(self) -> None:
        now = self._loop.time()
        for queue in list(self._ready):
            for batch in queue.expired(now):
                waited = self.options.delivery_timeout_ms
                self._finish(
                    batch, KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not delivered within {waited} ms")
                )

    def _give_up(self, error: KafkaError) -> None:
        """An error that no retry mends ends everything that waits."""
        for queue in list(self._ready):
            for batch in queue.drop_all():
                self._finish(batch, error)
        self._ready.clear()

    async def _restart_identity(self) -> None:
        """A new producer id, once nothing of the old one is on its way."""
        while any(self._in_flight.values()):
            await self._wait_for_progress()
        await self._take_identity()
        assert self._identity is not None
        for queues in self._topics.values():
            for queue in queues.queues:
                queue.restart_sequences(self._identity)
        self._new_identity_needed = False

    async def _take_identity(self) -> None:
        async def attempt() -> ProducerIdentity:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF)
            answer = await (await self.cluster.any()).send(request)
            if answer.error_code:
                raise KafkaError(error_code(answer.error_code), "the cluster gave no producer id")
            return ProducerIdentity(answer.producer_id, answer.producer_epoch)

        self._identity = await self.cluster.retry(attempt)
