"""Producers of transactions, of both versions of their protocol, and copiers that read and write in one.

A producer of the first version adds partitions before it writes to them and keeps its epoch; one of the
second (KIP-890) just writes, and has a new epoch after each transaction. Requests of the second may come a
second time, late: that it withstands this is what it is for.

Invariant: a client does as the real ones do. It repeats a batch with the same sequence until it knows its
fate, commits only what was acknowledged, and begins from InitProducerId and the committed offsets when it
does not know how a transaction ended.
"""

from collections.abc import Mapping
from typing import Any

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.protocol.records import Record, encode_batch
from tests.simulation.checkers import Attempt
from tests.simulation.classic_members import ClassicMember
from tests.simulation.consumer_members import ConsumerMember
from tests.simulation.offset_clients import Partition, by_topic
from tests.simulation.virtual_client import Gone, VirtualClient, World

_FENCED = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


class Unsure(Exception):
    """The transaction cannot be ended normally; the client has to start again with InitProducerId."""


class Producer:
    """The transactional half of a client."""

    def __init__(self, client: VirtualClient, transactional_id: str, *, bumping: bool) -> None:
        self._client = client
        self._checkers = client.world.checkers
        self.transactional_id = transactional_id
        self.bumping = bumping
        self.timeout_ms = client.dice.choice([3_000, 8_000, 20_000])
        self.producer: tuple[int, int] | None = None
        self._sequences: dict[Partition, int] = {}
        self._added: set[Partition] = set()
        self._count = 0
        self.attempt = Attempt("none")

    async def init(self) -> bool:
        """Takes the id; whoever had it before is fenced, and what it left open is ended."""
        claimed = (-1, -1)
        if self.producer is not None and self._client.dice.random() < 0.5:
            claimed = self.producer
        request = InitProducerIdRequest(self.transactional_id, self.timeout_ms, *claimed)
        code, response = await self._client.insist(
            request, 5, lambda answer: answer.error_code, 30, may_come_late=self.bumping and claimed[0] >= 0
        )
        if code is None:
            return False
        if code in _FENCED:
            raise Gone
        assert code is ErrorCode.NONE, code
        self.take(response)
        return True

    def take(self, response: Any) -> None:
        """The identity that an answer gives it; its sequences begin again with it."""
        self.producer = (response.producer_id, response.producer_epoch)
        self._sequences.clear()

    async def end_taken_over(self, committed: bool) -> None:
        """Ends a transaction that somebody else wrote and left open."""
        assert self.producer is not None
        request = EndTxnRequest(self.transactional_id, *self.producer, committed)
        code, response = await self._client.insist(request, 5, lambda answer: answer.error_code, 25)
        self._check(code)
        self.take(response)

    def begin(self) -> Attempt:
        self._count += 1
        self._added.clear()
        self.attempt = Attempt(f"{self.transactional_id}/{self._client.name}/{self._count}")
        self._checkers.attempts[self.attempt.name] = self.attempt
        return self.attempt

    def _check(self, code: ErrorCode | None) -> None:
        """Goes on after a success only."""
        if code in _FENCED:
            raise Gone
        if code is not ErrorCode.NONE:
            raise Unsure(code)

    async def write(self, partition: Partition, values: list[str]) -> None:
        assert self.producer is not None
        topic, index = partition
        if not self.bumping and partition not in self._added:
            topics = [AddPartitionsToTxnTopic(topic, [index])]
            request: Any = AddPartitionsToTxnRequest([], self.transactional_id, *self.producer, topics)
            self._check((await self._client.insist(request, 3, _added_code, 15))[0])
        self._added.add(partition)
        first = self._sequences.get(partition, 0)
        now_ms = self._client.world.broker.clock.now_ms()
        key = self.attempt.name.encode()
        batch = encode_batch(
            [Record(offset, now_ms, key, value.encode()) for offset, value in enumerate(values)],
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=first,
            transactional=True,
        )
        data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index, bytes(batch))])]
        request = ProduceRequest(self.transactional_id, -1, 30_000, data)
        version = 12 if self.bumping else 11
        self._check(
            (await self._client.insist(request, version, _written_code, 15, may_come_late=self.bumping))[0]
        )
        self._sequences[partition] = first + len(values)
        self.attempt.written += [(topic, index, value) for value in values]

    async def send_offsets(
        self,
        group: str,
        offsets: Mapping[Partition, int],
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
    ) -> ErrorCode:
        """What the group says to it; offsets that it takes count when the transaction commits."""
        assert self.producer is not None
        if not self.bumping:
            add = AddOffsetsToTxnRequest(self.transactional_id, *self.producer, group)
            self._check((await self._client.insist(add, 3, lambda answer: answer.error_code, 15))[0])
        self._added.add(("offsets", 0))
        topics = [
            TxnOffsetCommitRequestTopic(
                name,
                [
                    TxnOffsetCommitRequestPartition(i, offsets[name, i], committed_metadata="")
                    for i in indexes
                ],
            )
            for name, indexes in by_topic(offsets).items()
        ]
        request = TxnOffsetCommitRequest(
            self.transactional_id, group, *self.producer, generation, member_id, instance_id, topics
        )
        code, _ = await self._client.insist(
            request, 5 if self.bumping else 3, _offsets_code, 15, may_come_late=self.bumping
        )
        if code is None or code in _FENCED:
            self._check(code)
        assert code is not None
        if code is ErrorCode.NONE:
            self.attempt.offsets = {(group, *partition): offset for partition, offset in offsets.items()}
        return code

    async def end(self, committed: bool) -> None:
        assert self.producer is not None
        if not self._added:
            return  # nothing has begun
        self.attempt.commit_asked = committed
        request = EndTxnRequest(self.transactional_id, *self.producer, committed)
        code, response = await self._client.insist(
            request,
            5 if self.bumping else 4,
            lambda answer: answer.error_code,
            25,
            may_come_late=self.bumping,
        )
        self._check(code)
        self.attempt.outcome = committed
        if committed:
            for place, offset in self.attempt.offsets.items():
                self._checkers.acknowledged(place, offset)
        if self.bumping:
            self.take(response)


