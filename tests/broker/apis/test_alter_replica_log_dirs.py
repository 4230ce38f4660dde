"""AlterReplicaLogDirs: replicas go to another directory of their broker."""

from collections.abc import Iterator

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from moldau.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from moldau.testing import Broker
from tests.broker.apis.asking import Ask
from tests.shared.waiting import wait_until


@pytest.fixture
def ask() -> Iterator[Ask]:
    """A broker with two directories."""
    with Broker({"log.dirs": "/a,/b", "node.id": 1}) as broker:
        yield Ask(broker)


def request(path: str, topic: str, *partitions: int) -> AlterReplicaLogDirsRequest:
    topics = [AlterReplicaLogDirTopic(topic, list(partitions))]
    return AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, topics)])


def codes(response: object) -> list[int]:
    return [
        each.error_code
        for topic in response.results  # type: ignore[attr-defined]
        for each in topic.partitions
    ]


def places(ask: Ask) -> dict[str, list[tuple[int, bool]]]:
    """Partitions of each directory, and which of them are future ones."""
    return {
        directory.log_dir: [
            (each.partition_index, each.is_future_key)
            for topic in directory.topics
            for each in topic.partitions
        ]
        for directory in ask(DescribeLogDirsRequest(None)).results
    }


def test_replicas_move_and_are_shown_where_they_are(ask: Ask) -> None:
    ask.broker.create_topic("orders", 2)
    ask.broker.produce("orders", "one", partition=0)
    assert places(ask) == {"/a": [(0, False)], "/b": [(1, False)]}
    assert codes(ask(request("/b", "orders", 0, 1))) == [ErrorCode.NONE, ErrorCode.NONE]
    wait_until(lambda: sorted(places(ask)["/b"]) == [(0, False), (1, False)], lambda: places(ask))
    assert [record.value for record in ask.broker.records("orders")] == [b"one"]


def test_what_cannot_be_moved(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    assert codes(ask(request("/nope", "orders", 0))) == [ErrorCode.LOG_DIR_NOT_FOUND]
    assert codes(ask(request("/b", "orders", 1), 1)) == [ErrorCode.REPLICA_NOT_AVAILABLE]
    assert codes(ask(request("/b", "nowhere", 0))) == [ErrorCode.REPLICA_NOT_AVAILABLE]
    assert ask.broker.node.logs.new_partitions.wanted == {}, "only partitions that exist are remembered"
