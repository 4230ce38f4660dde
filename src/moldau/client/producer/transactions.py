"""The steps of a transaction, each on its own: begin, add partitions and offsets, end.

Any process may do the last one.

``Producer`` with a transactional id takes them for its user. Before version 2 of transactions
(``transaction.version``), the coordinator has to hear of each partition before it is written to, and a
producer keeps its epoch; from version 2 on a write adds its partition by itself, and every end brings a new
epoch, with which sequences begin at 0.

Invariant: one function, one step at the coordinator, tried again while it moves, loads, or still writes the
markers of the transaction before. Nothing here decides whether a transaction commits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.admin.transactions import Transactions
from moldau.client.groups.descriptions import CommittedOffset, ConsumerGroupMetadata
from moldau.client.groups.groups import find_coordinator
from moldau.client.producer.accumulator import ProducerIdentity
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.connection import Connection, error_code
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

#: From this version of InitProducerId on a transaction may be prepared, and then waits without a timeout.
_TWO_PHASE_VERSION = 6
#: Clients add partitions in this version; later ones are between brokers.
_LAST_CLIENT_ADD = 3
#: The last versions that belong to transactions before their version 2.
_LAST_OLD_OFFSET_COMMIT = 4
_LAST_OLD_END = 4
_IMPLICIT_ADDING = 2
#: The broker's default for ``transaction.max.timeout.ms``.
_LONGEST_TIMEOUT_MS = 900_000


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The producer of a transactional id in its present epoch, and what the cluster can do."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    #: Whether a Produce request adds its partitions by itself (transaction version 2).
    adds_implicitly: bool
    #: Whether the transaction waits for its end however long that takes.
    two_phase: bool = False
    #: What an earlier producer had prepared and ``begin`` has kept.
    prepared: ProducerIdentity | None = None

    @property
    def identity(self) -> ProducerIdentity:
        return ProducerIdentity(self.producer_id, self.producer_epoch)


async def begin(
    cluster: Cluster,
    transactional_id: str,
    *,
    timeout_ms: int = _LONGEST_TIMEOUT_MS,
    two_phase: bool | None = None,
    keep_prepared: bool = False,
) -> OpenTransaction:
    """Fences whoever used the id before and aborts what it left open, unless that is to be kept.

    ``two_phase`` of None: where the broker can. UNSUPPORTED_VERSION where it is wanted and the broker cannot.
    """

    async def attempt() -> OpenTransaction:
        connection = await _coordinator(cluster, transactional_id)
        able = connection.version_of(ApiKey.INIT_PRODUCER_ID) >= _TWO_PHASE_VERSION
        if (two_phase or keep_prepared) and not able:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"{connection.address} has no two-phase commit for clients"
            )
        both = able if two_phase is None else two_phase
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            enable2_pc=both,
            keep_prepared_txn=keep_prepared,
        )
        answer = await connection.send(request)
        _raise(answer.error_code, f"the coordinator refused transactional id {transactional_id!r}")
        prepared = None
        if answer.ongoing_txn_producer_id >= 0:
            prepared = ProducerIdentity(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        return OpenTransaction(
            transactional_id,
            answer.producer_id,
            answer.producer_epoch,
            transaction_version(connection) >= _IMPLICIT_ADDING,
            both,
            prepared,
        )

    return await cluster.retry(attempt)


async def next_epoch(cluster: Cluster, open_transaction: OpenTransaction, timeout_ms: int) -> OpenTransaction:
    """The same producer in a new epoch, with which sequences begin at 0; fails if it was fenced."""
    request = InitProducerIdRequest(
        transactional_id=open_transaction.transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=open_transaction.producer_id,
        producer_epoch=open_transaction.producer_epoch,
        enable2_pc=open_transaction.two_phase,
    )

    async def attempt() -> OpenTransaction:
        connection = await _coordinator(cluster, open_transaction.transactional_id)
        answer = await connection.send(request)
        _raise(answer.error_code, f"{open_transaction.transactional_id!r} got no new epoch")
        return replace(open_transaction, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)

    return await cluster.retry(attempt)


async def add_partitions(
    cluster: Cluster, open_transaction: OpenTransaction, partitions: Iterable[TopicPartition]
) -> None:
    """Says what is going to be written, which is needed before version 2 of transactions."""
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for topic, index in partitions:
        topics.setdefault(topic, AddPartitionsToTxnTopic(topic, [])).partitions.append(index)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=open_transaction.transactional_id,
        v3_and_below_producer_id=open_transaction.producer_id,
        v3_and_below_producer_epoch=open_transaction.producer_epoch,
        v3_and_below_topics=list(topics.values()),
    )

    async def attempt() -> None:
        connection = await _coordinator(cluster, open_transaction.transactional_id)
        answer = await connection.send(request, max_version=_LAST_CLIENT_ADD)
        for topic in answer.results_by_topic_v3_and_below:
            for result in topic.results_by_partition:
                partition = TopicPartition(topic.name, result.partition_index)
                _raise(result.partition_error_code, f"{partition} was not added to the transaction")

    await cluster.retry(attempt)


async def commit_offsets(
    cluster: Cluster,
    open_transaction: OpenTransaction,
    offsets: Mapping[TopicPartition, CommittedOffset],
    group: ConsumerGroupMetadata,
) -> None:
    """Commits offsets of a group with the transaction: they count when it is committed."""
    if not open_transaction.adds_implicitly:
        await _add_offsets(cluster, open_transaction, group.group_id)
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (name, index), committed in offsets.items():
        topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name, []))
        topic.partitions.append(
            TxnOffsetCommitRequestPartition(
                index, committed.offset, committed.leader_epoch, committed.metadata
            )
        )
    request = TxnOffsetCommitRequest(
        transactional_id=open_transaction.transactional_id,
        group_id=group.group_id,
        producer_id=open_transaction.producer_id,
        producer_epoch=open_transaction.producer_epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=list(topics.values()),
    )
    version = None if open_transaction.adds_implicitly else _LAST_OLD_OFFSET_COMMIT

    async def attempt() -> None:
        coordinator = await find_coordinator(cluster, group.group_id)
        connection = await cluster.connection(coordinator.node_id)
        answer = await connection.send(request, max_version=version)
        for topic in answer.topics:
            for p in topic.partitions:
                _raise(
                    p.error_code,
                    f"group {group.group_id!r} refused the offset of {topic.name}-{p.partition_index}",
                )

    await cluster.retry(attempt)


async def _add_offsets(cluster: Cluster, open_transaction: OpenTransaction, group_id: str) -> None:
    request = AddOffsetsToTxnRequest(
        open_transaction.transactional_id,
        open_transaction.producer_id,
        open_transaction.producer_epoch,
        group_id,
    )

    async def attempt() -> None:
        connection = await _coordinator(cluster, open_transaction.transactional_id)
        answer = await connection.send(request)
        _raise(answer.error_code, f"offsets of group {group_id!r} were not added to the transaction")

    await cluster.retry(attempt)


async def end(
    cluster: Cluster, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool
) -> ProducerIdentity | None:
    """Commits or aborts; doing so again for the same transaction changes nothing.

    From version 2 of transactions on, returns the identity for the next one.
    """
    request = EndTxnRequest(transactional_id, producer_id, producer_epoch, commit)

    async def attempt() -> ProducerIdentity | None:
        connection = await _coordinator(cluster, transactional_id)
        old = transaction_version(connection) < _IMPLICIT_ADDING
        answer = await connection.send(request, max_version=_LAST_OLD_END if old else None)
        _raise(answer.error_code, f"the transaction of {transactional_id!r} could not be ended")
        return (
            ProducerIdentity(answer.producer_id, answer.producer_epoch) if answer.producer_id >= 0 else None
        )

    return await cluster.retry(attempt)


def transaction_version(connection: Connection) -> int:
    """The cluster's ``transaction.version``; 0 where it has none."""
    features: Any = getattr(connection.api_versions_response, "finalized_features", None) or ()
    return max((f.max_version_level for f in features if f.name == "transaction.version"), default=0)


async def _coordinator(cluster: Cluster, transactional_id: str) -> Connection:
    return await cluster.connection(await Transactions(cluster).coordinator_id(transactional_id))


def _raise(code: int, message: str) -> None:
    if code:
        raise KafkaError(error_code(code), message)
