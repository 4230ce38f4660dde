"""Transactions of other producers: find them, look at them, end them.

    async with await Cluster.open("127.0.0.1:9092") as cluster:
        transactions = Transactions(cluster)
        for listed in await transactions.list_transactions(duration_ms=600_000, states=["Ongoing"]):
            await transactions.fence_producer(listed.transactional_id)

There are two ways to end one. ``fence_producer`` asks the coordinator, as a new producer with the same id
would: the old one is fenced, and the coordinator aborts what it had open in every partition.
``abort_transaction`` writes an abort marker into one partition, past the coordinator: for a transaction that
hangs there because the coordinator knows nothing of it. Errors that are retriable (a coordinator that loads
or has moved) are tried again for ``api_timeout_ms``.

Invariant: one method, one API, as in ``admin``; no method prints, guesses or writes a record of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import outcome_error
from moldau.client.admin.descriptions import ProducerState
from moldau.client.admin.messages import describe_producers_request, producer_state
from moldau.client.transport.cluster import Cluster, is_retriable
from moldau.client.transport.connection import error_code
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.list_transactions import ListTransactionsRequest
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

#: What FindCoordinator calls a transactional id.
_TRANSACTION_KEY = 1


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id, as its coordinator lists it."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The state of a transactional id; the start is -1 and no partition is there when nothing was begun."""

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """The producer id of a transactional id, with the epoch that fenced the producer before."""

    producer_id: int
    producer_epoch: int


class Transactions:
    """The transactions of one cluster; no state but the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def coordinator_id(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional id."""

        async def attempt() -> int:
            # One key, in the words of the versions before 4 and since.
            request = FindCoordinatorRequest(
                key=transactional_id, key_type=_TRANSACTION_KEY, coordinator_keys=[transactional_id]
            )
            answer = await (await self.cluster.any()).send(request)
            found = answer.coordinators[0] if answer.coordinators else answer
            _raise(found.error_code, found.error_message)
            node_id: int = found.node_id
            return node_id

        return await self.cluster.retry(attempt)

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """What every broker coordinates and each filter that is set lets pass, broker by broker.

        ``duration_ms`` wants those that began longer ago, ``pattern`` is a regular expression for the whole
        id. KafkaError of UNSUPPORTED_VERSION where a broker cannot filter so.
        """
        request = ListTransactionsRequest(
            state_filters=[*states],
            producer_id_filters=[*producer_ids],
            duration_filter=duration_ms,
            transactional_id_pattern=pattern,
        )
        least_version = 2 if pattern else 1 if duration_ms >= 0 else 0
        found: list[TransactionListing] = []
        for node_id in sorted(self.cluster.brokers):
            answer = await self._ask(node_id, request, least_version)
            if answer.unknown_state_filters:
                unknown = ", ".join(answer.unknown_state_filters)
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"broker {node_id} knows no transaction state {unknown}"
                )
            found += [
                TransactionListing(t.transactional_id, node_id, t.producer_id, t.transaction_state)
                for t in answer.transaction_states
            ]
        return found

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | KafkaError]:
        """The state of each transactional id, from its coordinator."""
        return {each: await self._describe(each) for each in transactional_ids}

    async def abort_transaction(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int = 0
    ) -> None:
        """Writes an abort marker into one partition, whatever the coordinator thinks of it."""
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(partition.topic, [partition.partition])],
            coordinator_epoch=coordinator_epoch,
        )

        async def attempt() -> None:
            answer = await (await self.cluster.leader(partition)).send(WriteTxnMarkersRequest([marker]))
            _raise(answer.markers[0].topics[0].partitions[0].error_code)

        await self.cluster.retry(attempt, retriable=_leader_may_answer)

    async def fence_producer(self, transactional_id: str, *, timeout_ms: int = 30_000) -> FencedProducer:
        """Fences the producer of a transactional id and has what it left open aborted.

        An id that no producer has used is made by this, as Kafka's own tool makes it.
        """
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

        async def attempt() -> FencedProducer:
            node_id = await self.coordinator_id(transactional_id)
            answer = await (await self.cluster.connection(node_id)).send(request)
            _raise(answer.error_code)
            return FencedProducer(answer.producer_id, answer.producer_epoch)

        return await self.cluster.retry(attempt)

    async def producers_on(
        self, node_id: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
        """The producers that one replica of each partition remembers; ``Admin`` asks the leaders."""
        connection = await self.cluster.connection(node_id)
        answer = await connection.send(describe_producers_request(partitions))
        return {
            TopicPartition(t.name, p.partition_index): outcome_error(p.error_code, p.error_message)
            or [producer_state(s) for s in p.active_producers]
            for t in answer.topics
            for p in t.partitions
        }

    async def _ask(self, node_id: int, request: ListTransactionsRequest, least_version: int) -> Any:
        async def attempt() -> Any:
            connection = await self.cluster.connection(node_id)
            if connection.version_of(ApiKey.LIST_TRANSACTIONS, None) < least_version:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"broker {node_id} cannot filter so")
            answer = await connection.send(request)
            _raise(answer.error_code)
            return answer

        return await self.cluster.retry(attempt)

    async def _describe(self, transactional_id: str) -> TransactionDescription | KafkaError:
        async def attempt() -> TransactionDescription:
            node_id = await self.coordinator_id(transactional_id)
            connection = await self.cluster.connection(node_id)
            answer = await connection.send(DescribeTransactionsRequest([transactional_id]))
            (state,) = answer.transaction_states
            _raise(state.error_code)
            return _description(node_id, state)

        try:
            return await self.cluster.retry(attempt)
        except KafkaError as error:
            return error


def _leader_may_answer(error: KafkaError) -> bool:
    """Not for a partition that does not exist: it was named by mistake, which is reported at once."""
    return is_retriable(error) and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _description(node_id: int, state: TransactionState) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=state.transactional_id,
        coordinator_id=node_id,
        state=state.transaction_state,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        start_ms=state.transaction_start_time_ms,
        partitions=tuple(TopicPartition(t.topic, index) for t in state.topics for index in t.partitions),
    )


def _raise(code: int, message: str | None = None) -> None:
    if code:
        raise KafkaError(error_code(code), message)
