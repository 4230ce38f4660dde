"""Sends batches that are encoded already, for a thread that waits.

    sender = EncodedSender(loop, ProducerOptions(stop_at_first_error=True))
    sender.send("orders", batches)      # returns when they are in flight
    sender.flush()                      # returns when they are written
    sender.done()                       # the next one may have its producer id

The direct way is over blocking connections, from the memory that the batches are in. Whatever goes wrong
there is left to ``Sender``, on the loop: what is in flight is waited for, and what was not acknowledged is
sent again, in its order and with its old sequence numbers. Then the direct way goes on. Where there are no
blocking connections or no answers (acks=0), everything goes through ``Sender``.

Invariant: as that of ``sender``. An error that is not retriable is final: it is raised, and nothing more is
sent. Only one of the two, the calling thread or the loop, uses the queues at a time.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future

from moldau.base.names import TopicPartition
from moldau.client.producer.accumulator import Batch, PartitionQueue
from moldau.client.producer.encoded_batch import EncodedBatch
from moldau.client.producer.idle_producers import IdempotentProducer, give_back, take_producer
from moldau.client.producer.produce_requests import MAX_IN_FLIGHT, Outcome
from moldau.client.producer.sender import ProducerOptions, Sender
from moldau.client.producer.transactions import OpenTransaction
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.client.transport.blocking_connection import BlockingConnection
from moldau.client.transport.requests import InPlace
from moldau.protocol.errors import ErrorCode, KafkaError

#: Calls of ``send`` whose batches may be unwritten when they go through the loop.
_MAX_ROUNDS = 3
#: Batches behind a failed one are not sent: they would overtake it, and a broker that does not know the
#: producer yet would take them for its first ones.
_BEHIND = KafkaError(ErrorCode.NETWORK_EXCEPTION, "batches before these have failed")


class _BrokerConnection:
    """The blocking connection to one broker, and the batches in flight on it."""

    def __init__(self, connection: BlockingConnection) -> None:
        self.connection = connection
        self.unanswered: deque[list[Batch]] = deque()


class EncodedSender:
    """For one thread. Batches are part of ``transaction``; without one, a producer id makes retries safe."""

    def __init__(
        self,
        loop: BackgroundLoop,
        options: ProducerOptions,
        *,
        transaction: OpenTransaction | None = None,
    ) -> None:
        self._loop = loop
        self._options = options
        self._producer: IdempotentProducer | None = None
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._sender: Sender = loop.run(self._make_sender(transaction))
        self._direct = options.acks != 0 and loop.has_blocking_connections
        self._ways: dict[int, _BrokerConnection] = {}
        self._failed: list[tuple[Batch, KafkaError]] = []
        self._rounds: deque[Future[None]] = deque()
        self._progress: asyncio.Future[None] | None = None
        self._error: KafkaError | None = None

    async def _make_sender(self, transaction: OpenTransaction | None) -> Sender:
        cluster, identity = self._loop.cluster, None
        if transaction is None and self._options.idempotent:
            self._producer = await take_producer(cluster)
            identity, self._queues = self._producer.identity, self._producer.queues
        return Sender(
            cluster,
            self._options,
            self._queues.values,
            self._finish,
            identity=identity,
            transaction=transaction,
        )

    def send(self, topic: str, batches: Iterable[EncodedBatch]) -> None:
        """Returns when they are in flight, not when they are written."""
        if self._direct:
            self._send_directly(self._add(topic, batches))
            return
        while len(self._rounds) >= _MAX_ROUNDS or (self._rounds and self._rounds[0].done()):
            self._rounds.popleft().result()
        self._raise_error()
        self._rounds.append(self._loop.submit(self._round(topic, batches)))

    def flush(self) -> None:
        """Returns when everything is written; raises the error that is not retriable."""
        self._receive_all()
        if self._failed:
            self._recover()
        while self._rounds:
            self._rounds.popleft().result()
        self._raise_error()

    def done(self) -> None:
        """After ``flush``, when nothing more is to be sent: the next one may have the producer id."""
        if self._producer is not None:
            give_back(self._loop.cluster, self._producer)
            self._producer = None

    def close(self) -> None:
        """Must be called last, also after a failure. Idle connections are kept for the next sender."""
        for way in self._ways.values():
            self._loop.give_back(way.connection)
        self._ways.clear()
        if self._rounds:
            self._loop.submit(self._abandon())

    async def _abandon(self) -> None:
        self._sender.close()
        self._sender.stop(KafkaError(ErrorCode.NETWORK_EXCEPTION, "the sender was closed"))

    def _add(self, topic: str, batches: Iterable[EncodedBatch]) -> dict[PartitionQueue, list[Batch]]:
        added: dict[PartitionQueue, list[Batch]] = {}
        for encoded in batches:
            partition = TopicPartition(topic, encoded.partition)
            queue = self._queues.get(partition)
            if queue is None:
                queue = self._queues[partition] = PartitionQueue(*partition)
            added.setdefault(queue, []).append(queue.add_encoded(encoded))
        return added

    def _finish(self, batch: Batch, outcome: Outcome) -> None:
        batch.finish(outcome)
        if isinstance(outcome, KafkaError) and self._error is None:
            self._error = _in_words(batch.queue.partition, outcome)
        if self._progress is not None:
            self._progress.set_result(None)
            self._progress = None

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    # Directly.

    def _send_directly(self, queues: Iterable[PartitionQueue]) -> None:
        if new := self._sender.to_add(queue.partition for queue in queues):
            self._loop.run(self._sender.add(new))
        while not self._failed and (waiting := [queue for queue in queues if queue.full]):
            free = [queue for queue in waiting if not queue.waits_for_first]
            if not free:
                self._receive_all()
            for node_id, batches in self._sender.requests(free).items():
                self._begin(node_id, batches)
        if self._failed:
            self._recover()

    def _begin(self, node_id: int, batches: list[Batch]) -> None:
        way = self._ways.get(node_id)
        if way is not None and len(way.unanswered) >= MAX_IN_FLIGHT:
            self._receive(node_id, way)
        if self._failed:
            self._failed += [(batch, _BEHIND) for batch in batches]
            return
        try:
            way = self._way(node_id)
            request, version = self._sender.request(batches, InPlace)
            way.connection.send(request, max_version=version)
            way.unanswered.append(batches)
        except KafkaError as error:
            self._lose(node_id, error)
            self._failed += [(batch, error) for batch in batches]

    def _way(self, node_id: int) -> _BrokerConnection:
        if node_id < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        if (known := self._ways.get(node_id)) is not None:
            return known
        made = self._ways[node_id] = _BrokerConnection(self._loop.blocking_connection(node_id))
        return made

    def _receive_all(self) -> None:
        for node_id, way in list(self._ways.items()):
            while node_id in self._ways and way.unanswered:
                self._receive(node_id, way)

    def _receive(self, node_id: int, way: _BrokerConnection) -> None:
        """The answer to the oldest request without one."""
        try:
            answer = way.connection.receive()
        except KafkaError as error:
            self._lose(node_id, error)
            return
        self._failed += self._sender.take_answer(answer, way.unanswered.popleft())

    def _lose(self, node_id: int, error: KafkaError) -> None:
        """What was in flight there may or may not be written."""
        if (way := self._ways.pop(node_id, None)) is not None:
            way.connection.close()
            self._failed += [(batch, error) for batches in way.unanswered for batch in batches]

    # Through the loop.

    def _recover(self) -> None:
        """Everything that is not acknowledged goes through the sender, and is waited for."""
        self._receive_all()
        failed, self._failed = self._failed, []
        self._loop.run(self._retry(failed))
        self._raise_error()

    async def _retry(self, failed: list[tuple[Batch, KafkaError]]) -> None:
        never_sent = {queue: list(queue.full) for queue in self._queues.values() if queue.full}
        self._sender.retry(failed)
        await self._finished(batch for batch, _ in failed)
        await self._send(never_sent)

    async def _round(self, topic: str, batches: Iterable[EncodedBatch]) -> None:
        await self._send(self._add(topic, batches))  # added at once, so in the order of the calls

    async def _send(self, queues: dict[PartitionQueue, list[Batch]]) -> None:
        """The batches are in their queues; returns when they have their outcome."""
        batches = [batch for each in queues.values() for batch in each]
        deadline = asyncio.get_running_loop().time() + self._options.delivery_timeout_ms / 1000
        for batch in batches:
            batch.deadline = deadline
        await self._sender.connect()
        for queue in queues:
            self._sender.ready(queue)
        await self._finished(batches)

    async def _finished(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            while batch.outcome is None:
                if self._progress is None:
                    self._progress = asyncio.get_running_loop().create_future()
                await asyncio.shield(self._progress)


def _in_words(partition: TopicPartition, error: KafkaError) -> KafkaError:
    """What a broker says of a batch does not name the partition."""
    if type(error) is not KafkaError or error.code == ErrorCode.REQUEST_TIMED_OUT:
        return error
    said = f": {error.message}" if error.message else ""
    return KafkaError(error.code, f"{partition} refused the records{said}")
