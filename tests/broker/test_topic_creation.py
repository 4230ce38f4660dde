"""A topic with many partitions: its files are made off the loop, and it is not visible before all are.
A topic whose files cannot be made is not there.
"""

import asyncio
import errno
import logging
import threading
from contextlib import suppress
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.broker.topic_creation import MANY_PARTITIONS, create_automatically
from moldau.cluster.records import TopicDeleted
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.storage.directory.log_directory import LogDirectory
from moldau.storage.directory.preparation import PreparationJob
from moldau.testing import Broker
from moldau.testing.broker import create_topic
from tests.shared.waiting import until


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """The work on files says that it has begun, and waits until it may go on."""
    begun, released = threading.Event(), threading.Event()
    run = PreparationJob.run

    def held_run(job: PreparationJob) -> None:
        begun.set()
        assert released.wait(30)
        run(job)

    monkeypatch.setattr(PreparationJob, "run", held_run)
    return begun, released


def test_others_are_answered_while_the_files_are_made(
    held: tuple[threading.Event, threading.Event],
) -> None:
    begun, released = held
    with Broker() as broker:
        node = broker.node

        async def create() -> None:
            large = asyncio.create_task(create_topic(node, "large", MANY_PARTITIONS))
            await until(begun.is_set)
            await create_topic(node, "small", 1)
            assert "large" not in node.metadata.image.topics_by_name
            assert not large.done()
            released.set()
            await large
            assert all(
                node.replicas.find("large", number).log is not None for number in range(MANY_PARTITIONS)
            )

        broker.run(create())


def test_of_two_with_the_same_name_one_is_there_and_nothing_is_left_of_the_other(
    held: tuple[threading.Event, threading.Event],
) -> None:
    begun, released = held
    with Broker() as broker:
        node = broker.node

        async def create() -> list[BaseException | None]:
            both = [asyncio.create_task(create_topic(node, "large", MANY_PARTITIONS + n)) for n in range(2)]
            await until(begun.is_set)
            released.set()
            return await asyncio.gather(*both, return_exceptions=True)

        outcomes = broker.run(create())
        (refused,) = [outcome for outcome in outcomes if outcome is not None]
        assert isinstance(refused, KafkaError)
        assert refused.code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert node.replicas.find("large", 0).log is not None

        async def discard() -> list[str]:
            node.logs.step(1 << 62)
            (directory,) = node.logs.directories
            return node._files.list_directory(directory.path)

        names = broker.run(discard())
        assert not [name for name in names if name.endswith("-delete")]
        count = len(node.metadata.image.topics_by_name["large"].partitions)
        assert str(TopicPartition("large", count - 1)) in names
        assert str(TopicPartition("large", count)) not in names


@pytest.mark.parametrize("partitions", [1, 3, MANY_PARTITIONS])
def test_a_topic_whose_files_cannot_be_made(partitions: int) -> None:
    with Broker() as broker:
        assert broker._memory is not None
        faults = broker._memory[0].faults

        def refuse(name: str, path: str) -> None:
            if name == "create" and f"large-{partitions - 1}" in path:
                raise OSError(errno.ENFILE, "Too many open files in system", path)

        faults.on_operation = refuse
        with pytest.raises(KafkaError, match=r"The topic was not created: .*Too many open files") as caught:
            broker.create_topic("large", partitions)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.topics() == []
        faults.on_operation = None
        broker.create_topic("large", partitions)
        assert broker.produce("large", "v", partition=partitions - 1) == 0


