"""Sends full batches to the leaders of their partitions, and again where that may help.

``ready(queue)`` and ``send_now(queue)`` say that a queue has something to send; ``finish(batch, outcome)``,
given by the owner, is called for each batch once. Up to ``max_in_flight`` requests are in flight to each
broker, each with one batch of every partition that has one. ``encoded_sender`` sends over blocking
connections and leaves what failed there to ``retry``.

Invariant: the batches of a partition arrive in their order; with an identity (a producer id) each is written
once. When the broker has lost count of the sequences, the batch that met this fails, and the rest goes on
under a new id as soon as nothing of the old one is in flight. In a transaction, and where all is to fail at
the first error, nothing goes on: what waits fails with the same error.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from moldau.base.names import ZERO_UUID, TopicPartition
from moldau.client.producer import plain_request
from moldau.client.producer.accumulator import Batch, PartitionQueue, ProducerIdentity
from moldau.client.producer.produce_requests import (
    LEFT_OUT,
    MAX_IN_FLIGHT,
    Outcome,
    outcomes,
    produce_request,
)
from moldau.client.producer.transactions import OpenTransaction, add_partitions
from moldau.client.transport.cluster import Cluster, is_retriable
from moldau.client.transport.connection import Connection, error_code
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.compression import Compression
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.produce import ProduceRequest

#: The producer's sequence has no place in the log any more: only a new producer id helps.
_LOST_SEQUENCE = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """The options of a producer; the defaults are those of Kafka 4's Java client."""

    acks: int = -1
    compression: Compression = Compression.NONE
    compression_level: int | None = None
    #: None: on where acks=all.
    enable_idempotence: bool | None = None
    batch_size_bytes: int = 16_384
    linger_ms: float = 5
    max_request_bytes: int = 1_048_576
    buffer_memory_bytes: int = 33_554_432
    max_in_flight: int = MAX_IN_FLIGHT
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    #: How long ``send`` may wait for a topic to be known.
    max_block_ms: int = 60_000
    #: Whether a topic that is missing is created by asking for it, where the broker does that.
    allow_auto_create_topics: bool = True
    #: Makes the producer a transactional one.
    transactional_id: str | None = None
    #: The coordinator aborts a transaction that is open for longer.
    transaction_timeout_ms: int = 60_000
    #: Transactions are prepared first and wait for their end without a timeout.
    two_phase_commit: bool = False
    #: What an earlier producer of the id has prepared is kept, to be completed.
    keep_prepared: bool = False
    #: After an error that is not retriable nothing more is sent.
    stop_at_first_error: bool = False

    @property
    def idempotent(self) -> bool:
        return self.acks == -1 if self.enable_idempotence is None else self.enable_idempotence

    def check(self) -> None:
        """ValueError for what cannot work."""
        if self.acks not in (-1, 0, 1):
            raise ValueError(f"acks={self.acks}: it is 0, 1 or -1 (all)")
        if self.transactional_id is not None and not self.idempotent:
            raise ValueError("a transactional producer needs acks=all (-1) and is idempotent")
        if (self.two_phase_commit or self.keep_prepared) and self.transactional_id is None:
            raise ValueError("two-phase commit needs a transactional id")
        if self.idempotent and self.acks != -1:
            raise ValueError("an idempotent producer needs acks=all (-1)")
        if self.idempotent and self.max_in_flight > MAX_IN_FLIGHT:
            raise ValueError("an idempotent producer has at most five requests on their way")
        if min(self.batch_size_bytes, self.linger_ms, self.buffer_memory_bytes) < 0 or self.max_in_flight < 1:
            raise ValueError("sizes and times are not negative, and at least one request must be on its way")


