"""A coordinator over the partitions of its topic: which of them it loads, and how it is asked."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.broker.coordination.shards import Coordinator, InternalTopic
from moldau.broker.purgatory import Parked
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.records import PartitionChanged, TopicCreated, TopicDeleted
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication.partition import Partition

NODE_ID, ELSEWHERE = 1, 2
TOPIC_ID = bytes(15) + b"\x01"
TOPIC = InternalTopic("__offsets", "offsets.topic", {})


class FakeRuntime:
    """Writes down what it is asked to do; ``answer`` is what a request comes to."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.answer: asyncio.Future[Any] | None = None

    def load(self, partition: int, leader_epoch: int) -> None:
        self.done.append(("load", partition))

    def unload(self, partition: int) -> None:
        self.done.append(("unload", partition))

    def committed(self, partition: int) -> None:
        self.done.append(("committed", partition))

    def request(self, partition: int, decide: Any) -> "asyncio.Future[Any]":
        assert self.answer is not None
        return self.answer


class World:
    def __init__(self) -> None:
        self.runtime = FakeRuntime()
        self.partitions = [
            Partition(TopicPartition(TOPIC.name, index), TOPIC_ID, NODE_ID) for index in range(3)
        ]
        replicas = SimpleNamespace(find=lambda topic, index: self.partitions[index])
        self.coordinator: Coordinator[Any] = Coordinator(TOPIC, self.runtime, NODE_ID, replicas)  # type: ignore[arg-type]
        self.image = EMPTY_IMAGE

    def change(self, *records: Any) -> None:
        old, self.image = self.image, self.image.apply_all(records, version=self.image.version + 1)
        self.coordinator.follow(old, self.image)

    def led_by(self, *leaders: int) -> None:
        created = [] if self.image.topics_by_name else [TopicCreated(TOPIC_ID, TOPIC.name)]
        epoch = self.image.version
        self.change(
            *created,
            *(
                PartitionChanged(
                    TOPIC_ID, index, (NODE_ID, ELSEWHERE), (NODE_ID, ELSEWHERE), leader, epoch, epoch
                )
                for index, leader in enumerate(leaders)
            ),
        )


@pytest.fixture
def world() -> World:
    return World()


def code_of(ask: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        ask()
    return caught.value.code


def test_it_loads_what_this_node_leads(world: World) -> None:
    world.led_by(NODE_ID, ELSEWHERE, NODE_ID)
    assert world.runtime.done == [("load", 0), ("unload", 1), ("load", 2)]
    world.runtime.done.clear()
    world.led_by(ELSEWHERE, NODE_ID, NODE_ID)
    assert world.runtime.done == [("unload", 0), ("load", 1), ("load", 2)]


def test_it_lets_go_of_a_topic_that_is_deleted(world: World) -> None:
    world.led_by(NODE_ID, NODE_ID)
    world.runtime.done.clear()
    world.change(TopicDeleted(TOPIC_ID))
    assert world.runtime.done == [("unload", 0), ("unload", 1)]
    assert code_of(lambda: world.coordinator.partition_for("group")) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_it_keeps_nothing_of_a_topic_that_is_deleted_and_made_again_in_one_change(world: World) -> None:
    world.led_by(NODE_ID)
    world.runtime.done.clear()
    again = bytes(15) + b"\x02"
    created = TopicCreated(again, TOPIC.name), PartitionChanged(again, 0, (1,), (1,), NODE_ID, 0, 0)
    world.change(TopicDeleted(TOPIC_ID), *created)
    assert world.runtime.done == [("unload", 0), ("load", 0)]


def test_other_topics_are_none_of_its_business(world: World) -> None:
    other = bytes(15) + b"\x02"
    world.change(TopicCreated(other, "orders"), PartitionChanged(other, 0, (1,), (1,), 1, 0, 0))
    assert world.runtime.done == []


def test_a_commit_in_its_partition_reaches_it(world: World) -> None:
    world.led_by(NODE_ID, NODE_ID)
    world.led_by(NODE_ID, NODE_ID)
    world.runtime.done.clear()
    world.partitions[1].advance_high_watermark(5)
    assert world.runtime.done == [("committed", 1)], "once, however often the metadata changes"


def test_a_reply_is_there_at_once_or_waited_for(world: World) -> None:
    async def play() -> None:
        world.led_by(NODE_ID)
        world.runtime.answer = asyncio.get_running_loop().create_future()
        parked = world.coordinator.ask("group", None, lambda reply: reply.result() + 1)  # type: ignore[arg-type]
        assert isinstance(parked, Parked)
        assert parked.attempt(False) is None
        world.runtime.answer.set_result(1)
        assert parked.attempt(False) == 2
        assert world.coordinator.ask("group", None) == 1  # type: ignore[arg-type]

    asyncio.run(play())


def test_nobody_is_asked_before_there_is_a_topic(world: World) -> None:
    ask = world.coordinator.ask
    assert code_of(lambda: ask("group", None)) == ErrorCode.COORDINATOR_NOT_AVAILABLE  # type: ignore[arg-type]
    assert isinstance(world.image, ClusterImage)
