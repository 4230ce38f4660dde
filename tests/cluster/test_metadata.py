"""One writer of the image: grouping, order, other brokers, and a store that fails."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import pytest

from moldau.cluster.controller.commands import ControllerResult
from moldau.cluster.image import ClusterImage
from moldau.cluster.metadata import Metadata
from moldau.cluster.records import (
    BrokerFenced,
    FeatureLevel,
    PartitionChanged,
    Record,
    TopicCreated,
    TopicDeleted,
)
from moldau.cluster.store.contract import Changes, MetadataStoreError, StaleVersion
from moldau.cluster.store.memory import MemoryLog, MemoryStore
from moldau.protocol.errors import ErrorCode, KafkaError
from tests.shared.waiting import turns


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 30))


def feature(name: str, level: int = 1) -> Callable[[ClusterImage], list[Record]]:
    return lambda image: [FeatureLevel(name, level)]


class Store(MemoryStore):
    """Counts appends; a gate can hold one back, and failures can be queued."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self.log = MemoryLog() if log is None else log
        super().__init__(self.log)
        self.appends: list[int] = []
        self.gate: asyncio.Event | None = None
        self.reached = asyncio.Event()
        self.failures: list[Exception] = []
        self.failures_after: list[Exception] = []
        self.load_failures: list[Exception] = []

    async def load(self, after_version: int = 0) -> Changes:
        if self.load_failures:
            raise self.load_failures.pop(0)
        return await super().load(after_version)

    async def append(self, records: Sequence[Record], expected_version: int, controller_epoch: int) -> int:
        self.reached.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        version = await super().append(records, expected_version, controller_epoch)
        self.appends.append(len(records))
        if self.failures_after:
            raise self.failures_after.pop(0)
        return version


async def opened(store: Store) -> Metadata:
    metadata = Metadata(store)
    await metadata.open()
    # Two that act as the same controller may get in each other's way only by the version of the log.
    if not store.log.controller_epoch:
        await store.campaign(1, lambda: None)
    metadata.controller_epoch = store.log.controller_epoch
    return metadata


def test_a_command_is_decided_stored_and_applied() -> None:
    async def scenario() -> None:
        metadata = await opened(Store())
        image = await metadata.submit(feature("f", 3))
        assert image is metadata.image
        assert (image.features, image.version) == ({"f": 3}, 1)

    run(scenario)


def test_commands_that_come_together_share_an_append() -> None:
    async def scenario() -> None:
        store = Store()
        metadata = await opened(store)
        seen: list[int] = []

        def count(image: ClusterImage) -> list[Record]:
            seen.append(len(image.features))
            return [FeatureLevel(f"f{len(image.features)}", 1)]

        await asyncio.gather(*(metadata.submit(count) for _ in range(100)))
        assert seen == list(range(100))
        assert store.appends == [100]
        assert metadata.image.version == 1

    run(scenario)


def test_commands_that_come_during_an_append_share_the_next() -> None:
    async def scenario() -> None:
        store = Store()
        metadata = await opened(store)
        store.gate = asyncio.Event()
        first = asyncio.ensure_future(metadata.submit(feature("first")))
        await store.reached.wait()
        rest = [asyncio.ensure_future(metadata.submit(feature(f"f{i}"))) for i in range(10)]
        assert metadata.image.features == {}
        store.gate.set()
        await asyncio.gather(first, *rest)
        assert store.appends == [1, 10]

    run(scenario)


def test_a_very_large_group_is_cut() -> None:
    async def scenario() -> None:
        store = Store()
        metadata = await opened(store)
        many = [FeatureLevel(f"f{i}", 1) for i in range(6_000)]
        await asyncio.gather(*(metadata.submit(lambda image: many) for _ in range(3)))
        assert store.appends == [12_000, 6_000]

    run(scenario)


