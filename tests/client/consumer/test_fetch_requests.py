"""Fetch requests from what is wanted, and partitions from answers."""

from types import SimpleNamespace
from typing import Any

import pytest

from moldau.base.names import ZERO_UUID, TopicPartition
from moldau.client.consumer.fetch_requests import FetchPosition, fetch_request, fetched_partitions
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

ORDERS_ID, USERS_ID = b"o" * 16, b"u" * 16
IDS = {"orders": ORDERS_ID, "users": USERS_ID}
#: What is read of a cluster: the ids of topics, and their names.
CLUSTER: Any = SimpleNamespace(
    topic_id=lambda name: IDS.get(name, ZERO_UUID),
    topic_name=lambda topic_id: {each: name for name, each in IDS.items()}.get(topic_id),
)


def request(*wanted: tuple[str, int, int, int], **options: Any) -> tuple[Any, int | None]:
    asked = [FetchPosition(TopicPartition(name, index), offset, size) for name, index, offset, size in wanted]
    return fetch_request(CLUSTER, asked, **{"isolation_level": 1, "max_bytes": 1_000, **options})


def test_partitions_of_a_topic_are_together_in_their_order() -> None:
    made, version = request(("orders", 3, 70, 10), ("users", 0, 0, 20), ("orders", 1, 5, 30))
    assert [
        (
            topic.topic,
            topic.topic_id,
            [(each.partition, each.fetch_offset, each.partition_max_bytes) for each in topic.partitions],
        )
        for topic in made.topics
    ] == [("orders", ORDERS_ID, [(3, 70, 10), (1, 5, 30)]), ("users", USERS_ID, [(0, 0, 20)])]
    assert version is None


def test_how_long_and_how_much() -> None:
    made, _ = request(("orders", 0, 0, 10), max_wait_ms=7, min_bytes=8, rack_id="r1")
    assert (made.max_wait_ms, made.min_bytes, made.max_bytes) == (7, 8, 1_000)
    assert (made.isolation_level, made.rack_id) == (1, "r1")
    made, _ = request(("orders", 0, 0, 10))
    assert (made.max_wait_ms, made.min_bytes, made.rack_id) == (500, 1, "")


def test_a_topic_without_a_known_id_is_named() -> None:
    _, version = request(("orders", 0, 0, 10), ("new", 0, 0, 10), ("users", 0, 0, 10))
    assert version == 12, "the last version with names"


def test_what_came_for_each_partition_with_its_error() -> None:
    good = PartitionData(partition_index=3, error_code=0, high_watermark=70)
    bad = PartitionData(partition_index=1, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)
    answer = FetchResponse(
        responses=[
            FetchableTopicResponse(topic="orders", partitions=[good, bad]),
            FetchableTopicResponse(topic_id=USERS_ID, partitions=[good]),
            FetchableTopicResponse(topic_id=b"?" * 16, partitions=[good]),
        ]
    )
    assert list(fetched_partitions(CLUSTER, answer, "broker:9092")) == [
        (TopicPartition("orders", 3), good),
        (TopicPartition("orders", 1), bad),
        (TopicPartition("users", 3), good),
        (TopicPartition("", 3), good),
    ]


def test_what_the_broker_has_against_the_request() -> None:
    answer = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    with pytest.raises(KafkaError, match="broker:9092 refused to fetch") as refused:
        list(fetched_partitions(CLUSTER, answer, "broker:9092"))
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
