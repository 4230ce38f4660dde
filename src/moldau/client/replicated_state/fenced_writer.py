"""Writes records into one partition, in transactions, under an id that the next writer takes over.

``fence`` takes the transactional id: whoever held it before can write nothing from then on, and what it left
open is aborted. ``write`` then writes records that become visible together, and tells the offset of the last.

Invariant: a write succeeds only if nobody else has fenced since our own ``fence``. After any failure this
writer is ``broken``: what became of the records is not known, and nothing is written before the next
``fence``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moldau.base.clock import Clock
from moldau.base.names import ZERO_UUID, TopicPartition
from moldau.client.admin.transactions import Transactions
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.connection import Connection, error_code
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records import Record, add_to_sequence, encode_batch

#: The last forms of requests that belong to transactions before their version 2.
_LAST_CLIENT_ADD = 3
_LAST_OLD_PRODUCE = 11
_LAST_OLD_END = 4
#: The last form of Produce that names topics; later ones have their ids.
_LAST_PRODUCE_WITH_NAMES = 12
#: Two-phase commit begins here: nothing for us.
_LAST_INIT = 5
_IMPLICIT_ADDING = 2
#: A writer that dies in the middle of a write holds its readers up for no longer than this.
_TRANSACTION_TIMEOUT_MS = 15_000
_LANE = "registry-write"


@dataclass(slots=True)
class _Identity:
    producer_id: int
    producer_epoch: int
    #: Whether a Produce request adds its partition by itself, and each end brings a new epoch.
    adds_implicitly: bool
    sequence: int = 0


class FencedWriter:
    def __init__(
        self, cluster: Cluster, partition: TopicPartition, transactional_id: str, clock: Clock
    ) -> None:
        self._cluster = cluster
        self._partition = partition
        self._transactional_id = transactional_id
        self._clock = clock
        self._identity: _Identity | None = None

    @property
    def broken(self) -> bool:
        """Whether ``fence`` has to come before the next write."""
        return self._identity is None

    def abandon(self) -> None:
        """Writes nothing more before the next ``fence``."""
        self._identity = None

    async def fence(self) -> None:
        self._identity = None
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS
        )

        async def attempt() -> _Identity:
            connection = await self._coordinator()
            answer = await connection.send(request, max_version=_LAST_INIT)
            _raise(answer.error_code, f"transactional id {self._transactional_id!r} was refused")
            implicitly = _transaction_version(connection) >= _IMPLICIT_ADDING
            return _Identity(answer.producer_id, answer.producer_epoch, implicitly)

        self._identity = await self._cluster.retry(attempt)

    async def write(self, records: Sequence[tuple[bytes, bytes | None]]) -> int:
        """Returns when the records are committed: the offset of the last one."""
        identity, self._identity = self._identity, None  # broken, unless all goes well
        if identity is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, "the log belongs to another writer")
        if not identity.adds_implicitly:
            await self._add_partition(identity)
        base_offset = await self._produce(identity, records)
        answer = await self._end(identity)
        if identity.adds_implicitly and answer.producer_id >= 0:
            self._identity = _Identity(answer.producer_id, answer.producer_epoch, True)
        else:
            identity.sequence = add_to_sequence(identity.sequence, len(records))
            self._identity = identity
        return base_offset + len(records) - 1

    async def _add_partition(self, identity: _Identity) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(self._partition.topic, [self._partition.partition])],
        )

        async def attempt() -> None:
            answer = await (await self._coordinator()).send(request, max_version=_LAST_CLIENT_ADD)
            for topic in answer.results_by_topic_v3_and_below:
                for result in topic.results_by_partition:
                    _raise(result.partition_error_code, f"{self._partition} was not added")

        await self._cluster.retry(attempt)

    async def _produce(self, identity: _Identity, records: Sequence[tuple[bytes, bytes | None]]) -> int:
        now_ms = self._clock.now_ms()
        batch = encode_batch(
            [Record(at, now_ms, key, value) for at, (key, value) in enumerate(records)],
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=identity.sequence,
            transactional=True,
        )

        async def attempt() -> int:
            name, index = self._partition
            connection = await self._cluster.leader(self._partition, _LANE)
            known = self._cluster.known_topic(name)
            topic_id = ZERO_UUID if known is None else known.topic_id
            part = PartitionProduceData(index=index, records=memoryview(batch))
            data = TopicProduceData(name=name, topic_id=topic_id, partition_data=[part])
            request = ProduceRequest(self._transactional_id, -1, self._cluster.request_timeout_ms, [data])
            last: int | None = _LAST_PRODUCE_WITH_NAMES if topic_id == ZERO_UUID else None
            answer = await connection.send(
                request, max_version=last if identity.adds_implicitly else _LAST_OLD_PRODUCE
            )
            outcome = answer.responses[0].partition_responses[0]
            _raise(outcome.error_code, outcome.error_message or f"{self._partition} refused the records")
            base_offset: int = outcome.base_offset
            return base_offset

        # The same sequence with every attempt: the broker tells a repeat from news.
        return await self._cluster.retry(attempt)

    async def _end(self, identity: _Identity) -> Any:
        request = EndTxnRequest(
            self._transactional_id, identity.producer_id, identity.producer_epoch, committed=True
        )

        async def attempt() -> Any:
            last = None if identity.adds_implicitly else _LAST_OLD_END
            answer = await (await self._coordinator()).send(request, max_version=last)
            _raise(answer.error_code, "the records could not be committed")
            return answer

        return await self._cluster.retry(attempt)

    async def _coordinator(self) -> Connection:
        node_id = await Transactions(self._cluster).coordinator_id(self._transactional_id)
        return await self._cluster.connection(node_id)


def _transaction_version(connection: Connection) -> int:
    features: Any = getattr(connection.api_versions_response, "finalized_features", None) or ()
    return max((f.max_version_level for f in features if f.name == "transaction.version"), default=0)


def _raise(code: int, message: str) -> None:
    if code:
        raise KafkaError(error_code(code), message)
