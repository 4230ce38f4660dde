"""What a broker asks the coordinator of a transaction on another one."""

from moldau.base.names import TopicPartition
from moldau.coordinators.transactions.verification import read_verdicts, verification_request
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_the_request_names_partitions_by_topic() -> None:
    (asked,) = verification_request("pay", 7, 2, (B0, A1, A0), verify_only=True).transactions
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.verify_only) == (
        "pay",
        7,
        2,
        True,
    )
    assert [(topic.name, topic.partitions) for topic in asked.topics] == [("a", [0, 1]), ("b", [0])]


def test_every_partition_has_a_verdict() -> None:
    fine = AddPartitionsToTxnTopicResult("a", [AddPartitionsToTxnPartitionResult(0, 0)])
    response = AddPartitionsToTxnResponse(results_by_transaction=[AddPartitionsToTxnResult("pay", [fine])])
    assert read_verdicts(response, (A0, B0)) == {A0: ErrorCode.NONE, B0: ErrorCode.INVALID_TXN_STATE}
    refused = AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert read_verdicts(refused, (A0,)) == {A0: ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
