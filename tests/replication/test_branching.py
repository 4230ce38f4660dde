"""Branches inside a running broker: beside appends and retention, and when something goes wrong."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.broker.topic_branches import Fork, fork
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import Record, encode_batch
from moldau.replication import branching
from moldau.storage.branches.forking import ForkJob
from moldau.testing import Broker
from moldau.testing.broker import create_topic, empty
from tests.shared.waiting import turns


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def names(broker: Broker, start: str) -> list[str]:
    """Directories in the broker's memory whose names begin like this."""
    node = broker.node
    return [n for n in node._files.list_directory(node.settings.log_dirs[0]) if n.startswith(start)]


def test_forks_beside_appends(broker: Broker) -> None:
    broker.create_topic("orders", 1, {"segment.bytes": 1_048_576})

    async def both() -> list[int]:
        partition = broker.node.replicas.find("orders", 0)
        done = False
        ends = []

        async def append() -> None:
            number = 0
            while not done:
                batch = encode_batch([Record(0, 1000 + number, b"k", b"%d" % number)])
                partition.append(memoryview(batch), 1, 1000, 13)
                number += 1
                await turns()

        appending = asyncio.create_task(append())
        for number in range(5):
            made = await fork(broker.node.services, Fork("orders", f"copy{number}"))
            ends.append(made.partitions[0].log_end_offset)
        done = True
        await appending
        return ends

    ends = broker.run(both())
    assert ends == sorted(ends)
    for number, end in enumerate(ends):
        found = broker.records(f"copy{number}")
        assert [record.value for record in found] == [b"%d" % value for value in range(end)]


def test_a_full_disk(broker: Broker) -> None:
    for number in range(20):
        broker.produce("orders", f"{number}")
    faults: Any = broker.node._files.faults  # type: ignore[attr-defined]
    faults.bytes_until_full = 200
    with pytest.raises(KafkaError) as refused:
        broker.fork("orders", "copy")
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    faults.bytes_until_full = None
    assert names(broker, "copy") == []
    broker.fork("orders", "copy")
    assert len(broker.records("copy")) == 20


def test_a_topic_that_appears_meanwhile(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes first has the name; the other one leaves nothing."""
    broker.produce("orders", "1")
    services = broker.node.services
    write = services.branching._write_checkpoints

    async def late() -> None:
        await write()
        await create_topic(broker.node, "copy", 1)

    monkeypatch.setattr(services.branching, "_write_checkpoints", late)
    with pytest.raises(KafkaError) as refused:
        broker.fork("orders", "copy")
    assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert broker.records("copy") == []
    assert broker.produce("copy", "mine") == 0


def test_a_store_that_fails(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.produce("orders", "1")
    services = broker.node.services

    async def fail(command: Any) -> Any:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    with monkeypatch.context() as patch:
        patch.setattr(services.metadata, "execute", fail)
        with pytest.raises(KafkaError):
            broker.fork("orders", "copy")
    assert all(name.endswith("-delete") for name in names(broker, "copy"))
    broker.fork("orders", "copy")
    assert len(broker.records("copy")) == 1


def test_a_source_that_is_replaced_again_and_again(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.produce("orders", "1")
    answers = [False, False, True]
    monkeypatch.setattr(ForkJob, "is_consistent", lambda self: answers.pop(0))
    broker.fork("orders", "copy")
    assert answers == []
    assert len(broker.records("copy")) == 1
    answers.extend([False] * branching._ATTEMPTS)
    with pytest.raises(KafkaError, match="compacted each time"):
        broker.fork("orders", "other")
    assert names(broker, "other") == []


def test_a_source_that_is_deleted_meanwhile(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.produce("orders", "1")
    run = ForkJob.run

    def slow(self: ForkJob) -> None:
        asyncio.run_coroutine_threadsafe(empty(broker.node), loop).result()
        run(self)

    async def this_loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    loop = broker.run(this_loop())
    monkeypatch.setattr(ForkJob, "run", slow)
    with pytest.raises(KafkaError) as refused:
        broker.fork("orders", "copy")
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (broker.topics(), names(broker, "copy")) == ([], [])


def test_an_orphan_of_the_name_is_put_aside(broker: Broker) -> None:
    """A directory that belongs to a topic which nobody knows is not overwritten."""
    broker.produce("orders", "1")

    async def leave() -> None:
        node = broker.node
        source = node.replicas.find("orders", 0).leading_log()
        node.logs.create(TopicPartition("copy", 0), bytes(range(16)), source.config)

    broker.run(leave())
    broker.fork("orders", "copy")
    assert [record.value for record in broker.records("copy")] == [b"1"]
    assert [name.endswith("-stray") for name in names(broker, "copy-0.")] == [True]
