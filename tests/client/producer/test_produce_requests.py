"""Produce requests from batches, and outcomes from answers."""

from types import SimpleNamespace
from typing import Any

import pytest

from moldau.base.names import ZERO_UUID, TopicPartition
from moldau.client.producer.produce_requests import outcomes, produce_request
from moldau.client.producer.transactions import OpenTransaction
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

ORDERS_ID = b"o" * 16
IDS = {"orders": ORDERS_ID, "users": b"u" * 16}
#: What is read of a cluster: the ids of topics, and their names.
CLUSTER: Any = SimpleNamespace(
    topic_id=lambda name: IDS.get(name, ZERO_UUID),
    topic_name=lambda topic_id: {each: name for name, each in IDS.items()}.get(topic_id),
)
A, B, C = TopicPartition("orders", 0), TopicPartition("orders", 3), TopicPartition("users", 1)


def request(
    *partitions: TopicPartition, transaction: OpenTransaction | None = None
) -> tuple[Any, int | None]:
    batches = [(partition, b"%s" % str(partition).encode()) for partition in partitions]
    return produce_request(CLUSTER, batches, acks=-1, timeout_ms=30_000, transaction=transaction)


def test_partitions_of_a_topic_are_together_in_their_order() -> None:
    made, version = request(B, C, A)
    assert [
        (topic.name, topic.topic_id, [(each.index, each.records) for each in topic.partition_data])
        for topic in made.topic_data
    ] == [
        ("orders", ORDERS_ID, [(3, b"orders-3"), (0, b"orders-0")]),
        ("users", b"u" * 16, [(1, b"users-1")]),
    ]
    assert (made.acks, made.timeout_ms, made.transactional_id, version) == (-1, 30_000, None, None)


def test_a_topic_without_a_known_id_is_named() -> None:
    made, version = request(A, TopicPartition("new", 0))
    assert [topic.name for topic in made.topic_data] == ["orders", "new"]
    assert version == 12, "the last version with names"


@pytest.mark.parametrize(("adds_implicitly", "version"), [(True, None), (False, 11)])
def test_in_a_transaction(adds_implicitly: bool, version: int | None) -> None:
    transaction = OpenTransaction("payments", 42, 3, adds_implicitly)
    made, last = request(A, transaction=transaction)
    assert (made.transactional_id, last) == ("payments", version)
    _, last = request(A, TopicPartition("new", 0), transaction=transaction)
    assert last == (version or 12), "the lower of the two"


def answer(*partitions: PartitionProduceResponse, **topic: Any) -> ProduceResponse:
    return ProduceResponse(responses=[TopicProduceResponse(**topic, partition_responses=list(partitions))])


def partition(error_code: int = 0, **others: Any) -> PartitionProduceResponse:
    return PartitionProduceResponse(**{"index": 3, "error_code": error_code, "base_offset": 70, **others})


def test_what_was_written() -> None:
    found = outcomes(CLUSTER, answer(partition(), partition(index=0, log_append_time_ms=9), name="orders"))
    assert found == {B: (70, -1), A: (70, 9)}


def test_topics_of_an_answer_by_name_or_by_id() -> None:
    assert list(outcomes(CLUSTER, answer(partition(), topic_id=ORDERS_ID))) == [B]
    unknown = outcomes(CLUSTER, answer(partition(), topic_id=b"?" * 16))
    assert list(unknown) == [TopicPartition("", 3)], "it is nobody's"


def test_a_repeat_was_written_before() -> None:
    repeat = partition(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert outcomes(CLUSTER, answer(repeat, name="orders")) == {B: (70, -1)}


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({}, None),
        ({"error_message": "too bad"}, "too bad"),
        ({"error_message": "bad", "record_errors": [BatchIndexAndErrorMessage(0, None)]}, "bad"),
        ({"error_message": "bad", "record_errors": [BatchIndexAndErrorMessage(0, "no key")]}, "no key"),
    ],
)
def test_why_it_was_not_written(others: dict[str, Any], message: str | None) -> None:
    refused = partition(ErrorCode.INVALID_RECORD, **others)
    (outcome,) = outcomes(CLUSTER, answer(refused, name="orders")).values()
    assert isinstance(outcome, KafkaError)
    assert (outcome.code, outcome.message) == (ErrorCode.INVALID_RECORD, message)


def test_an_error_that_nobody_knows() -> None:
    (outcome,) = outcomes(CLUSTER, answer(partition(31_000), name="orders")).values()
    assert isinstance(outcome, KafkaError)
    assert outcome.code is ErrorCode.UNKNOWN_SERVER_ERROR