def test_a_topic_does_not_come_in_the_append_in_which_one_of_its_name_goes() -> None:
    first, second, third = (bytes([number] * 16) for number in (1, 2, 3))

    async def scenario() -> None:
        store = Store()
        metadata = await opened(store)
        await metadata.submit(lambda image: [TopicCreated(first, "orders"), FeatureLevel("f", 1)])
        await asyncio.gather(
            metadata.submit(lambda image: [TopicDeleted(first)]),
            metadata.submit(lambda image: [TopicCreated(second, "paid")]),
            metadata.submit(lambda image: [TopicCreated(third, "orders")]),
            metadata.submit(feature("f", 2)),
        )
        assert store.appends == [2, 2, 2]
        assert set(metadata.image.topics_by_id) == {second, third}
        # One command may do both.
        await metadata.submit(lambda image: [TopicDeleted(third), TopicCreated(first, "orders")])
        assert set(metadata.image.topics_by_id) == {first, second}

    run(scenario)


def test_an_error_belongs_to_the_one_who_asked() -> None:
    async def scenario() -> None:
        store = Store()
        metadata = await opened(store)

        def refuse(image: ClusterImage) -> list[Record]:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{len(image.features)}")

        def mistake(image: ClusterImage) -> list[Record]:
            raise ZeroDivisionError

        results = await asyncio.gather(
            metadata.submit(feature("a")),
            metadata.submit(refuse),
            metadata.submit(mistake),
            metadata.submit(lambda image: [BrokerFenced(7)]),
            metadata.submit(feature("b")),
            return_exceptions=True,
        )
        assert str(results[1]) == "INVALID_REQUEST: 1"
        assert isinstance(results[2], ZeroDivisionError)
        assert "does not follow" in str(results[3])
        assert metadata.image.features == {"a": 1, "b": 1}
        assert store.appends == [2]

    run(scenario)


def test_nothing_to_change_costs_nothing() -> None:
    async def scenario() -> None:
        store = Store()
        metadata = await opened(store)
        assert await metadata.submit(lambda image: []) is metadata.image
        assert store.appends == []

    run(scenario)


def test_an_outcome_is_that_of_the_stored_decision() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        ours, others = Store(log), Store(log)
        metadata, other = await opened(ours), await opened(others)
        calls: list[int] = []

        def next_level(image: ClusterImage) -> ControllerResult[int]:
            level = image.features.get("n", 0) + 1
            calls.append(level)
            return ControllerResult((FeatureLevel("n", level),), level)

        results = await asyncio.gather(metadata.execute(next_level), other.execute(next_level))
        assert sorted(results) == [1, 2]
        assert sorted(calls) == [1, 1, 2]

    run(scenario)


def test_listeners_hear_every_change_in_order() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        ours, others = Store(log), Store(log)
        metadata, other = await opened(ours), await opened(others)
        received: list[tuple[int, int, Sequence[Record]]] = []
        arrived = asyncio.Event()

        def listen(old: ClusterImage, new: ClusterImage, records: Sequence[Record]) -> None:
            assert new is metadata.image
            received.append((old.version, new.version, records))
            if new.version == 3:
                arrived.set()

        metadata.on_change(listen)
        await metadata.submit(feature("a"))
        await other.submit(feature("b"))
        await metadata.submit(feature("c"))
        await arrived.wait()
        assert received == [
            (0, 1, [FeatureLevel("a", 1)]),
            (1, 2, [FeatureLevel("b", 1)]),
            (2, 3, [FeatureLevel("c", 1)]),
        ]

    run(scenario)


def test_what_others_do_during_an_append_comes_in_order() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        ours, others = Store(log), Store(log)
        metadata, other = await opened(ours), await opened(others)
        ours.gate = asyncio.Event()
        pending = asyncio.ensure_future(
            metadata.submit(lambda image: [FeatureLevel("n", len(image.features) + 1)])
        )
        await ours.reached.wait()
        await other.submit(feature("b"))
        await other.submit(feature("c"))
        ours.gate.set()
        await pending
        assert metadata.image.features == {"b": 1, "c": 1, "n": 3}
        assert metadata.image.version == 3

    run(scenario)