def test_a_topic_that_is_made_again_does_not_keep_the_loop_waiting_for_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What checkpoints say of the old partitions goes first, and off the loop."""
    threads: list[int] = []
    write = LogDirectory.write_checkpoint

    def noted(directory: LogDirectory, *arguments: Any) -> None:
        threads.append(threading.get_ident())
        write(directory, *arguments)

    with Broker() as broker:
        node = broker.node

        async def play() -> int:
            await create_topic(node, "again", 2)
            await node.upkeep.write_checkpoints()
            image = node.metadata.image
            await node.metadata.submit(lambda _: [TopicDeleted(image.topics_by_name["again"].topic_id)])
            monkeypatch.setattr(LogDirectory, "write_checkpoint", noted)
            await create_topic(node, "again", 2)
            return threading.get_ident()

        loop_thread = broker.run(play())
        (directory,) = node.logs.online
        assert not directory.has_checkpointed(TopicPartition("again", 0))
    assert threads
    assert loop_thread not in threads[:2]


def test_no_directory_is_made_or_renamed_on_the_loop() -> None:
    """A disk whose journal is busy takes most of a second for a new file, and clients do not wait for it."""
    with Broker() as broker:
        assert broker._memory is not None
        loop_thread = broker.run(_thread())
        on_loop: list[tuple[str, str]] = []
        made: list[str] = []

        def note(name: str, path: str) -> None:
            if name in ("make_directory", "create", "rename", "write_atomically"):
                made.append(name)
                if threading.get_ident() == loop_thread:
                    on_loop.append((name, path))

        broker.create_topic("before")
        broker._memory[0].faults.on_operation = note
        for _ in range(2):
            broker.create_topic("orders", 3)
            broker.produce("orders", "v")
            delete(broker, "orders")
        assert made.count("make_directory") == 6
        assert made.count("rename") == 6
    assert on_loop == []


def test_a_race_of_automatic_creations_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as broker:
        services = broker.node.services

        async def race() -> list[bool]:
            return await asyncio.gather(*(create_automatically(services, "wanted") for _ in range(3)))

        assert broker.run(race()) == [True] * 3
        assert broker.topics() == ["wanted"]
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_a_topic_does_not_wait_until_the_disk_has_taken_what_clients_wrote() -> None:
    with Broker() as broker:
        assert broker._memory is not None
        flushed, flushing = threading.Event(), threading.Semaphore(0)

        def slow_flush(name: str, path: str) -> None:
            if name == "flush":
                flushing.release()
                flushed.wait(60)

        names = [f"busy-{number}" for number in range(4)]
        for name in names:
            broker.create_topic(name)
            broker.produce(name, "v")
        broker._memory[0].faults.on_operation = slow_flush
        try:
            broker.run(_flush(broker, names))
            for _ in names:
                assert flushing.acquire(timeout=60)
            broker.create_topic("new")
            broker.produce("new", "v")
            delete(broker, "new")
        finally:
            flushed.set()


def test_a_broker_that_stops_while_it_makes_a_topic_has_it_after_the_next_start() -> None:
    with Broker() as broker:
        assert broker._memory is not None
        making, go_on = threading.Event(), threading.Event()

        def slow(name: str, path: str) -> None:
            if name == "make_directory" and path.endswith("slow-0"):
                making.set()
                go_on.wait(60)

        close_metadata = broker.node.metadata.close

        async def close() -> None:
            await close_metadata()
            go_on.set()

        broker._memory[0].faults.on_operation = slow

        async def leave() -> None:
            """As a broker does that is not the controller."""

        broker.node.metadata.close = close  # type: ignore[method-assign]
        broker.node._leave = leave  # type: ignore[method-assign]
        creating = threading.Thread(target=_try_to_create, args=(broker, "slow"))
        creating.start()
        assert making.wait(60)
        broker.stop()
        creating.join()
        broker._memory[0].faults.on_operation = None
        broker.start()
        broker.produce("slow", "v")
        assert [record.value for record in broker.records("slow")] == [b"v"]


def _try_to_create(broker: Broker, name: str) -> None:
    with suppress(Exception):
        broker.create_topic(name)


async def _flush(broker: Broker, names: list[str]) -> None:
    for name in names:
        broker.node.replicas.flush(broker.node.replicas.find(name, 0))


async def _thread() -> int:
    return threading.get_ident()


def delete(broker: Broker, name: str) -> None:
    metadata = broker.node.metadata
    topic_id = metadata.image.topics_by_name[name].topic_id
    broker.run(metadata.submit(lambda image: [TopicDeleted(topic_id)]))
