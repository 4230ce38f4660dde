"""Parses AddPartitionsToTxn requests and builds the responses: one transaction, or many in a batch.

Invariant: as in Kafka, a transaction is not attempted at all if one of its partitions was refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from moldau.base.names import TopicPartition
from moldau.coordinators.shard import ProducerIdAndEpoch
from moldau.coordinators.transactions.transaction import TRANSACTION_V2
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

#: From this version on a request may contain many transactions.
FIRST_BATCHED_VERSION = 4


@dataclass(frozen=True, slots=True)
class TransactionEntry:
    """One transaction of a request."""

    transactional_id: str
    claimed: ProducerIdAndEpoch
    verify_only: bool
    topics: tuple[AddPartitionsToTxnTopic, ...]
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


class AddResults:
    def __init__(
        self,
        request: AddPartitionsToTxnRequest,
        version: int,
        refused: Mapping[TopicPartition, ErrorCode],
    ) -> None:
        self._batched = version >= FIRST_BATCHED_VERSION
        transaction_version = TRANSACTION_V2 if version > FIRST_BATCHED_VERSION else 0
        self._all = [
            _entry(transaction, transaction_version) for transaction in _transactions(request, version)
        ]
        self._codes: list[dict[TopicPartition, ErrorCode]] = []
        #: The transactions to attempt, each with its index in the response.
        self.entries: list[tuple[int, TransactionEntry]] = []
        for place, entry in enumerate(self._all):
            codes = _refusals(entry, refused)
            self._codes.append(codes)
            if not codes:
                self.entries.append((place, entry))

    def add(self, place: int, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        self._codes[place].update(codes)

    def add_all(self, place: int, code: ErrorCode) -> None:
        self._codes[place].update(dict.fromkeys(self._all[place].partitions, code))

    def response(self) -> AddPartitionsToTxnResponse:
        results = [_topic_results(entry, codes) for entry, codes in zip(self._all, self._codes, strict=True)]
        if not self._batched:
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0])
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(entry.transactional_id, topics)
                for entry, topics in zip(self._all, results, strict=True)
            ]
        )


def _transactions(request: AddPartitionsToTxnRequest, version: int) -> list[AddPartitionsToTxnTransaction]:
    if version >= FIRST_BATCHED_VERSION:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def _entry(transaction: AddPartitionsToTxnTransaction, transaction_version: int) -> TransactionEntry:
    return TransactionEntry(
        transactional_id=transaction.transactional_id,
        claimed=ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch),
        verify_only=transaction.verify_only,
        topics=tuple(transaction.topics),
        partitions=tuple(
            TopicPartition(topic.name, partition)
            for topic in transaction.topics
            for partition in topic.partitions
        ),
        transaction_version=transaction_version,
    )


def _refusals(
    entry: TransactionEntry, refused: Mapping[TopicPartition, ErrorCode]
) -> dict[TopicPartition, ErrorCode]:
    """The error codes of a transaction that is not attempted; empty for one that is."""
    if not entry.transactional_id:
        return dict.fromkeys(entry.partitions, ErrorCode.INVALID_REQUEST)
    if refused.keys().isdisjoint(entry.partitions):
        return {}
    return {
        partition: refused.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED) for partition in entry.partitions
    }


def _topic_results(
    entry: TransactionEntry, codes: Mapping[TopicPartition, ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(partition, codes[TopicPartition(topic.name, partition)])
                for partition in topic.partitions
            ],
        )
        for topic in entry.topics
    ]
