"""DescribeProducers: whom a partition remembers."""

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tests.broker.apis.asking import Ask, batch, begin_transaction, produce_request


def test_an_idempotent_and_a_transactional_producer(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    ask(produce_request("orders", batch(b"a", b"b", producer_id=900, producer_epoch=2, base_sequence=0)), 9)
    identity = begin_transaction(ask, "orders")
    response = ask(DescribeProducersRequest([TopicRequest("orders", [0])]))
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.error_message) == (0, None)
    found = {each.producer_id: each for each in partition.active_producers}
    assert found.keys() == {900, identity[0]}
    plain = found[900]
    assert (plain.producer_epoch, plain.last_sequence, plain.last_timestamp) == (2, 1, 1000)
    assert plain.current_txn_start_offset == -1
    assert found[identity[0]].current_txn_start_offset == 2


@pytest.mark.parametrize(
    ("topic", "partition", "code"),
    [
        ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a b", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_partitions_that_are_not_there(ask: Ask, topic: str, partition: int, code: ErrorCode) -> None:
    ask.broker.create_topic("orders")
    response = ask(DescribeProducersRequest([TopicRequest(topic, [partition])]))
    (answer,) = response.topics[0].partitions
    assert (answer.partition_index, answer.error_code, answer.active_producers) == (partition, code, [])
