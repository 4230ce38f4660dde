"""AddPartitionsToTxn: one transaction or many, and what no transaction may write to."""

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from moldau.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.broker.apis.asking import Ask, new_producer

Topics = dict[str, list[int]]


def add(ask: Ask, identity: tuple[int, int], topics: Topics, version: int = 3) -> dict[tuple[str, int], int]:
    asked = [AddPartitionsToTxnTopic(*each) for each in topics.items()]
    response = ask(AddPartitionsToTxnRequest([], "t", *identity, asked), version)
    return codes(response.results_by_topic_v3_and_below)


def codes(results: list[AddPartitionsToTxnTopicResult]) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition.partition_index): partition.partition_error_code
        for topic in results
        for partition in topic.results_by_partition
    }


def added(ask: Ask) -> dict[str, list[int]]:
    (state,) = ask(DescribeTransactionsRequest(["t"])).transaction_states
    return {each.topic: each.partitions for each in state.topics}


def test_partitions_become_part_of_the_transaction(ask: Ask) -> None:
    ask.broker.create_topic("orders", 2)
    identity = new_producer(ask)
    assert add(ask, identity, {"orders": [0, 1]}) == {("orders", 0): 0, ("orders", 1): 0}
    assert added(ask) == {"orders": [0, 1]}


def test_one_that_does_not_exist_spoils_the_whole_request(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    identity = new_producer(ask)
    assert add(ask, identity, {"orders": [0, 9], "__transaction_state": [0]}) == {
        ("orders", 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        ("orders", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("__transaction_state", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert added(ask) == {}


def test_an_owner_of_the_past_is_fenced(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    identity = new_producer(ask)
    new_producer(ask)
    assert add(ask, identity, {"orders": [0]}, 1) == {("orders", 0): ErrorCode.INVALID_PRODUCER_EPOCH}
    assert add(ask, identity, {"orders": [0]}, 2) == {("orders", 0): ErrorCode.PRODUCER_FENCED}
    stranger = (identity[0] + 1, 0)
    assert add(ask, stranger, {"orders": [0]}) == {("orders", 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING}


def test_many_transactions_from_version_4(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    topics = [AddPartitionsToTxnTopic("orders", [0])]
    one, other = new_producer(ask, "t"), new_producer(ask, "u")
    transactions = [
        AddPartitionsToTxnTransaction("t", *one, False, topics),
        AddPartitionsToTxnTransaction("u", *other, True, topics),
        AddPartitionsToTxnTransaction("nobody", 1, 0, False, topics),
    ]
    response = ask(AddPartitionsToTxnRequest(transactions), 4)
    assert response.error_code == 0
    found = {each.transactional_id: codes(each.topic_results) for each in response.results_by_transaction}
    assert found == {
        "t": {("orders", 0): 0},
        "u": {("orders", 0): ErrorCode.TRANSACTION_ABORTABLE},
        "nobody": {("orders", 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    }
    assert added(ask) == {"orders": [0]}


def test_without_a_coordinator(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    assert add(ask, (1, 0), {"orders": [0]}) == {("orders", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    topics = [AddPartitionsToTxnTopic("orders", [0])]
    request = AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("t", 1, 0, False, topics)])
    (result,) = ask(request, 4).results_by_transaction
    assert codes(result.topic_results) == {("orders", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}
