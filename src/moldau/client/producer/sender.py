"""Sends full batches to the leaders of their partitions, and again where that may help.

``ready(queue)`` says that a queue has something to send; ``finish(batch, outcome)``, given by the
producer, hears of each batch once. Up to ``max_in_flight`` requests are on their way to each broker, each
with one batch of every partition that has one.

Invariant: the batches of a partition arrive in their order; with an identity (a producer id) each is
written once. When the broker has lost count of the sequences, the batch that met this fails, and the rest
goes on under a new id as soon as nothing of the old one is on its way.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from moldau.base.names import ZERO_UUID
from moldau.client.producer.accumulator import Batch, PartitionQueue, ProducerIdentity
from moldau.client.transport.cluster import Cluster, may_pass
from moldau.client.transport.connection import Connection, error_code
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
    """What a producer can be told; the defaults are those of Kafka 4's Java client."""

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
        """ValueError for what cannot work."""
        if self.acks not in (-1, 0, 1):
            raise ValueError(f"acks={self.acks}: it is 0, 1 or -1 (all)")
        if self.idempotent and self.acks != -1:
            raise ValueError("an idempotent producer needs acks=all (-1)")
        if self.idempotent and self.max_in_flight > 5:
            raise ValueError("an idempotent producer has at most five requests on their way")
        if min(self.batch_size_bytes, self.linger_ms, self.buffer_memory_bytes) < 0 or self.max_in_flight < 1:
            raise ValueError("sizes and times are not negative, and at least one request must be on its way")


