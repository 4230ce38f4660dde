"""AddPartitionsToTxn: requests of every version to transactions, and their codes to a response."""

from typing import Any

from moldau.base.names import TopicPartition
from moldau.coordinators.transactions.add_partitions import AddResults
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

A, B, C = TopicPartition("orders", 0), TopicPartition("orders", 3), TopicPartition("users", 1)


def topics() -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic("orders", [0, 3]), AddPartitionsToTxnTopic("users", [1])]


def single(transactional_id: str = "one") -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=42,
        v3_and_below_producer_epoch=3,
        v3_and_below_topics=topics(),
    )


def batched() -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction("one", 42, 3, True, topics()[:1]),
            AddPartitionsToTxnTransaction("two", 43, 0, False, topics()[1:]),
        ]
    )


def codes(results: Any) -> dict[TopicPartition, ErrorCode]:
    return {
        TopicPartition(topic.name, each.partition_index): each.partition_error_code
        for topic in results
        for each in topic.results_by_partition
    }


def test_one_transaction() -> None:
    results = AddResults(single(), 3, {})
    ((place, entry),) = results.entries
    assert (place, entry.transactional_id, entry.claimed) == (0, "one", (42, 3))
    assert (entry.partitions, entry.verify_only, entry.transaction_version) == ((A, B, C), False, 0)
    results.add_all(place, ErrorCode.NONE)
    response = results.response()
    assert codes(response.results_by_topic_v3_and_below) == dict.fromkeys((A, B, C), ErrorCode.NONE)
    assert [each.name for each in response.results_by_topic_v3_and_below] == ["orders", "users"]
    assert response.results_by_transaction == []


def test_many_transactions_in_their_order() -> None:
    results = AddResults(batched(), 4, {})
    (_, one), (_, two) = results.entries
    assert (one.transactional_id, one.verify_only, one.partitions) == ("one", True, (A, B))
    assert (two.transactional_id, two.verify_only, two.partitions) == ("two", False, (C,))
    results.add(1, {C: ErrorCode.CONCURRENT_TRANSACTIONS})
    results.add(0, {A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE})
    first, second = results.response().results_by_transaction
    assert (first.transactional_id, codes(first.topic_results)) == (
        "one",
        {A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE},
    )
    assert (second.transactional_id, codes(second.topic_results)) == (
        "two",
        {C: ErrorCode.CONCURRENT_TRANSACTIONS},
    )


def test_the_version_of_the_request_is_that_of_transactions() -> None:
    found = {version: AddResults(batched(), version, {}).entries[0][1] for version in (4, 5)}
    assert {version: entry.transaction_version for version, entry in found.items()} == {4: 0, 5: 2}


def test_a_transaction_with_a_refused_partition_is_not_attempted() -> None:
    refused = {A: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    results = AddResults(batched(), 4, refused)
    assert [(place, entry.transactional_id) for place, entry in results.entries] == [(1, "two")]
    results.add_all(1, ErrorCode.NONE)
    first, second = results.response().results_by_transaction
    assert codes(first.topic_results) == {
        A: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        B: ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
    assert codes(second.topic_results) == {C: ErrorCode.NONE}


def test_a_transaction_without_an_id() -> None:
    """Whatever else is wrong with its partitions."""
    results = AddResults(single(""), 3, {A: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    assert results.entries == []
    found = codes(results.response().results_by_topic_v3_and_below)
    assert found == dict.fromkeys((A, B, C), ErrorCode.INVALID_REQUEST)
