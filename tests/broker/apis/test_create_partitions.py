"""CreatePartitions: a topic gets wider, never narrower."""

import errno

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.broker.apis.asking import Ask


def partitions_of(ask: Ask, topic: str) -> int:
    return len(ask.broker.node.metadata.image.topics_by_name[topic].partitions)


def test_new_partitions_are_ready(ask: Ask) -> None:
    ask.broker.create_topic("orders", 2)
    (result,) = ask(CreatePartitionsRequest([CreatePartitionsTopic("orders", 4, None)])).results
    assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
    assert partitions_of(ask, "orders") == 4
    assert ask.broker.produce("orders", "v", partition=3) == 0


@pytest.mark.parametrize(
    ("name", "count", "code"),
    [
        ("nowhere", 4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 2, ErrorCode.INVALID_PARTITIONS),
        ("orders", 1, ErrorCode.INVALID_PARTITIONS),
    ],
)
def test_what_is_refused(ask: Ask, name: str, count: int, code: ErrorCode) -> None:
    ask.broker.create_topic("orders", 2)
    (result,) = ask(CreatePartitionsRequest([CreatePartitionsTopic(name, count, None)])).results
    assert result.error_code == code
    assert partitions_of(ask, "orders") == 2


def test_chosen_replicas(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    one = [CreatePartitionsAssignment([1])]
    (result,) = ask(CreatePartitionsRequest([CreatePartitionsTopic("orders", 3, one)])).results
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT, "two are missing, one is given"
    (result,) = ask(CreatePartitionsRequest([CreatePartitionsTopic("orders", 2, one)])).results
    assert (result.error_code, partitions_of(ask, "orders")) == (0, 2)


def test_a_topic_that_stands_twice_is_answered_once(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    twice = [CreatePartitionsTopic("orders", 2, None), CreatePartitionsTopic("orders", 3, None)]
    (result,) = ask(CreatePartitionsRequest(twice)).results
    assert (result.error_code, partitions_of(ask, "orders")) == (ErrorCode.INVALID_REQUEST, 1)


def test_to_validate_only_changes_nothing(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    request = CreatePartitionsRequest([CreatePartitionsTopic("orders", 2, None)], validate_only=True)
    (result,) = ask(request).results
    assert (result.error_code, partitions_of(ask, "orders")) == (0, 1)


def test_partitions_whose_files_cannot_be_made(ask: Ask) -> None:
    """They cannot be taken back, so they must not come to be."""
    ask.broker.create_topic("orders", 2)
    ask.broker.create_topic("clicks", 2)
    assert ask.broker._memory is not None

    def refuse(name: str, path: str) -> None:
        if name == "create" and "orders-3" in path:
            raise OSError(errno.EMFILE, "Too many open files", path)

    faults = ask.broker._memory[0].faults
    faults.on_operation = refuse
    asked = [CreatePartitionsTopic("orders", 4, None), CreatePartitionsTopic("clicks", 4, None)]
    first, second = ask(CreatePartitionsRequest(asked)).results
    faults.on_operation = None
    assert (first.error_code, second.error_code) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
    assert "Too many open files" in first.error_message
    assert [partitions_of(ask, "orders"), partitions_of(ask, "clicks")] == [2, 4]
    assert ask(CreatePartitionsRequest([asked[0]])).results[0].error_code == 0
    assert ask.broker.produce("orders", "v", partition=3) == 0
