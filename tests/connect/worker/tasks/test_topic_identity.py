"""Topics that were deleted and made again: a sink that keeps offsets forgets them, once, and begins again."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from moldau.base.names import ZERO_UUID, TopicPartition
from moldau.client.admin.admin import Admin
from moldau.client.transport.cluster import Cluster
from moldau.connect.connector import SinkConnector, SinkTask
from moldau.connect.connectors.cassandra.sink import CassandraSink
from moldau.connect.connectors.hbase.sink import HBaseSink
from moldau.connect.connectors.http.opensearch import OpenSearchSink
from moldau.connect.errors import ConnectException, RetriableException
from moldau.connect.worker.offsets import FileOffsets
from moldau.connect.worker.tasks.task_parts import TaskParts
from moldau.connect.worker.tasks.topic_identity import TopicIdentity
from moldau.testing import Broker
from tests.connect.conftest import JSON, Worker, running
from tests.shared.waiting import wait_until

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


class Plain(SinkConnector):
    class_name, task_class_name = "x.Plain", "x.PlainTask"

    def make_task(self) -> SinkTask:
        raise NotImplementedError


class Keeping(Plain):
    """Keeps offsets on the other side."""

    def __init__(self) -> None:
        super().__init__({})
        self.forgotten: list[Sequence[TopicPartition] | None] = []

    def forget(self, partitions: Sequence[TopicPartition] | None) -> None:
        self.forgotten.append(partitions)


class Versioned(Plain):
    def has_offsets_in_rows(self) -> bool:
        return True


def identity(folder: Path, connector: SinkConnector, topic_id: bytes) -> TopicIdentity:
    """Of a task that has just begun."""
    parts = SimpleNamespace(
        connector="sink",
        offsets=FileOffsets(folder / "offsets"),
        cluster=SimpleNamespace(topic_id=lambda name: topic_id, topic=_topic),
    )
    return TopicIdentity(cast("TaskParts", parts), connector)


async def _topic(name: str) -> object:
    return SimpleNamespace(partitions=[SimpleNamespace(index=number) for number in range(2)])


def check(one: TopicIdentity, *partitions: TopicPartition) -> None:
    asyncio.run(one.check(partitions))


def test_what_is_kept_of_another_topic_is_forgotten_once(tmp_path: Path) -> None:
    sink = Keeping()
    first = identity(tmp_path, sink, b"1" * 16)
    check(first, ONE)
    check(first, ONE, OTHER)
    check(identity(tmp_path, sink, b"1" * 16), ONE, OTHER)
    assert sink.forgotten == []
    for at in (ONE, OTHER):
        with pytest.raises(RetriableException, match="was made anew"):
            check(identity(tmp_path, sink, b"2" * 16), at)
    check(identity(tmp_path, sink, b"2" * 16), ONE, OTHER)
    assert sink.forgotten == [[ONE], [OTHER]]


def test_a_cluster_without_ids_of_topics_says_nothing(tmp_path: Path) -> None:
    sink = Keeping()
    check(identity(tmp_path, sink, b"1" * 16), ONE)
    check(identity(tmp_path, sink, ZERO_UUID), ONE)
    assert sink.forgotten == []


def test_rows_with_offsets_in_them_fail_the_task_once(tmp_path: Path) -> None:
    sink = Versioned({})
    check(identity(tmp_path, sink, b"1" * 16), ONE, OTHER)
    with pytest.raises(ConnectException, match="The topic t was made anew") as raised:
        check(identity(tmp_path, sink, b"2" * 16), OTHER)
    assert not isinstance(raised.value, RetriableException)
    check(identity(tmp_path, sink, b"2" * 16), ONE, OTHER)


def test_which_sinks_have_offsets_in_their_rows() -> None:
    for kind, given, expected in [
        (OpenSearchSink, {"connection.url": "http://h"}, True),
        (OpenSearchSink, {"connection.url": "http://h", "key.ignore": "true"}, False),
        (HBaseSink, {"connection.url": "http://h"}, True),
        (HBaseSink, {"connection.url": "http://h", "write.time": "timestamp"}, False),
        (CassandraSink, {"contactPoints": "h"}, False),
        (CassandraSink, {"contactPoints": "h", "write.time": "offset"}, True),
    ]:
        assert kind(given).has_offsets_in_rows() is expected


def test_sinks_that_keep_nothing_are_not_asked(tmp_path: Path) -> None:
    check(identity(tmp_path, Plain({}), b"1" * 16), ONE)
    assert not (tmp_path / "offsets").exists()


@pytest.fixture(scope="module")
def worker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with running(broker, tmp_path_factory.mktemp("worker")) as worker:
        yield worker


async def _delete(servers: str, topic: str) -> None:
    async with await Cluster.open(servers) as cluster:
        await Admin(cluster).delete_topics([topic])


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [True, False])
def test_records_of_the_new_topic_are_written(
    broker: Broker, worker: Worker, tmp_path: Path, stopped: bool
) -> None:
    """They were passed over up to the offset that the table had of the old one."""
    topic, file = f"anew-{stopped}", tmp_path / "x.db"
    sqlite3.connect(file).close()

    def rows() -> list[int]:
        with sqlite3.connect(file) as database:
            try:
                return [n for (n,) in database.execute(f'SELECT n FROM "{topic}" ORDER BY n')]
            except sqlite3.OperationalError:
                return []

    def fill(numbers: range) -> None:
        broker.create_topic(topic)
        for n in numbers:
            broker.produce(topic, json.dumps({"n": n}).encode())

    config = {
        "connector.class": "JdbcSinkConnector",
        "connection.url": f"jdbc:sqlite:{file}",
        "topics": topic,
        "auto.create": "true",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }
    fill(range(10))
    worker.call("POST", "/connectors", {"name": topic, "config": config})
    wait_until(lambda: rows() == [*range(10)], lambda: (worker.task(topic), rows()))
    if stopped:
        worker.call("PUT", f"/connectors/{topic}/stop")
        wait_until(lambda: worker.call("GET", f"/connectors/{topic}/status")["tasks"] == [])
    asyncio.run(_delete(broker.bootstrap_servers, topic))
    fill(range(10, 15))
    if stopped:
        worker.call("PUT", f"/connectors/{topic}/resume")
    wait_until(lambda: rows() == [*range(15)], lambda: (worker.task(topic), rows()))
    worker.call("DELETE", f"/connectors/{topic}")
