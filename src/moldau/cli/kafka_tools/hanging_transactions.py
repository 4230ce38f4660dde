"""Finds hanging transactions: open in a partition, but unknown to every coordinator.

A transaction that is open in a partition belongs to a producer id. If no coordinator knows that id, or the
one that does has no such partition in its transaction, its marker will never be written, and readers of
committed records stop there. Transactions younger than the longest transaction timeout are ignored, because
the coordinator may not know their partition yet.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import ProducerState, TopicDescription
from moldau.client.admin.transactions import TransactionDescription, Transactions
from moldau.protocol.errors import ErrorCode, KafkaError

#: How many partitions one request has at most.
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Search:
    """Where to look; None is no limit."""

    topic: str | None
    partition: int | None
    broker_id: int | None
    older_than_ms: int


@dataclass(frozen=True, slots=True)
class PartitionTransaction:
    partition: TopicPartition
    producer: ProducerState


async def find_hanging(transactions: Transactions, search: Search, now_ms: int) -> list[PartitionTransaction]:
    """All hanging transactions that match the search."""
    partitions = await _partitions(Admin(transactions.cluster), search)
    candidates: list[PartitionTransaction] = []
    for start in range(0, len(partitions), _BATCH):
        batch = partitions[start : start + _BATCH]
        found = await _producers(transactions, search.broker_id, batch)
        candidates += open_transactions(found, now_ms - search.older_than_ms)
    if not candidates:
        return []
    listed = await transactions.list_transactions(
        producer_ids=sorted({each.producer.producer_id for each in candidates})
    )
    ids = {each.producer_id: each.transactional_id for each in listed}
    described = await transactions.describe_transactions(ids.values())
    known: dict[int, TransactionDescription] = {}
    for producer_id, transactional_id in ids.items():
        description = described[transactional_id]
        if not isinstance(description, KafkaError):
            known[producer_id] = description
        elif description.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise description
    return [each for each in candidates if hangs(each, known)]


def open_transactions(
    producers: Mapping[TopicPartition, Iterable[ProducerState]], before_ms: int
) -> list[PartitionTransaction]:
    """Open transactions whose last record was written before a time."""
    return [
        PartitionTransaction(partition, producer)
        for partition, states in producers.items()
        for producer in states
        if producer.current_transaction_start_offset >= 0 and producer.last_timestamp < before_ms
    ]


def hangs(candidate: PartitionTransaction, known: Mapping[int, TransactionDescription]) -> bool:
    """Whether no coordinator will write the marker; ``known`` are their transactions by producer id."""
    description = known.get(candidate.producer.producer_id)
    return description is None or candidate.partition not in description.partitions


async def _partitions(admin: Admin, search: Search) -> list[TopicPartition]:
    if search.topic is not None and search.partition is not None:
        return [TopicPartition(search.topic, search.partition)]
    names = await admin.list_topics(include_internal=False) if search.topic is None else [search.topic]
    described = await admin.describe_topics(names)
    raise_errors(described)
    return [
        TopicPartition(topic.name, partition.index)
        for topic in described.values()
        if isinstance(topic, TopicDescription)
        for partition in topic.partitions
        if search.broker_id is None or search.broker_id in partition.replicas
    ]


async def _producers(
    transactions: Transactions, broker_id: int | None, partitions: list[TopicPartition]
) -> dict[TopicPartition, list[ProducerState]]:
    if broker_id is None:
        found = await Admin(transactions.cluster).describe_producers(partitions)
    else:
        found = await transactions.producers_on(broker_id, partitions)
    raise_errors(found)
    return {partition: states for partition, states in found.items() if not isinstance(states, KafkaError)}
