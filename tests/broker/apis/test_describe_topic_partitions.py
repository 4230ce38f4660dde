"""DescribeTopicPartitions: topics in the order of their names, page by page."""

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.broker.apis.asking import Ask, open_coordinator


def request(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    asked = [TopicRequest(name) for name in names]
    return DescribeTopicPartitionsRequest(asked, limit, Cursor(*cursor) if cursor else None)


def pages(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
    return [(topic.name, [each.partition_index for each in topic.partitions]) for topic in response.topics]


@pytest.fixture
def filled(ask: Ask) -> Ask:
    for name, count in (("b", 3), ("a", 2), ("c", 1)):
        ask.broker.create_topic(name, count)
    return ask


def test_one_topic(filled: Ask) -> None:
    (topic,) = filled(request("a")).topics
    assert (topic.error_code, topic.topic_id, topic.is_internal) == (0, filled.topic_id("a"), False)
    assert [
        (each.partition_index, each.leader_id, each.leader_epoch, each.replica_nodes, each.isr_nodes)
        for each in topic.partitions
    ] == [(0, 1, 0, [1], [1]), (1, 1, 0, [1], [1])]
    assert topic.topic_authorized_operations & 1 << 3, "read"


def test_all_topics_in_order(filled: Ask) -> None:
    response = filled(request())
    assert pages(response) == [("a", [0, 1]), ("b", [0, 1, 2]), ("c", [0])]
    assert response.next_cursor is None


def test_page_by_page(filled: Ask) -> None:
    one = filled(request(limit=3))
    assert pages(one) == [("a", [0, 1]), ("b", [0])]
    assert (one.next_cursor.topic_name, one.next_cursor.partition_index) == ("b", 1)
    two = filled(request(limit=2, cursor=("b", 1)))
    assert pages(two) == [("b", [1, 2])]
    assert (two.next_cursor.topic_name, two.next_cursor.partition_index) == ("c", 0)
    three = filled(request(limit=2, cursor=("c", 0)))
    assert (pages(three), three.next_cursor) == ([("c", [0])], None)


def test_a_page_has_at_least_one_partition(filled: Ask) -> None:
    assert pages(filled(request("a", limit=0))) == [("a", [0])]


def test_topics_that_are_not_there(filled: Ask) -> None:
    bad, missing = filled(request("nowhere", "a b")).topics
    assert (bad.name, bad.error_code) == ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert (missing.name, missing.error_code) == ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("cursor", [("a", -1), ("c", 0)], ids=["negative", "of another topic"])
def test_a_cursor_that_makes_no_sense(filled: Ask, cursor: tuple[str, int]) -> None:
    (topic,) = filled(request("a", cursor=cursor)).topics
    assert (topic.name, topic.error_code) == ("a", ErrorCode.INVALID_REQUEST)


def test_internal_topics_are_marked(ask: Ask) -> None:
    open_coordinator(ask, 0)
    (topic,) = ask(request("__consumer_offsets")).topics
    assert topic.is_internal
