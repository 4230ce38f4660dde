"""AddOffsetsToTxn: the partition that keeps a group's offsets becomes part of a transaction."""

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.broker.apis.asking import Ask, new_producer


def test_the_topic_of_the_offsets_is_created_and_added(ask: Ask) -> None:
    identity = new_producer(ask)
    assert ask(AddOffsetsToTxnRequest("t", *identity, "g")).error_code == 0
    assert "__consumer_offsets" in ask.broker.topics()
    (state,) = ask(DescribeTransactionsRequest(["t"])).transaction_states
    assert [(each.topic, each.partitions) for each in state.topics] == [("__consumer_offsets", [0])]


def test_who_is_refused(ask: Ask) -> None:
    producer_id, epoch = new_producer(ask)
    new_producer(ask)
    late = AddOffsetsToTxnRequest("t", producer_id, epoch, "g")
    assert ask(late, 1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert ask(late, 2).error_code == ErrorCode.PRODUCER_FENCED
    stranger = AddOffsetsToTxnRequest("t", producer_id + 1, 0, "g")
    assert ask(stranger).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert ask(AddOffsetsToTxnRequest("", 1, 0, "g")).error_code == ErrorCode.INVALID_REQUEST


def test_without_a_coordinator(ask: Ask) -> None:
    response = ask(AddOffsetsToTxnRequest("t", 1, 0, "g"))
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
