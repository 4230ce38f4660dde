"""Payloads to the leaders of their partitions: several requests on their way, each batch written once.

``direct_sending`` does the same over lines, as long as nothing goes wrong, and leaves the rest to this one.

Invariant: the batches of a partition arrive in their order. When a request fails in a way that may pass,
everything on its way is waited for, and what was not acknowledged is sent again, in its order and with its
old sequence numbers, so that the broker tells repeats from news. Any other error is final: the task fails.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from moldau.base.names import ZERO_UUID, TopicPartition
from moldau.client.transport.cluster import Cluster, may_pass
from moldau.client.transport.connection import error_code
from moldau.client.transport.requests import InPlace
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records import NO_PRODUCER_ID, NO_SEQUENCE, add_to_sequence
from moldau.spark.options import WriteOptions
from moldau.spark.write.batch_payload import Payload
from moldau.spark.write.producers import Producer
from moldau.spark.write.transactions import Begun, add_partitions

#: The last version of Produce that names topics; later ones have their ids.
_LAST_VERSION_WITH_NAMES = 12
#: The last version of Produce that leaves it to the client to add partitions to a transaction.
_LAST_VERSION_WITHOUT_ADDING = 11
#: What the broker remembers of a producer, and so what may be on its way at once.
MAX_IN_FLIGHT = 5
_LANE = "spark-produce"
_WRITTEN = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})


@dataclass(slots=True)
class Unwritten:
    partition: TopicPartition
    records: memoryview
    count: int
    order: int


class PayloadSender:
    """``begun`` is the transaction that is written; without one, a ``producer`` makes retries safe."""

    def __init__(
        self,
        cluster: Cluster,
        options: WriteOptions,
        *,
        begun: Begun | None = None,
        producer: Producer | None = None,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._begun = begun
        if begun is not None:
            producer = Producer(begun.producer_id, begun.producer_epoch)
        self._producer = producer or Producer(NO_PRODUCER_ID, -1)
        self._added: set[TopicPartition] = set()
        self._order = 0
        self._in_flight: dict[int, set[asyncio.Future[None]]] = {}
        self._failed: list[Unwritten] = []
        self._final: KafkaError | None = None
        #: Records that the broker has acknowledged.
        self.acknowledged = 0

    async def send(self, topic: str, payloads: Iterable[Payload]) -> None:
        """Takes payloads; returns when they are on their way, not when they are written."""
        waiting = [self.stamp(topic, payload) for payload in payloads]
        await self.add(waiting)
        while waiting:
            requests, waiting = self.requests(waiting)
            for node_id, batches in requests.items():
                await self._room(node_id)
                if self._failed:
                    await self._settle()
                await self._start(node_id, batches)

    async def flush(self) -> None:
        """Returns when everything is written; raises the error that will not pass."""
        await self._settle()

    # The parts of it, for whoever sends in another way.

    @property
    def has_failed(self) -> bool:
        """Whether ``flush`` has something to do, or to say, besides waiting."""
        return bool(self._failed) or self._final is not None

    def to_add(self, batches: list[Unwritten]) -> set[TopicPartition]:
        """Before version 2 of transactions the coordinator has to hear of a partition first."""
        if self._begun is None or self._begun.adds_implicitly:
            return set()
        return {batch.partition for batch in batches} - self._added

    async def add(self, batches: list[Unwritten]) -> None:
        if new := self.to_add(batches):
            assert self._begun is not None
            await add_partitions(self._cluster, self._begun, sorted(new))
            self._added |= new

    def stamp(self, topic: str, payload: Payload) -> Unwritten:
        """The next batch of its partition; to be sent in the order of these calls."""
        partition = TopicPartition(topic, payload.partition)
        sequence = NO_SEQUENCE
        producer = self._producer
        if producer.producer_id >= 0:
            sequence = producer.sequences.get(partition, 0)
            producer.sequences[partition] = add_to_sequence(sequence, payload.count)
        records = payload.batch(
            producer.producer_id,
            producer.producer_epoch,
            sequence,
            transactional=self._begun is not None,
        )
        self._order += 1
        return Unwritten(partition, records, payload.count, self._order)

    def requests(self, waiting: list[Unwritten]) -> tuple[dict[int, list[Unwritten]], list[Unwritten]]:
        """One request for each broker, with at most one batch of each partition; and what is left."""
        requests: dict[int, list[Unwritten]] = {}
        sizes: dict[int, int] = {}
        later: list[Unwritten] = []
        taken: set[TopicPartition] = set()
        limit = max(self._options.max_request_bytes, self._options.batch_size_bytes)
        for batch in waiting:
            node_id = self._leader(batch.partition)
            size = sizes.get(node_id, 0) + len(batch.records)
            if batch.partition in taken or (size > limit and node_id in requests):
                taken.add(batch.partition)
                later.append(batch)
                continue
            taken.add(batch.partition)
            requests.setdefault(node_id, []).append(batch)
            sizes[node_id] = size
        return requests, later

    def _leader(self, partition: TopicPartition) -> int:
        known = self._cluster.partition(partition)
        return -1 if known is None else known.leader_id

    async def _room(self, node_id: int) -> None:
        while len(in_flight := self._in_flight.setdefault(node_id, set())) >= MAX_IN_FLIGHT:
            await asyncio.wait(in_flight, return_when=asyncio.FIRST_COMPLETED)

    async def _start(self, node_id: int, batches: list[Unwritten]) -> None:
        if self._final is not None:
            raise self._final
        task = asyncio.get_running_loop().create_task(self._ask(node_id, batches))
        in_flight = self._in_flight.setdefault(node_id, set())
        in_flight.add(task)
        task.add_done_callback(in_flight.discard)
        await asyncio.sleep(0)  # the request leaves before the next one is made

    async def _ask(self, node_id: int, batches: list[Unwritten]) -> None:
        """One request; what it leaves unwritten is kept, what cannot be written is final."""
        try:
            if node_id < 0:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
            connection = await self._cluster.connection(node_id, _LANE)
            if self._failed:
                # Over a new connection these would overtake what was lost with the old one, and a broker that
                # has not heard of the producer yet takes them for its first.
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "batches before these have failed")
            request, version = self.request(batches)
            if self._options.acks == 0:
                connection.post(request, max_version=version)
                self.acknowledged += sum(batch.count for batch in batches)
                return
            answer = await connection.send(request, max_version=version)
        except KafkaError as error:
            self.keep(batches, error)
            return
        self.take(answer, batches)

    def take(self, answer: Any, batches: list[Unwritten]) -> None:
        """What the broker says to a request."""
        outcomes = {
            TopicPartition(topic.name or self._cluster.topic_name(topic.topic_id) or "", p.index): p
            for topic in answer.responses
            for p in topic.partition_responses
        }
        for batch in batches:
            outcome = outcomes.get(batch.partition)
            code = ErrorCode.UNKNOWN_SERVER_ERROR if outcome is None else error_code(outcome.error_code)
            if code in _WRITTEN:
                self.acknowledged += batch.count
            else:
                self.keep([batch], KafkaError(code, _said(batch.partition, outcome)))

    def keep(self, batches: list[Unwritten], error: KafkaError) -> None:
        """Batches of which it is not known that they are written; to be sent again if the error may pass."""
        # Batches behind one that failed are out of order until it is written.
        behind = error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and bool(self._failed)
        if not may_pass(error) and not behind and self._final is None:
            self._final = error
        self._failed += batches

    async def _settle(self) -> None:
        """Everything on its way is answered, and what failed is sent again, one request after the other."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.cluster.api_timeout_ms / 1000
        backoff = self._cluster.retry_backoff_ms / 1000
        while True:
            if outstanding := [task for tasks in self._in_flight.values() for task in tasks]:
                await asyncio.wait(outstanding)
            if self._final is not None:
                raise self._final
            if not self._failed:
                return
            if loop.time() > deadline:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{len(self._failed)} batches could not be written within "
                    f"{self._options.cluster.api_timeout_ms} ms (kafka.default.api.timeout.ms)",
                )
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, self._cluster.retry_backoff_max_ms / 1000)
            await self._again()

    async def _again(self) -> None:
        try:
            await self._cluster.refresh()
        except KafkaError as error:
            if not may_pass(error):
                raise
            return
        waiting = sorted(self._failed, key=lambda batch: batch.order)
        self._failed = []
        while waiting and not self._failed:
            requests, waiting = self.requests(waiting)
            for node_id, batches in requests.items():
                await self._ask(node_id, batches)
        self._failed += waiting

    def request(
        self, batches: list[Unwritten], *, in_place: bool = False
    ) -> tuple[ProduceRequest, int | None]:
        """The request, and the last version that it can be sent in."""
        by_name = False
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            name = batch.partition.topic
            if (data := topics.get(name)) is None:
                known = self._cluster.known_topic(name)
                topic_id = ZERO_UUID if known is None else known.topic_id
                by_name = by_name or topic_id == ZERO_UUID
                topics[name] = data = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
            records: Any = InPlace(batch.records) if in_place else batch.records
            data.partition_data.append(PartitionProduceData(index=batch.partition.partition, records=records))
        timeout_ms = self._options.cluster.request_timeout_ms
        transactional_id = None if self._begun is None else self._begun.transactional_id
        request = ProduceRequest(transactional_id, self._options.acks, timeout_ms, list(topics.values()))
        return request, self._version(by_name)

    def _version(self, by_name: bool) -> int | None:
        if self._begun is not None and not self._begun.adds_implicitly:
            return _LAST_VERSION_WITHOUT_ADDING
        return _LAST_VERSION_WITH_NAMES if by_name else None


def _said(partition: TopicPartition, outcome: Any) -> str:
    said = "" if outcome is None or not outcome.error_message else f": {outcome.error_message}"
    return f"{partition} refused the records{said}"
