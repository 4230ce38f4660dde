"""The steps of a transaction, each on its own: begin, add partitions, end. Any process may do the last.

Invariant: one function, one request to the coordinator, tried again while it moves or loads. Nothing here
decides whether a transaction commits; ``exactly_once`` does.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.admin.transactions import Transactions
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.connection import Connection, error_code
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest

#: From this version of InitProducerId on a transaction may be prepared, and then waits without a timeout.
_TWO_PHASE_VERSION = 6
#: Clients add partitions in this form; later ones are between brokers.
_LAST_CLIENT_ADD = 3
#: The broker's default for ``transaction.max.timeout.ms``.
_LONGEST_TIMEOUT_MS = 900_000
_IMPLICIT_ADDING = 2


@dataclass(frozen=True, slots=True)
class Begun:
    """A producer of a transactional id, and what the cluster can do."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    #: Whether a Produce request adds its partitions by itself (transaction version 2).
    adds_implicitly: bool
    #: Whether the transaction waits for its end however long that takes.
    two_phase: bool


async def begin(cluster: Cluster, transactional_id: str) -> Begun:
    """Fences whoever used the id before, aborts what it left open, and starts anew."""

    async def attempt() -> Begun:
        connection = await _coordinator(cluster, transactional_id)
        two_phase = connection.version_of(ApiKey.INIT_PRODUCER_ID) >= _TWO_PHASE_VERSION
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=_LONGEST_TIMEOUT_MS,
            enable2_pc=two_phase,
            keep_prepared_txn=False,
        )
        answer = await connection.send(request)
        _raise(answer.error_code, f"the coordinator refused transactional id {transactional_id!r}")
        return Begun(
            transactional_id,
            answer.producer_id,
            answer.producer_epoch,
            _transaction_version(connection) >= _IMPLICIT_ADDING,
            two_phase,
        )

    return await cluster.retry(attempt)


async def add_partitions(cluster: Cluster, begun: Begun, partitions: Iterable[TopicPartition]) -> None:
    """Tells the coordinator what is going to be written, where it has to be told."""
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for topic, index in partitions:
        topics.setdefault(topic, AddPartitionsToTxnTopic(topic, [])).partitions.append(index)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=begun.transactional_id,
        v3_and_below_producer_id=begun.producer_id,
        v3_and_below_producer_epoch=begun.producer_epoch,
        v3_and_below_topics=list(topics.values()),
    )

    async def attempt() -> None:
        connection = await _coordinator(cluster, begun.transactional_id)
        answer = await connection.send(request, max_version=_LAST_CLIENT_ADD)
        for topic in answer.results_by_topic_v3_and_below:
            for result in topic.results_by_partition:
                partition = TopicPartition(topic.name, result.partition_index)
                _raise(result.partition_error_code, f"{partition} was not added to the transaction")

    await cluster.retry(attempt)


async def end(
    cluster: Cluster, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool
) -> None:
    """Commits or aborts; doing so again for the same transaction changes nothing."""
    request = EndTxnRequest(transactional_id, producer_id, producer_epoch, commit)

    async def attempt() -> None:
        connection = await _coordinator(cluster, transactional_id)
        answer = await connection.send(request)
        _raise(answer.error_code, f"the transaction of {transactional_id!r} could not be ended")

    await cluster.retry(attempt)


async def _coordinator(cluster: Cluster, transactional_id: str) -> Connection:
    return await cluster.connection(await Transactions(cluster).coordinator_id(transactional_id))


def _transaction_version(connection: Connection) -> int:
    features: Any = getattr(connection.api_versions_response, "finalized_features", None) or ()
    return max((f.max_version_level for f in features if f.name == "transaction.version"), default=0)


def _raise(code: int, message: str) -> None:
    if code:
        raise KafkaError(error_code(code), message)