def test_a_broker_that_was_left_behind_gets_the_difference() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        ours, others = Store(log), Store(log)
        metadata, other = await opened(ours), await opened(others)
        topic, partition = TopicCreated(bytes(16), "t"), PartitionChanged(bytes(16), 0, (1,), (1,), 1, 0, 0)
        await metadata.submit(lambda image: [topic, partition])
        ours.gate = asyncio.Event()
        received: list[Record] = []
        metadata.on_change(lambda old, new, records: received.extend(records))
        pending = asyncio.ensure_future(metadata.submit(feature("ours")))
        await turns()
        await other.submit(lambda image: [TopicDeleted(bytes(16))])
        await other.submit(lambda image: [FeatureLevel("g", level + 1) for level in range(6_000)])
        assert log.snapshot_version == log.version
        ours.gate.set()
        await pending
        assert received == [TopicDeleted(bytes(16)), FeatureLevel("g", 6_000), FeatureLevel("ours", 1)]

    run(scenario)


def test_a_failed_store_is_told_to_the_client_and_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        store = Store()
        metadata = await opened(store)
        store.failures.append(MetadataStoreError("the disk is full"))
        results = await asyncio.gather(
            metadata.submit(feature("a")), metadata.submit(feature("b")), return_exceptions=True
        )
        assert [each.code for each in results if isinstance(each, KafkaError)] == [
            ErrorCode.KAFKA_STORAGE_ERROR
        ] * 2
        assert metadata.image.features == {}
        await metadata.submit(feature("c"))
        assert metadata.image.features == {"c": 1}

    with caplog.at_level(logging.ERROR):
        run(scenario)
    assert "the disk is full" in caplog.text


def test_an_append_that_failed_after_all_is_found_in_the_log() -> None:
    async def scenario() -> None:
        store = Store()
        metadata = await opened(store)
        store.failures_after.append(MetadataStoreError("the answer was lost"))
        with pytest.raises(KafkaError):
            await metadata.submit(feature("a"))
        await metadata.submit(feature("b"))
        assert metadata.image.features == {"a": 1, "b": 1}

    run(scenario)


def test_a_store_that_cannot_be_read_refuses_until_it_can() -> None:
    async def scenario() -> None:
        store = Store()
        metadata = await opened(store)
        store.failures.append(MetadataStoreError("down"))
        store.load_failures += [MetadataStoreError("still down")] * 2
        for _ in range(3):
            with pytest.raises(KafkaError):
                await metadata.submit(feature("a"))
        await metadata.submit(feature("a"))
        assert metadata.image.features == {"a": 1}

    run(scenario)


def test_a_deposed_controller_changes_nothing() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        ours, others = Store(log), Store(log)
        controllership = await ours.campaign(1, lambda: None)
        metadata = await opened(ours)
        await metadata.submit(feature("a"))
        await controllership.resign()
        await others.campaign(2, lambda: None)
        with pytest.raises(KafkaError) as error:
            await metadata.submit(feature("b"))
        assert error.value.code is ErrorCode.NOT_CONTROLLER
        assert log.version == 1

    run(scenario)


def test_who_is_not_the_controller_decides_nothing() -> None:
    async def scenario() -> None:
        store = Store()
        metadata = await opened(store)
        metadata.controller_epoch = None
        with pytest.raises(KafkaError) as error:
            await metadata.submit(feature("a"))
        assert error.value.code is ErrorCode.NOT_CONTROLLER
        assert (store.log.version, store.appends) == (0, [])

    run(scenario)


def test_a_refresh_has_every_change_that_was_answered_before() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        controller = await opened(Store(log))
        follower = Metadata(Store(log))
        await follower.open()
        await controller.submit(feature("a"))
        assert (await follower.refresh()).features == {"a": 1}
        failing = Store(log)
        other = Metadata(failing)
        await other.open()
        failing.load_failures.append(MetadataStoreError("the disk is gone"))
        with pytest.raises(KafkaError) as error:
            await other.refresh()
        assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert (await other.refresh()).features == {"a": 1}

    run(scenario)


def test_endless_rivals_end_in_a_retriable_error() -> None:
    async def scenario() -> None:
        store = Store()
        metadata = await opened(store)
        store.failures += [StaleVersion()] * 50
        with pytest.raises(KafkaError) as error:
            await metadata.submit(feature("a"))
        assert error.value.code is ErrorCode.REQUEST_TIMED_OUT
        await metadata.submit(feature("a"))

    run(scenario)


