"""What a broker asks the coordinator of a transaction on another one before it takes a write.

Invariant: pure. Every partition that was asked about has a verdict; one that the answer does not name was
refused.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

from moldau.base.names import TopicPartition
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)


def verification_request(
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Iterable[TopicPartition],
    *,
    verify_only: bool,
) -> AddPartitionsToTxnRequest:
    """``verify_only``: the partitions should be part of the transaction already, and are not added."""
    topics = [
        AddPartitionsToTxnTopic(topic, [each.partition for each in group])
        for topic, group in groupby(sorted(partitions), lambda each: each.topic)
    ]
    transaction = AddPartitionsToTxnTransaction(
        transactional_id, producer_id, producer_epoch, verify_only, topics
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


def read_verdicts(
    response: AddPartitionsToTxnResponse, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    if response.error_code:
        return dict.fromkeys(partitions, ErrorCode(response.error_code))
    verdicts = dict.fromkeys(partitions, ErrorCode.INVALID_TXN_STATE)
    for transaction in response.results_by_transaction:
        for topic in transaction.topic_results:
            for result in topic.results_by_partition:
                place = TopicPartition(topic.name, result.partition_index)
                verdicts[place] = ErrorCode(result.partition_error_code)
    return verdicts