class Sender:
    """To be made on the event loop that it runs on.

    ``identity`` or ``transaction`` is what batches are sent under; ``start`` asks for an identity.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions,
        queues: Callable[[], Iterable[PartitionQueue]],
        finish: Callable[[Batch, Outcome], None],
        *,
        identity: ProducerIdentity | None = None,
        transaction: OpenTransaction | None = None,
    ) -> None:
        self.cluster = cluster
        self.options = options
        self.identity = identity
        self.transaction: OpenTransaction | None = None
        #: True from ``ready`` until the loop has turned and what could be sent is sent.
        self.pump_scheduled = False
        self._queues = queues
        self._finish = finish
        self._loop = asyncio.get_running_loop()
        self._new_identity_needed = False
        #: Why nothing more is sent, until the next transaction.
        self.failure: KafkaError | None = None
        #: Whether the coordinator may know of the transaction.
        self.transaction_started = False
        #: What the coordinator knows of, before version 2 of transactions.
        self._added: set[TopicPartition] = set()
        self._adding: asyncio.Task[None] | None = None
        #: Queues with a full batch, in the order in which they are served.
        self._ready: dict[PartitionQueue, None] = {}
        self._connections: dict[int, Connection] = {}
        self._in_flight: dict[int, int] = {}
        self._recovery: asyncio.Task[None] | None = None
        self._closed = False
        if transaction is not None:
            self.enter(transaction)

    def ready(self, queue: PartitionQueue) -> None:
        """The queue has a full batch, which leaves with those of other queues when the loop has turned."""
        self._ready[queue] = None
        if not self.pump_scheduled and not self._closed:
            self.pump_scheduled = True
            self._loop.call_soon(self.pump)

    def send_now(self, queue: PartitionQueue) -> None:
        """The same for a batch that waits for no others."""
        self._ready[queue] = None
        self.pump()

    async def start(self) -> None:
        if self.options.idempotent and self.identity is None:
            self.identity = await new_identity(self.cluster)

    def close(self) -> None:
        """Sends nothing more; what is in flight keeps its outcome."""
        self._closed = True
        for task in (self._recovery, self._adding):
            if task is not None:
                task.cancel()

    def retry(self, failed: Iterable[tuple[Batch, KafkaError]]) -> None:
        """Takes over batches that ``EncodedSender`` has sent without knowing whether they are written."""
        deadline = self._loop.time() + self.options.delivery_timeout_ms / 1000
        for batch, error in sorted(failed, key=lambda each: each[0].order):
            batch.deadline = deadline
            self._failed(batch, error)

    # Transactions.

    def enter(self, transaction: OpenTransaction) -> None:
        """Batches belong to this transaction from now on; nothing may be in flight."""
        if self.identity != transaction.identity:
            self.identity = transaction.identity
            for queue in self._queues():
                queue.restart_sequences(self.identity)
        self.transaction = transaction
        self.failure = None
        self.transaction_started = False
        self._added.clear()

    def to_add(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Those that the coordinator has to know of before they are written to."""
        if self.transaction is None or self.transaction.adds_implicitly:
            return set()
        return {*partitions} - self._added

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        assert self.transaction is not None
        self.transaction_started = True
        await add_partitions(self.cluster, self.transaction, sorted(partitions))
        self._added.update(partitions)

    async def drain(self) -> None:
        """Returns when nothing is in flight."""
        while any(self._in_flight.values()):
            await asyncio.sleep(0.001)  # requests end by themselves, by their answer or their timeout

    def stop(self, error: KafkaError) -> None:
        """Everything that waits fails with this error, and nothing is sent again until ``enter``."""
        if self.failure is None:
            self.failure = error
        self._lose_all(error)

    # Sending.

    def pump(self) -> None:
        """Sends what can be sent."""
        self.pump_scheduled = False
        if not self._ready or self._closed or self._new_identity_needed:
            return
        stuck = False

        def may_send(node_id: int) -> bool:
            nonlocal stuck
            connection = self._connections.get(node_id)
            if connection is None or connection.closed:
                stuck = True
                return False
            return self._in_flight.get(node_id, 0) < self.options.max_in_flight

        while self._ready:
            requests = self.requests([q for q in list(self._ready) if self._may_send(q)], may_send)
            if not requests:
                break
            for node_id, batches in requests.items():
                for batch in batches:
                    if not batch.queue.full:
                        self._ready.pop(batch.queue, None)
                self._send(node_id, batches)
        if stuck:
            self._recover()

    def requests(
        self, queues: Iterable[PartitionQueue], may_send: Callable[[int], bool] | None = None
    ) -> dict[int, list[Batch]]:
        """By broker, one batch of every queue that has space in the request; one batch always has."""
        found: dict[int, list[Batch]] = {}
        sizes: dict[int, int] = {}
        options = self.options
        limit = max(options.max_request_bytes, options.batch_size_bytes)
        for queue in queues:
            node_id = self.leader(queue)
            size = sizes.get(node_id, 0) + queue.full[0].reserved
            if (may_send is None or may_send(node_id)) and (size <= limit or node_id not in found):
                batch = queue.take(
                    self.identity,
                    options.compression,
                    options.compression_level,
                    transactional=self.transaction is not None,
                )
                found.setdefault(node_id, []).append(batch)
                sizes[node_id] = size
        return found

    def leader(self, queue: PartitionQueue) -> int:
        known = self.cluster.partition(queue.partition)
        return -1 if known is None else known.leader_id

    def request(
        self, batches: list[Batch], wrap: Callable[[Any], Any] | None = None
    ) -> tuple[ProduceRequest, int | None]:
        """The request, and the last version that it can be sent in; ``wrap`` is for each batch's records."""
        return produce_request(
            self.cluster,
            [(b.queue.partition, b.records if wrap is None else wrap(b.records)) for b in batches],
            acks=self.options.acks,
            timeout_ms=self.options.request_timeout_ms,
            transaction=self.transaction,
        )

    def take_answer(self, answer: Any, batches: list[Batch]) -> list[tuple[Batch, KafkaError]]:
        """Finishes the batches that are written; returns those that are not."""
        if answer.__class__ is tuple:  # of a plain request, whose only batch is written
            found: dict[TopicPartition, Outcome] = {batches[0].queue.partition: answer}
        else:
            found = outcomes(self.cluster, answer)
        failed: list[tuple[Batch, KafkaError]] = []
        for batch in batches:
            outcome = found.get(batch.queue.partition, LEFT_OUT)
            if isinstance(outcome, KafkaError):
                failed.append((batch, outcome))
            else:
                batch.queue.arrived(batch, written=True)
                self._finish(batch, outcome)
        return failed

    def _may_send(self, queue: PartitionQueue) -> bool:
        if not queue.full:
            del self._ready[queue]
            return False
        if queue.resending and self._recovery is not None:
            return False  # the reason of the failure is being looked into
        if self.transaction is not None and self.to_add((queue.partition,)):
            self._add_all_ready()
            return False
        return queue.can_send(self.options.max_in_flight)

    def _send(self, node_id: int, batches: list[Batch]) -> None:
        connection = self._connections[node_id]
        try:
            is_answered = self._submit(connection, batches, partial(self._answered, node_id, batches))
        except KafkaError as error:
            for batch in batches:
                self._failed(batch, error)
            return
        if not is_answered:
            for batch in batches:
                batch.queue.arrived(batch, written=True)
                self._finish(batch, (-1, -1))
            return
        self.transaction_started = True
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1

    def _submit(self, connection: Connection, batches: list[Batch], answered: Callable[[Any], None]) -> bool:
        """``answered`` is called with the answer, or with why there is none; False where none will come."""
        options = self.options
        timeout_ms = options.request_timeout_ms
        if len(batches) == 1 and options.acks and self.transaction is None:
            version, decode = connection.agreed(ApiKey.PRODUCE)
            name, index = batches[0].queue.partition
            topic_id = self.cluster.topic_id(name)
            if version == plain_request.VERSION and topic_id != ZERO_UUID:
                parts = plain_request.encoded(
                    topic_id, index, batches[0].records, acks=options.acks, timeout_ms=timeout_ms
                )
                read = plain_request.answer_reader(topic_id, index, decode)
                connection.submit_encoded(
                    parts, ApiKey.PRODUCE, version, read, answered, timeout_ms=timeout_ms
                )
                return True
        request, max_version = self.request(batches)
        if options.acks:
            answer = connection.submit(request, max_version=max_version, timeout_ms=timeout_ms)
            answer.add_done_callback(lambda done: answered(done.exception() or done.result()))
        else:
            connection.post(request, max_version=max_version)
        return bool(options.acks)

    def _answered(self, node_id: int, batches: list[Batch], found: Any) -> None:
        self._in_flight[node_id] -= 1
        if isinstance(found, KafkaError):
            failed = [(batch, found) for batch in batches]
        else:
            failed = self.take_answer(found, batches)
        for each in failed:
            self._failed(*each)
        self.pump()

    def _failed(self, batch: Batch, error: KafkaError) -> None:
        """Sends again what may still succeed. A batch out of order waits for the one before it."""
        queue = batch.queue
        lost = error.code in _LOST_SEQUENCE
        earlier = any(0 <= other.order < batch.order for other in (*queue.in_flight, *queue.full))
        retriable = is_retriable(error) or (lost and (earlier or self._new_identity_needed))
        on_time = self._loop.time() < batch.deadline
        if retriable and on_time and not self._closed and self.failure is None:
            queue.send_again(batch)
            self._ready[queue] = None
            self._recover()
            return
        queue.arrived(batch, written=False)
        if self._all_or_nothing:
            self.stop(error)
        elif self.identity is not None:
            # The broker did not count this batch: those behind it would be out of order for ever.
            self._new_identity_needed = True
            self._recover()
        self._finish(batch, error)

    @property
    def _all_or_nothing(self) -> bool:
        return self.transaction is not None or self.options.stop_at_first_error

    def _lose_all(self, error: KafkaError) -> None:
        for queue in self._queues():
            for batch in queue.drop_all():
                self._finish(batch, error)
        self._ready.clear()

    # When something is missing.

    async def connect(self) -> None:
        """Opens what is missing of the connections to the leaders of the partitions in use."""
        for node_id in {self.leader(queue) for queue in self._queues()} - {-1}:
            connection = self._connections.get(node_id)
            if connection is not None and not connection.closed:
                continue
            try:
                self._connections[node_id] = await self.cluster.connection(node_id, "produce")
            except KafkaError as error:
                if not is_retriable(error):
                    raise

    def _add_all_ready(self) -> None:
        if self._adding is None and not self._closed:
            self._adding = self._loop.create_task(self._add_ready())

    async def _add_ready(self) -> None:
        try:
            await self.add(self.to_add(queue.partition for queue in self._ready))
        except KafkaError as error:
            self.stop(error)
        finally:
            self._adding = None
        self.pump()

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
            # By name: a topic that was deleted and created again is not among those that are known.
            await cluster.refresh(queue.topic for queue in self._queues())
            await self.connect()
            if self._new_identity_needed:
                await self._restart_identity()
        except KafkaError as error:
            if not is_retriable(error):
                (self.stop if self._all_or_nothing else self._lose_all)(error)
        finally:
            self._recovery = None
        self.pump()

    def _expire(self) -> None:
        waited = self.options.delivery_timeout_ms
        for queue in self._queues():
            for batch in queue.expired(self._loop.time()):
                late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not delivered within {waited} ms")
                self._finish(batch, late)
                if self._all_or_nothing:
                    self.stop(late)

    async def _restart_identity(self) -> None:
        """A new producer id, once nothing of the old one is in flight."""
        await self.drain()
        self.identity = await new_identity(self.cluster)
        for queue in self._queues():
            queue.restart_sequences(self.identity)
        self._new_identity_needed = False


async def new_identity(cluster: Cluster) -> ProducerIdentity:
    """A new producer id, for an idempotent producer without transactions."""

    async def attempt() -> ProducerIdentity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF)
        answer = await (await cluster.any()).send(request)
        if answer.error_code:
            raise KafkaError(error_code(answer.error_code), "the cluster gave no producer id")
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    return await cluster.retry(attempt)