def test_a_cancelled_command_that_waits_is_not_run() -> None:
    async def scenario() -> None:
        store = Store()
        metadata = await opened(store)
        store.gate = asyncio.Event()
        first = asyncio.ensure_future(metadata.submit(feature("first")))
        await store.reached.wait()
        second = asyncio.ensure_future(metadata.submit(feature("second")))
        await turns()
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        store.gate.set()
        await first
        await metadata.submit(feature("third"))
        assert metadata.image.features == {"first": 1, "third": 1}

    run(scenario)


def test_close_refuses_what_is_not_stored() -> None:
    async def scenario() -> None:
        store = Store()
        metadata = await opened(store)
        store.gate = asyncio.Event()
        under_way: list[Awaitable[ClusterImage]] = [asyncio.ensure_future(metadata.submit(feature("a")))]
        await store.reached.wait()
        under_way.append(asyncio.ensure_future(metadata.submit(feature("b"))))
        await turns()
        await metadata.close()
        for result in await asyncio.gather(*under_way, return_exceptions=True):
            assert isinstance(result, KafkaError)
        with pytest.raises(KafkaError, match="stopping"):
            await metadata.submit(feature("c"))

    run(scenario)


class SkippingStore(Store):
    """Tells of the second append only."""

    def watch(self, listener: Callable[[Changes], None]) -> None:
        super().watch(lambda changes: listener(changes) if changes.after_version else None)


def test_a_gap_in_what_is_watched_is_filled() -> None:
    """No store should skip a version; if one does, the log itself is asked."""

    async def scenario() -> None:
        log = MemoryLog()
        metadata, other = await opened(SkippingStore(log)), await opened(Store(log))
        arrived = asyncio.Event()
        metadata.on_change(lambda old, new, records: arrived.set())
        await other.submit(feature("a"))
        await turns()
        assert metadata.image.version == 0
        await other.submit(feature("b"))
        await arrived.wait()
        assert metadata.image.features == {"a": 1, "b": 1}

    run(scenario)


def test_what_a_change_needs_of_the_disk_is_awaited_before_and_after_the_listeners() -> None:
    async def scenario() -> None:
        metadata = await opened(Store())
        events: list[str] = []
        gate, reached = asyncio.Event(), asyncio.Event()

        async def waiting(name: str) -> None:
            events.append(f"{name} begins")
            reached.set()
            await gate.wait()
            events.append(f"{name} ends")

        metadata.make_ready = lambda old, new: waiting(f"ready {new.version - old.version}")
        metadata.clear_up = lambda: waiting("clear")
        metadata.on_change(lambda old, new, records: events.append("listener"))
        first = asyncio.create_task(metadata.submit(feature("one")))
        await reached.wait()
        assert "one" not in str(metadata.image.features)
        second = asyncio.create_task(metadata.submit(feature("two")))
        await turns()
        assert events == ["ready 1 begins"], "one change after the other"
        gate.set()
        await asyncio.gather(first, second)
        one = ["ready 1 begins", "ready 1 ends", "listener", "clear begins", "clear ends"]
        assert events == one * 2

    run(scenario)


class Disk:
    """Makes every change wait, until it is told that it need not."""

    def __init__(self, metadata: Metadata) -> None:
        self.gate, self.reached = asyncio.Event(), asyncio.Event()
        metadata.make_ready = lambda old, new: self._wait()

    async def _wait(self) -> None:
        self.reached.set()
        await self.gate.wait()


def test_a_command_that_comes_while_another_brokers_change_is_made_ready_is_decided_after_it() -> None:
    async def scenario() -> None:
        store = Store()
        other, here = await opened(store), await opened(Store(store.log))
        disk = Disk(here)
        await other.submit(feature("other"))
        await disk.reached.wait()
        seen: list[ClusterImage] = []

        def decide(image: ClusterImage) -> list[Record]:
            seen.append(image)
            return [FeatureLevel("here", 1)]

        command = asyncio.create_task(here.submit(decide))
        await turns(10)
        assert [dict(image.features) for image in seen] == [{"other": 1}]
        assert (command.done(), dict(here.image.features)) == (False, {})
        disk.gate.set()
        await command
        assert dict(here.image.features) == {"other": 1, "here": 1}

    run(scenario)


