"""A runtime for tests of the shard alone: appends to a list, commits at once, steps its own clock."""

from collections.abc import Callable, Hashable
from typing import Any

from moldau.base.names import TopicPartition
from moldau.coordinators.shard import CoordinatorResult, Token
from moldau.coordinators.transactions.markers import WriteMarkers
from moldau.coordinators.transactions.responses import listed
from moldau.coordinators.transactions.shard import TransactionShard
from moldau.coordinators.transactions.transaction import TransactionSettings
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from moldau.protocol.messages.describe_transactions import DescribeTransactionsRequest
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.list_transactions import ListTransactionsRequest

START_MS = 1_700_000_000_000
WAITS = "no answer yet"
T0 = TopicPartition("tx1", 0)
T1 = TopicPartition("tx1", 1)


class Coordinator:
    def __init__(self, **settings: Any) -> None:
        self.settings = TransactionSettings(**settings)
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.effects: list[WriteMarkers] = []
        self.replies: dict[Token, Any] = {}
        self.timers: dict[Hashable, int] = {}
        self.refusing = False
        self.coordinator_epoch = 0
        self.next_producer_id = 1000
        self.shard = self.new_shard()
        self.perform(self.shard.loaded(self.now_ms))

    def new_shard(self) -> TransactionShard:
        return TransactionShard(lambda: self.settings, lambda: self.coordinator_epoch)

    # --- what the runtime does ------------------------------------------------------------------

    def perform(self, result: CoordinatorResult) -> None:
        if result.records:
            if self.refusing:
                self.replies.update((reply.token, "refused") for reply in result.replies)
                return
            self.log += [self.shard.encode(record) for record in result.records]
            for record in result.records:
                self.shard.apply(record)
        for key, seconds in result.timers:
            self.timers.pop(key, None)
            if seconds is not None:
                self.timers[key] = self.now_ms + round(seconds * 1000)
        self.replies.update(result.replies)
        self.effects += result.effects

    def ask(self, decide: Callable[[Token], CoordinatorResult]) -> Any:
        token = Token()
        self.perform(decide(token))
        return self.replies.pop(token, WAITS)

    def advance(self, ms: int) -> None:
        """Time passes, and every on_timer goes off in its turn."""
        end_ms = self.now_ms + ms
        while due := sorted((at, str(key), key) for key, at in self.timers.items() if at <= end_ms):
            at, _, key = due[0]
            self.now_ms = max(self.now_ms, at)
            del self.timers[key]
            self.perform(self.shard.on_timer(key, self.now_ms))
        self.now_ms = end_ms

    def replayed(self) -> TransactionShard:
        fresh = self.new_shard()
        for key, value in self.log:
            record = fresh.decode(key, value)
            assert record is not None
            fresh.apply(record)
        return fresh

    def reload(self) -> None:
        """Another node takes over: what is not in the log is gone."""
        self.shard = self.replayed()
        self.timers.clear()
        self.effects.clear()
        self.coordinator_epoch += 1
        self.perform(self.shard.loaded(self.now_ms))

    def write_markers(self) -> list[WriteMarkers]:
        """Carries out every order."""
        orders, self.effects = self.effects, []
        for order in orders:
            self.perform(
                self.shard.markers_written(
                    order.transactional_id, order.producer_id, order.producer_epoch, self.now_ms
                )
            )
        return orders

    # --- what clients ask -----------------------------------------------------------------------

    def init(
        self,
        transactional_id: str = "t1",
        claimed: tuple[int, int] = (-1, -1),
        timeout_ms: int = 60_000,
        version: int = 5,
        two_phase_commit: bool = False,
        keep: bool = False,
    ) -> Any:
        new_id = None
        if self.shard.needs_producer_id(transactional_id):
            self.next_producer_id += 1
            new_id = self.next_producer_id
        request = InitProducerIdRequest(transactional_id, timeout_ms, *claimed, two_phase_commit, keep)
        return self.ask(
            lambda token: self.shard.init_producer_id(request, version, new_id, token, self.now_ms)
        )

    def producer(self, transactional_id: str = "t1", **more: Any) -> tuple[int, int]:
        response = self.init(transactional_id, **more)
        assert response.error_code == ErrorCode.NONE, response
        return response.producer_id, response.producer_epoch

    def end(
        self,
        identity: tuple[int, int],
        committed: bool = True,
        transactional_id: str = "t1",
        version: int = 5,
    ) -> Any:
        new_id = None
        if self.shard.end_needs_producer_id(transactional_id):
            self.next_producer_id += 1
            new_id = self.next_producer_id
        request = EndTxnRequest(transactional_id, *identity, committed)
        return self.ask(lambda token: self.shard.end_txn(request, version, new_id, token, self.now_ms))

    def write(
        self, identity: tuple[int, int], *partitions: TopicPartition, transactional_id: str = "t1"
    ) -> Any:
        """The answer of a produce request of the second protocol: one code, or that it waits."""
        wanted = partitions or (T0,)
        answer = self.ask(
            lambda token: self.shard.add_partitions_for_write(
                transactional_id, *identity, wanted, token, self.now_ms
            )
        )
        return one_code(answer)

    def verify(
        self, identity: tuple[int, int], *partitions: TopicPartition, transactional_id: str = "t1"
    ) -> Any:
        return self.ask(
            lambda token: self.shard.verify_partitions_for_write(
                transactional_id, *identity, partitions or (T0,), token, self.now_ms
            )
        )

    def add(
        self,
        identity: tuple[int, int],
        *partitions: TopicPartition,
        transactional_id: str = "t1",
        version: int = 3,
        **more: Any,
    ) -> Any:
        """The codes of AddPartitionsToTxn, by partition."""
        topics = [AddPartitionsToTxnTopic(topic, [index]) for topic, index in partitions or (T0,)]
        if version < 4:
            request = AddPartitionsToTxnRequest([], transactional_id, *identity, topics)
        else:
            entry = AddPartitionsToTxnTransaction(transactional_id, *identity, False, topics)
            request = AddPartitionsToTxnRequest([entry])
        response = self.ask(
            lambda token: self.shard.add_partitions_to_txn(request, version, token, self.now_ms, **more)
        )
        found = response.results_by_topic_v3_and_below
        if version >= 4:
            (result,) = response.results_by_transaction
            found = result.topic_results
        return {
            TopicPartition(topic.name, entry.partition_index): ErrorCode(entry.partition_error_code)
            for topic in found
            for entry in topic.results_by_partition
        }

    def add_offsets(
        self, identity: tuple[int, int], partition: int = 7, transactional_id: str = "t1", version: int = 4
    ) -> ErrorCode:
        request = AddOffsetsToTxnRequest(transactional_id, *identity, "g")
        response = self.ask(
            lambda token: self.shard.add_offsets_to_txn(request, version, partition, token, self.now_ms)
        )
        return ErrorCode(response.error_code)

    def describe(self, transactional_id: str = "t1") -> Any:
        request = DescribeTransactionsRequest([transactional_id])
        response = self.ask(lambda token: self.shard.describe_transactions(request, 0, token, self.now_ms))
        return response.transaction_states[0]

    def list(self, **filters: Any) -> Any:
        request = ListTransactionsRequest(**filters)
        return listed([self.shard.transactions], request, self.now_ms)

    @property
    def state(self) -> str:
        return str(self.describe().transaction_state)


def one_code(answer: Any) -> Any:
    if not isinstance(answer, dict):
        return answer
    (code,) = set(answer.values())
    return code


def given(response: Any) -> tuple[int, int]:
    assert response.error_code == ErrorCode.NONE, response
    return response.producer_id, response.producer_epoch