class Sender:
    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions,
        queues: Callable[[], Iterable[PartitionQueue]],
        finish: Callable[[Batch, tuple[int, int] | KafkaError], None],
    ) -> None:
        self.cluster = cluster
        self.options = options
        #: True from ``ready`` until the loop has turned and what could be sent is sent.
        self.pump_scheduled = False
        self._queues = queues
        self._finish = finish
        self._loop = asyncio.get_running_loop()
        self._identity: ProducerIdentity | None = None
        self._new_identity_needed = False
        #: Queues with a full batch, in the order in which they are served.
        self._ready: dict[PartitionQueue, None] = {}
        self._connections: dict[int, Connection] = {}
        self._in_flight: dict[int, int] = {}
        self._recovery: asyncio.Task[None] | None = None
        self._closed = False

    def ready(self, queue: PartitionQueue) -> None:
        """The queue has a full batch."""
        self._ready[queue] = None
        if not self.pump_scheduled and not self._closed:
            self.pump_scheduled = True
            self._loop.call_soon(self.pump)

    async def start(self) -> None:
        if self.options.idempotent:
            await self._take_identity()

    def close(self) -> None:
        """Sends nothing more; what is on its way keeps its outcome."""
        self._closed = True
        if self._recovery is not None:
            self._recovery.cancel()

    def pump(self) -> None:
        """Sends what can be sent."""
        self.pump_scheduled = False
        if self._closed or self._new_identity_needed:
            return
        stuck = False
        while True:
            requests: dict[int, list[Batch]] = {}
            sizes: dict[int, int] = {}
            for queue in list(self._ready):
                if not self._may_send(queue):
                    continue
                node_id = self._leader(queue)
                connection = self._connections.get(node_id)
                if connection is None or connection.closed:
                    stuck = True
                elif self._has_room(node_id, sizes.get(node_id, 0) + queue.full[0].reserved):
                    batch = queue.take(
                        self._identity, self.options.compression, self.options.compression_level
                    )
                    requests.setdefault(node_id, []).append(batch)
                    sizes[node_id] = sizes.get(node_id, 0) + batch.reserved
            if not requests:
                break
            for node_id, batches in requests.items():
                self._send(node_id, batches)
        if stuck:
            self._recover()

    def _may_send(self, queue: PartitionQueue) -> bool:
        if not queue.full:
            del self._ready[queue]
            return False
        if queue.resending and self._recovery is not None:
            return False  # the reason of the failure is being looked into
        return queue.can_send(self.options.max_in_flight)

    def _has_room(self, node_id: int, request_bytes: int) -> bool:
        """Whether a request to this broker may start or grow; one batch always fits."""
        if self._in_flight.get(node_id, 0) >= self.options.max_in_flight:
            return False
        return request_bytes <= max(self.options.max_request_bytes, self.options.batch_size_bytes)

    def _leader(self, queue: PartitionQueue) -> int:
        topic = self.cluster.known_topic(queue.topic)
        if topic is None or queue.index >= len(topic.partitions):
            return -1
        return topic.partitions[queue.index].leader_id

    def _send(self, node_id: int, batches: list[Batch]) -> None:
        connection = self._connections[node_id]
        request, by_name = self._request(batches)
        version = _LAST_VERSION_WITH_NAMES if by_name else None
        try:
            if self.options.acks == 0:
                connection.post(request, max_version=version)
                for batch in batches:
                    batch.queue.arrived(batch)
                    self._finish(batch, (-1, -1))
                return
            timeout_ms = self.options.request_timeout_ms
            answer = connection.submit(request, max_version=version, timeout_ms=timeout_ms)
        except KafkaError as error:
            for batch in batches:
                self._failed(batch, error)
            return
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        answer.add_done_callback(partial(self._answered, node_id, batches))

    def _request(self, batches: list[Batch]) -> tuple[ProduceRequest, bool]:
        """The request, and whether it must name its topics because an id is not known."""
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
        return ProduceRequest(None, options.acks, options.request_timeout_ms, list(topics.values())), by_name

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
        self.pump()

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
        """Sends again what may still succeed. A batch out of order waits for the one before it."""
        queue = batch.queue
        lost = error.code in _LOST_SEQUENCE
        earlier = any(0 <= other.order < batch.order for other in (*queue.in_flight, *queue.full))
        passes = may_pass(error) or (lost and (earlier or self._new_identity_needed))
        if passes and self._loop.time() < batch.deadline and not self._closed:
            queue.send_again(batch)
            self._ready[queue] = None
            self._recover()
            return
        queue.arrived(batch)
        if self._identity is not None:
            # The broker did not count this batch: those behind it would be out of order for ever.
            self._new_identity_needed = True
            self._recover()
        self._finish(batch, error)

    # When something is missing.

    async def connect(self) -> None:
        """Opens what is missing of the connections to the leaders of the partitions in use."""
        for node_id in {self._leader(queue) for queue in self._queues()} - {-1}:
            connection = self._connections.get(node_id)
            if connection is not None and not connection.closed:
                continue
            try:
                self._connections[node_id] = await self.cluster.connection(node_id, "produce")
            except KafkaError as error:
                if not may_pass(error):
                    raise

    def _recover(self) -> None:
        if self._recovery is None and not self._closed:
            self._recovery = self._loop.create_task(self._recovering())

    async def _recovering(self) -> None:
        """One pause, then new metadata, connections and, where it is lost, a new identity; then on."""
        cluster = self.cluster
        try:
            attempts = max((b.attempts for q in self._ready for b in q.full), default=1)
            pause_ms = cluster.retry_backoff_ms * 2 ** min(max(attempts - 1, 0), 10)
            await asyncio.sleep(min(pause_ms, cluster.retry_backoff_max_ms) / 1000)
            self._expire()
            await cluster.refresh()
            await self.connect()
            if self._new_identity_needed:
                await self._restart_identity()
        except KafkaError as error:
            if not may_pass(error):
                self._give_up(error)
        finally:
            self._recovery = None
        self.pump()

    def _expire(self) -> None:
        waited = self.options.delivery_timeout_ms
        for queue in self._queues():
            for batch in queue.expired(self._loop.time()):
                late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not delivered within {waited} ms")
                self._finish(batch, late)

    def _give_up(self, error: KafkaError) -> None:
        """An error that no retry mends ends everything that waits."""
        for queue in self._queues():
            for batch in queue.drop_all():
                self._finish(batch, error)
        self._ready.clear()

    async def _restart_identity(self) -> None:
        """A new producer id, once nothing of the old one is on its way."""
        while any(self._in_flight.values()):
            await asyncio.sleep(0.001)  # requests end by themselves, by their answer or their timeout
        await self._take_identity()
        assert self._identity is not None
        for queue in self._queues():
            queue.restart_sequences(self._identity)
        self._new_identity_needed = False

    async def _take_identity(self) -> None:
        self._identity = await new_identity(self.cluster)


async def new_identity(cluster: Cluster) -> ProducerIdentity:
    """A producer id that nobody had before, for an idempotent producer without transactions."""

    async def attempt() -> ProducerIdentity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF)
        answer = await (await cluster.any()).send(request)
        if answer.error_code:
            raise KafkaError(error_code(answer.error_code), "the cluster gave no producer id")
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    return await cluster.retry(attempt)