def test_no_other_broker_waits_for_the_disk_of_the_controller() -> None:
    """The directories of a new topic take their time here; another broker is to lead something meanwhile."""

    async def scenario() -> None:
        log = MemoryLog()
        controller, other = await opened(Store(log)), await opened(Store(log))
        disk = Disk(controller)
        topic = asyncio.create_task(controller.submit(feature("a topic")))
        await disk.reached.wait()
        leader = asyncio.create_task(controller.submit(feature("a leader")))
        nothing = asyncio.create_task(controller.submit(lambda image: []))
        refreshed = asyncio.create_task(controller.refresh())
        await turns(10)
        assert dict(other.image.features) == {"a topic": 1, "a leader": 1}
        assert dict(controller.image.features) == {}
        assert not any(each.done() for each in (topic, leader, nothing, refreshed))
        disk.gate.set()
        images = await asyncio.gather(topic, leader, nothing, refreshed)
        assert [len(image.features) for image in images[:3]] == [1, 2, 2]

    run(scenario)


def test_who_needs_only_the_log_is_answered_before_the_disk() -> None:
    """A leader on another broker that asks for a smaller ISR has one request under way at a time."""

    async def scenario() -> None:
        metadata = await opened(Store())
        disk = Disk(metadata)
        topic = asyncio.create_task(metadata.submit(feature("a topic")))
        await disk.reached.wait()
        command = ControllerResult((FeatureLevel("isr", 1),), "smaller")
        assert await metadata.execute(lambda image: command, when_stored=True) == "smaller"
        assert (topic.done(), dict(metadata.image.features)) == (False, {})
        disk.gate.set()
        await topic
        assert dict((await metadata.submit(lambda image: [])).features) == {"a topic": 1, "isr": 1}

    run(scenario)


def test_a_change_that_needs_nothing_of_the_disk_is_applied_at_once() -> None:
    async def scenario() -> None:
        metadata = Metadata(Store())
        await metadata.open()
        heard: list[int] = []
        metadata.on_change(lambda old, new, records: heard.append(new.version))
        metadata._on_changes(Changes(0, 1, [FeatureLevel("a", 1)]))
        assert heard == [1]

    run(scenario)


