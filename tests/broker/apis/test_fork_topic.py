"""ForkTopic: a new topic with the records of another one, up to a moment, to offsets, or all."""

from typing import Any

import pytest

from moldau.protocol.compression import Compression
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.fork_topic import ForkConfig, ForkPartition, ForkTopicRequest
from moldau.protocol.records import Record, encode_batch
from tests.broker.apis.asking import Ask, produce_request


def fork(source: str, name: str, timestamp: int = -1, **options: Any) -> ForkTopicRequest:
    return ForkTopicRequest(source, name, timestamp, **options)


def values(ask: Ask, topic: str) -> list[bytes | None]:
    return [record.value for record in ask.broker.records(topic)]


@pytest.fixture
def filled(ask: Ask) -> Ask:
    ask.broker.create_topic("orders", configs={"retention.ms": -1})
    for value, timestamp in (("a", 1000), ("b", 2000), ("c", 3000)):
        ask.broker.produce("orders", value, timestamp_ms=timestamp)
    return ask


def test_all_that_is_committed(filled: Ask) -> None:
    response = filled(fork("orders", "copy"))
    assert (response.error_code, response.topic_id) == (0, filled.topic_id("copy"))
    (partition,) = response.partitions
    assert (partition.partition_index, partition.log_start_offset, partition.log_end_offset) == (0, 0, 3)
    assert values(filled, "copy") == [b"a", b"b", b"c"]
    filled.broker.produce("copy", "d")
    assert values(filled, "orders") == [b"a", b"b", b"c"], "neither topic feels the other"


def test_up_to_a_moment(filled: Ask) -> None:
    (partition,) = filled(fork("orders", "past", 2000)).partitions
    assert partition.cut_offset == 2
    assert values(filled, "past") == [b"a", b"b"]


def test_up_to_a_moment_inside_a_heavy_batch(ask: Ask) -> None:
    ask.broker.create_topic("orders", configs={"retention.ms": -1})
    many = [Record(at, 1000 if at < 9000 else 2000, None, b"", ()) for at in range(10_001)]
    ask(produce_request("orders", bytes(encode_batch(many, compression=Compression.ZSTD))), 9)
    (partition,) = ask(fork("orders", "past", 1000)).partitions
    assert partition.cut_offset == 9000


def test_up_to_offsets(filled: Ask) -> None:
    response = filled(fork("orders", "first", partitions=[ForkPartition(0, 1)]))
    assert response.error_code == 0
    assert values(filled, "first") == [b"a"]


def test_configs_of_its_own(filled: Ask) -> None:
    changed = [ForkConfig("retention.ms", "5"), ForkConfig("retention.bytes", "7")]
    assert filled(fork("orders", "copy", configs=changed)).error_code == 0
    from moldau.cluster.records import ResourceType

    configs = filled.broker.node.metadata.image.configs(ResourceType.TOPIC, "copy")
    assert configs == {"retention.ms": "5", "retention.bytes": "7"}


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (fork("nowhere", "copy"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (fork("orders", "orders"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (fork("orders", "a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (fork("orders", "copy", 5, partitions=[ForkPartition(0, 1)]), ErrorCode.INVALID_REQUEST),
        (fork("orders", "copy", partitions=[ForkPartition(0, 1)] * 2), ErrorCode.INVALID_REQUEST),
        (fork("orders", "copy", partitions=[ForkPartition(0, 9)]), ErrorCode.OFFSET_OUT_OF_RANGE),
        (fork("orders", "copy", configs=[ForkConfig("no.such", "1")]), ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_is_refused(filled: Ask, request_: ForkTopicRequest, code: ErrorCode) -> None:
    response = filled(request_)
    assert response.error_code == code
    assert filled.broker.topics() == ["orders"]