def _added_code(response: Any) -> int:
    return int(response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def _written_code(response: Any) -> int:
    return int(response.responses[0].partition_responses[0].error_code)


def _offsets_code(response: Any) -> int:
    codes = [result.error_code for topic in response.topics for result in topic.partitions]
    return next((code for code in codes if code), 0)


class TransactionalProducer(VirtualClient):
    """Writes to some partitions in each transaction, and commits or aborts."""

    def __init__(
        self, world: World, name: str, transactional_id: str, *, bumping: bool, partitions: list[Partition]
    ) -> None:
        super().__init__(world, name)
        self._producer = Producer(self, transactional_id, bumping=bumping)
        self._partitions = partitions

    async def live(self) -> None:
        sure = False
        while self.world.open:
            if not sure:
                sure = await self._producer.init()
                continue
            try:
                await self._transaction()
            except Unsure:
                sure = False
            await self.sleep(0.01, 0.8)

    async def _transaction(self) -> None:
        attempt = self._producer.begin()
        for number in range(self.dice.randint(1, 4)):
            partition = self.dice.choice(self._partitions)
            values = [f"{attempt.name}/{number}/{each}" for each in range(self.dice.randint(1, 3))]
            await self._producer.write(partition, values)
            if self.dice.random() < 0.2:
                await self.sleep(0.01, 2.0)
        await self._producer.end(self.dice.random() < 0.6)


class Copying:
    """Mixed into a member of a group: instead of committing offsets it copies records in transactions."""

    producer: Producer
    records: int
    target: str

    async def copy(self: Any, member_id: str, generation: int, instance_id: str | None) -> bool:
        """One transaction; whether the group let it go on."""
        if self.producer.producer is None:
            self.positions.clear()
            if not await self.producer.init():
                self.producer.producer = None
            return True
        part = self._readable()
        if not part:
            return True
        self.producer.begin()
        try:
            for partition, (first, end) in part.items():
                values = [f"{partition[1]}/{offset}" for offset in range(first, end)]
                await self.producer.write((self.target, partition[1]), values)
            offsets = {partition: end for partition, (_, end) in part.items()}
            code = await self.producer.send_offsets(self.group, offsets, member_id, generation, instance_id)
            if self.dice.random() < 0.2:
                await self.sleep(0.1, 8.0)  # long enough for the group to go on without it
            committed = code is ErrorCode.NONE and self.dice.random() < 0.85
            await self.producer.end(committed)
        except Unsure:
            # Whether it was committed is seen from the group's committed offsets.
            self.producer.producer = None
            self.positions.clear()
            return True
        if committed:
            self.positions.update(offsets)
        return code is ErrorCode.NONE

    def _readable(self: Any) -> dict[Partition, tuple[int, int]]:
        found = {}
        for partition in sorted(self.reads):
            first = self.positions.get(partition)
            if first is not None and first < self.records:
                found[partition] = (first, min(first + self.dice.randint(1, 3), self.records))
        return found


class ClassicCopier(Copying, ClassicMember):
    """A copier whose partitions are dealt out by the classic protocol."""

    def __init__(
        self, world: World, name: str, group: str, topic: str, target: str, records: int, **how: Any
    ) -> None:
        bumping, transactional_id = how.pop("bumping"), how.pop("transactional_id")
        super().__init__(world, name, group, [topic], **how)
        self.producer = Producer(self, transactional_id, bumping=bumping)
        self.records, self.target = records, target
        self.require_stable = True

    async def progress(self) -> bool:
        if await self.copy(self.member_id, self.generation, self.instance_id):
            return True
        self.give_up(self.reads)
        return False


class ConsumerCopier(Copying, ConsumerMember):
    """The same by the new protocol."""

    def __init__(
        self, world: World, name: str, group: str, topic: str, target: str, records: int, **how: Any
    ) -> None:
        bumping, transactional_id = how.pop("bumping"), how.pop("transactional_id")
        super().__init__(world, name, group, [topic], **how)
        self.producer = Producer(self, transactional_id, bumping=bumping)
        self.records, self.target = records, target
        self.require_stable = True
        self.curious = False

    async def progress(self) -> bool:
        if not await self.copy(self.member_id, self.epoch, self.instance_id):
            self.positions.clear()
        return True