@pytest.mark.parametrize("where", ["make_ready", "clear_up", "listener", "waiting"])
def test_what_fails_while_a_change_is_applied_stops_neither_the_others_nor_the_answer(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        log = MemoryLog()
        metadata, other = await opened(Store(log)), await opened(Store(log))
        failing = True

        def fail(*arguments: Any) -> None:
            if failing:
                raise RuntimeError("can't start new thread")

        async def fail_later() -> None:
            fail()

        if where == "make_ready":
            metadata.make_ready = fail
        elif where == "clear_up":
            metadata.clear_up = fail
        elif where == "listener":
            metadata.on_change(fail)
        else:
            metadata.make_ready = lambda old, new: fail_later()
        heard: list[int] = []
        metadata.on_change(lambda old, new, records: heard.append(new.version))
        await metadata.submit(feature("a"))
        await other.submit(feature("b"))
        await metadata.refresh()
        failing = False
        await metadata.submit(feature("c"))
        assert metadata.image.features == {"a": 1, "b": 1, "c": 1}
        assert heard == [1, 2, 3]

    run(scenario)
    assert "can't start new thread" in caplog.text


def test_commands_that_wait_behind_an_unexpected_failure_are_decided_all_the_same() -> None:
    async def scenario() -> None:
        store = Store()
        metadata = await opened(store)
        store.gate = asyncio.Event()
        store.failures.append(ZeroDivisionError())
        first = asyncio.create_task(metadata.submit(feature("first")))
        await store.reached.wait()
        second = asyncio.create_task(metadata.submit(feature("second")))
        await turns(10)
        store.gate.set()
        with pytest.raises(KafkaError) as refused:
            await first
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR, "not one that asks for another try"
        await second
        assert metadata.image.features == {"second": 1}

    run(scenario)


def test_a_controller_that_is_deposed_while_its_disk_is_busy() -> None:
    """What it has stored is answered, what it has not is refused, and what the next one does is applied."""

    async def scenario() -> None:
        log = MemoryLog()
        ours, others = Store(log), Store(log)
        controllership = await ours.campaign(1, lambda: None)
        metadata = await opened(ours)
        disk = Disk(metadata)
        stored = asyncio.create_task(metadata.submit(feature("stored")))
        await disk.reached.wait()
        await controllership.resign()
        next_one = await opened(others)
        next_one.controller_epoch = (await others.campaign(2, lambda: None)).epoch
        await next_one.submit(feature("next"))
        with pytest.raises(KafkaError) as refused:
            await metadata.submit(feature("late"))
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        assert metadata.controller_epoch is None
        disk.gate.set()
        assert dict((await stored).features) == {"stored": 1}
        await metadata.refresh()
        assert dict(metadata.image.features) == {"stored": 1, "next": 1}

    run(scenario)


def test_a_broker_that_is_left_behind_while_its_disk_is_busy() -> None:
    """A snapshot is compared with what the log had, not with what is applied."""

    async def scenario() -> None:
        metadata = Metadata(Store())
        await metadata.open()
        disk = Disk(metadata)
        heard: list[tuple[int, Sequence[Record]]] = []
        metadata.on_change(lambda old, new, records: heard.append((old.version, records)))
        topic, partition = TopicCreated(bytes(16), "t"), PartitionChanged(bytes(16), 0, (1,), (1,), 1, 0, 0)
        metadata._on_changes(Changes(0, 1, [topic, partition]))
        metadata._on_changes(Changes(1, 2, [FeatureLevel("f", 1)]))
        metadata._on_changes(Changes(0, 9, [FeatureLevel("g", 2)]))
        metadata._on_changes(Changes(9, 10, [FeatureLevel("h", 3)]))
        await disk.reached.wait()
        assert heard == []
        disk.gate.set()
        await turns(30)
        assert [old for old, _ in heard] == [0, 1, 2, 9]
        assert heard[0][1] == [topic, partition]
        assert TopicDeleted(bytes(16)) in heard[2][1]
        assert metadata.image.features == {"g": 2, "h": 3}
        assert not metadata.image.topics_by_id

    run(scenario)


def test_what_has_come_while_the_disk_was_busy_leaves_others_their_turns() -> None:
    async def scenario() -> None:
        metadata = Metadata(Store())
        await metadata.open()
        disk = Disk(metadata)
        loop = asyncio.get_running_loop()
        happened: list[object] = []

        def listen(old: ClusterImage, new: ClusterImage, records: Sequence[Record]) -> None:
            happened.append(new.version)
            loop.call_soon(happened.append, "another")

        metadata.on_change(listen)
        for version in range(3):
            metadata._on_changes(Changes(version, version + 1, [FeatureLevel("f", version + 1)]))
        await disk.reached.wait()
        metadata.make_ready = lambda old, new: None
        disk.gate.set()
        await turns(20)
        assert happened == [1, "another", 2, "another", 3, "another"]

    run(scenario)


def test_close_while_the_disk_is_busy() -> None:
    """What is stored is answered so: whoever heard of another controller would ask for it again."""

    async def scenario() -> None:
        log = MemoryLog()
        metadata, other = await opened(Store(log)), await opened(Store(log))
        disk = Disk(metadata)
        heard: list[int] = []
        metadata.on_change(lambda old, new, records: heard.append(new.version))
        under_way = [asyncio.create_task(metadata.submit(feature("a")))]
        await disk.reached.wait()
        under_way += [
            asyncio.create_task(each) for each in (metadata.submit(feature("b")), metadata.refresh())
        ]
        await turns(10)
        await metadata.close()
        images = await asyncio.gather(*under_way)
        assert [image.version for image in images] == [1, 2, 1]
        disk.gate.set()
        await other.refresh()
        await other.submit(feature("c"))
        await turns(10)
        assert (heard, metadata.image.version) == ([], 0)

    run(scenario)
