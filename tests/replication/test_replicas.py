"""The replicas of a node: found by name and id, and kept as the cluster's image says."""

import asyncio
import errno
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.base.tasks import Background
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.records import FeatureLevel, PartitionChanged, TopicCreated, TopicDeleted
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import Record, encode_batch
from moldau.replication.replicas import Replicas
from moldau.storage.directory.logs import Logs
from moldau.storage.files import MemoryFiles
from moldau.storage.log.log import LogConfig
from moldau.testing import Broker
from tests.shared.waiting import turns, until

NODE_ID, ELSEWHERE = 1, 2
ORDERS = bytes(15) + b"\x01"
NOW = 1_700_000_000_000


class OnTheSpot(Executor):
    """Runs work at once, and remembers how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> "Future[Any]":
        self.calls += 1
        future: Future[Any] = Future()
        future.set_result(work(*arguments, **named))
        return future


class Node:
    def __init__(self, values: Mapping[str, Any]) -> None:
        clock = SteppedClock(frozen=True, start_ms=NOW)
        self.files = MemoryFiles()
        self.logs = Logs(self.files, ["/data"], NODE_ID, None, clock, config_of=lambda topic: LogConfig())
        self.logs.open()
        self.executor = OnTheSpot()
        self.image = EMPTY_IMAGE
        self.replicas = Replicas(NODE_ID, self.logs, self.executor, Background(), lambda image, topic: values)

    def change(self, *records: Any) -> ClusterImage:
        old, self.image = self.image, self.image.apply_all(records, version=self.image.version + 1)
        self.replicas.apply(old, self.image)
        return self.image


def partition(index: int, *replicas: int, leader: int = NODE_ID, leader_epoch: int = 0) -> PartitionChanged:
    return PartitionChanged(ORDERS, index, replicas, replicas, leader, leader_epoch, leader_epoch)


@pytest.fixture(scope="module")
def values() -> Mapping[str, Any]:
    """The configs of a topic for which nothing is set."""
    with Broker() as broker:
        node = broker.node
        return dict(node._topic_values(node.metadata.image, "orders"))


@pytest.fixture
def node(values: Mapping[str, Any]) -> Node:
    return Node(values)


def refusal(ask: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        ask()
    return caught.value.code


def test_a_topic_is_found_by_name_and_by_id(node: Node) -> None:
    node.change(TopicCreated(ORDERS, "orders"), partition(0, NODE_ID), partition(1, ELSEWHERE))
    found = node.replicas.find("orders", 0)
    assert node.replicas.find_by_id(ORDERS, 0) is found
    assert (found.leader, found.leader_epoch, found.log is not None) == (NODE_ID, 0, True)
    assert [each.topic_partition.partition for each in node.replicas] == [0]
    assert refusal(lambda: node.replicas.find("orders", 1)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refusal(lambda: node.replicas.find("orders", 2)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(lambda: node.replicas.find("orders", -1)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(lambda: node.replicas.find("other", 0)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(lambda: node.replicas.find_by_id(bytes(16), 0)) == ErrorCode.UNKNOWN_TOPIC_ID


def test_more_partitions(node: Node) -> None:
    node.change(TopicCreated(ORDERS, "orders"), partition(0, NODE_ID))
    first = node.replicas.find("orders", 0)
    node.change(partition(1, NODE_ID))
    assert node.replicas.find("orders", 0) is first
    assert node.replicas.find("orders", 1).log is not None


def test_another_leader(node: Node) -> None:
    node.change(TopicCreated(ORDERS, "orders"), partition(0, NODE_ID, ELSEWHERE))
    node.change(partition(0, NODE_ID, ELSEWHERE, leader=ELSEWHERE, leader_epoch=1))
    found = node.replicas.find("orders", 0)
    assert (found.leader, found.leader_epoch) == (ELSEWHERE, 1)
    assert refusal(found.leading_log) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_smaller_isr_commits_only_what_the_configs_of_its_moment_allow() -> None:
    """Both came at once: what is committed with one replica would not be on those that may be elected."""
    values: dict[str, Any] = {"min.insync.replicas": 1, "moldau.mirror.state": "none"}
    node = Node(values)
    node.change(TopicCreated(ORDERS, "orders"), partition(0, NODE_ID, ELSEWHERE))
    found = node.replicas.find("orders", 0)
    batch = encode_batch([Record(0, NOW, b"k", b"v")])
    found.append(memoryview(bytearray(batch)), 1, NOW, 13)
    values["min.insync.replicas"] = 2
    node.change(PartitionChanged(ORDERS, 0, (NODE_ID, ELSEWHERE), (NODE_ID,), NODE_ID, 0, 1))
    assert found.high_watermark == 0
    values["min.insync.replicas"] = 1
    node.change(PartitionChanged(ORDERS, 0, (NODE_ID, ELSEWHERE), (NODE_ID,), NODE_ID, 0, 2))
    assert found.high_watermark == 1


def test_a_deleted_topic_lets_go_of_its_logs_and_wakes_who_waits(node: Node) -> None:
    async def play() -> None:
        node.change(TopicCreated(ORDERS, "orders"), partition(0, NODE_ID))
        found, heard = node.replicas.find("orders", 0), []
        found.commit_listeners[node] = lambda: heard.append(found.leader)
        node.change(TopicDeleted(ORDERS))
        assert heard == [], "not in the middle of the change"
        await turns()
        assert (heard, found.log) == ([-1], None)

    asyncio.run(play())
    assert refusal(lambda: node.replicas.find("orders", 0)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.logs.get(TopicPartition("orders", 0)) is None


def test_what_was_deleted_while_the_broker_was_away_is_set_aside(node: Node) -> None:
    """Nobody deletes data because the metadata do not name it; but it is no partition any more."""
    places = [TopicPartition("orders", each) for each in range(3)]
    for place in places:
        node.logs.open_partition(place, ORDERS, LogConfig())
    gone = bytes(15) + b"\x07"
    node.logs.open_partition(TopicPartition("gone", 0), gone, LogConfig())
    node.change(TopicCreated(ORDERS, "orders"), partition(0, NODE_ID), partition(1, ELSEWHERE))
    assert [log.topic_partition for log in node.logs] == places[:1]
    left = {name.rpartition(".")[0] for name in node.files.list_directory("/data") if name.endswith("-stray")}
    assert left == {"orders-1", "orders-2", "gone-0"}
    node.change(partition(1, NODE_ID))
    assert node.replicas.find("orders", 1).leading_log().log_end_offset == 0


def test_a_deleted_partition_is_forgotten_off_the_loop(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the same name that comes later does not wait for the device, on whichever broker."""

    async def play() -> None:
        node.change(TopicCreated(ORDERS, "orders"), partition(0, NODE_ID, ELSEWHERE, leader=ELSEWHERE))
        node.logs.checkpoint({})
        (directory,) = node.logs.directories
        place = TopicPartition("orders", 0)
        assert directory.has_checkpointed(place)
        node.change(TopicDeleted(ORDERS))
        await until(lambda: not directory.has_checkpointed(place))
        assert node.executor.calls == 1
        written: list[object] = []
        monkeypatch.setattr(directory, "write_checkpoint", lambda *arguments: written.append(arguments))
        again = bytes(15) + b"\x02"
        node.change(
            TopicCreated(again, "orders"),
            PartitionChanged(again, 0, (NODE_ID, ELSEWHERE), (ELSEWHERE,), ELSEWHERE, 0, 0),
        )
        assert node.replicas.find("orders", 0).log is not None
        assert written == []

    asyncio.run(play())


def test_listeners_are_called_once_for_all_that_was_appended_together(node: Node) -> None:
    batch = encode_batch([Record(0, NOW, b"k", b"v")])

    async def play() -> None:
        node.change(TopicCreated(ORDERS, "orders"), partition(0, NODE_ID))
        found, heard = node.replicas.find("orders", 0), []
        found.commit_listeners[node] = lambda: heard.append(found.high_watermark)
        for _ in range(3):
            found.append(memoryview(bytearray(batch)), 1, NOW, 13)
        assert heard == []
        await turns()
        assert heard == [3]
        found.append(memoryview(bytearray(batch)), 1, NOW, 13)
        await turns()
        assert heard == [3, 4]

    asyncio.run(play())
    assert node.replicas.high_watermarks() == {TopicPartition("orders", 0): 4}


def test_requests_that_wait_together_share_one_sync(node: Node) -> None:
    async def play() -> None:
        node.change(TopicCreated(ORDERS, "orders"), partition(0, NODE_ID))
        found = node.replicas.find("orders", 0)
        found.append(memoryview(bytearray(encode_batch([Record(0, NOW, b"k", b"v")]))), 1, NOW, 13)
        await asyncio.gather(*(node.replicas.flush(found) for _ in range(5)))
        assert found.leading_log().recovery_point == 1

    asyncio.run(play())
    assert node.executor.calls == 1


def test_who_waits_behind_a_sync_that_failed_is_not_told_that_all_is_well(values: Mapping[str, Any]) -> None:
    """The disk is out of use by then, and nobody syncs what came last."""
    node, batch = Node(values), encode_batch([Record(0, NOW, b"k", b"v")])

    async def play() -> list[Any]:
        node.change(TopicCreated(ORDERS, "orders"), partition(0, NODE_ID))
        found = node.replicas.find("orders", 0)
        found.append(memoryview(bytearray(batch)), 1, NOW, 13)
        node.files.faults.flush_fails = True
        first = node.replicas.flush(found)
        await asyncio.sleep(0)  # it has begun
        found.append(memoryview(bytearray(batch)), 1, NOW, 13)
        return await asyncio.gather(first, node.replicas.flush(found), return_exceptions=True)

    outcomes = asyncio.run(play())
    assert [each.code for each in outcomes] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


def test_a_sync_that_cannot_begin_keeps_nobody_waiting(node: Node) -> None:
    async def play() -> None:
        node.change(TopicCreated(ORDERS, "orders"), partition(0, NODE_ID))
        found = node.replicas.find("orders", 0)
        found.append(memoryview(bytearray(encode_batch([Record(0, NOW, b"k", b"v")]))), 1, NOW, 13)
        log = found.leading_log()
        log.roll(NOW)
        (sealed, _) = log.segments
        sealed.unload()
        node.files.remove(sealed.info().path)
        for _ in range(2):
            with pytest.raises(KafkaError, match="flush failed"):
                await asyncio.wait_for(node.replicas.flush(found), 10)

    asyncio.run(play())


def test_what_is_on_the_disk_already_needs_no_sync(node: Node) -> None:
    async def play() -> None:
        node.change(TopicCreated(ORDERS, "orders"), partition(0, NODE_ID))
        found = node.replicas.find("orders", 0)
        found.append(memoryview(bytearray(encode_batch([Record(0, NOW, b"k", b"v")]))), 1, NOW, 13)
        for _ in range(2):
            await node.replicas.flush(found)

    asyncio.run(play())
    assert node.executor.calls == 1


class TestLostReplicas:
    """A replica that cannot be used begins anew where others have all of it."""

    @pytest.mark.parametrize(
        ("isr", "elr", "leader", "anew"),
        [
            ((2,), (), 2, True),
            ((2, 1), (), 2, False),
            ((2,), (1,), 2, False),
            ((), (), -1, False),
            ((1,), (), 1, False),
        ],
    )
    def test_only_where_nobody_counts_on_it(
        self, isr: tuple[int, ...], elr: tuple[int, ...], leader: int, anew: bool
    ) -> None:
        node = Node({"min.insync.replicas": 1, "moldau.mirror.state": "none"})
        place = TopicPartition("orders", 0)
        node.logs.open_partition(place, ORDERS, LogConfig())
        node.logs.failed[place] = "it is damaged"
        node.change(
            TopicCreated(ORDERS, "orders"), PartitionChanged(ORDERS, 0, (1, 2), isr, leader, 0, 0, elr=elr)
        )
        found = node.replicas.find("orders", 0)
        assert (found.log is not None) is anew
        if not anew:
            assert found.offline_reason == "it is damaged"
            node.change(PartitionChanged(ORDERS, 0, (1, 2), (2,), 2, 1, 1))
            assert found.log is not None


class TestDirectoriesThatAreMadeBefore:
    """What is done off the loop before and after ``apply``, and what else may happen meanwhile."""

    @pytest.fixture(autouse=True)
    def running(self, node: Node) -> None:
        """Until it has seen the metadata once, everything was there before the start."""
        node.change(FeatureLevel("f", 1))

    def follow(self, node: Node, *records: Any, meanwhile: Callable[[], None] = lambda: None) -> None:
        async def play() -> None:
            old, new = node.image, node.image.apply_all(records, version=node.image.version + 1)
            work = node.replicas.make_ready(old, new)
            if work is not None:
                await work
            meanwhile()
            node.image = new
            node.replicas.apply(old, new)
            work = node.replicas.clear_up()
            if work is not None:
                await work

        asyncio.run(play())

    def test_the_session_is_lost_meanwhile(self, node: Node) -> None:
        self.follow(
            node, TopicCreated(ORDERS, "orders"), partition(0, NODE_ID), meanwhile=node.replicas.suspend
        )
        found = node.replicas.find("orders", 0)
        assert (found.leader, found.leading, found.log is not None) == (-1, None, True)
        node.replicas.resume(node.image)
        assert found.leader == NODE_ID

    def test_the_session_is_back_before_the_change_is_applied(self, node: Node) -> None:
        """It leads again what it led; what is being made comes with its change."""
        node.change(TopicCreated(ORDERS, "orders"), partition(0, NODE_ID))
        node.replicas.suspend()
        before = node.image
        self.follow(node, partition(1, NODE_ID), meanwhile=lambda: node.replicas.resume(before))
        assert [node.replicas.find("orders", index).leader for index in (0, 1)] == [NODE_ID, NODE_ID]
        log = node.replicas.find("orders", 1).log
        assert log is not None
        assert log.directory == "/data/orders-1"

    def test_a_topic_is_deleted_and_made_again_in_one_change(self, node: Node) -> None:
        again = bytes(15) + b"\x02"
        self.follow(node, TopicCreated(ORDERS, "orders"), partition(0, NODE_ID))
        log = node.replicas.find("orders", 0).log
        assert log is not None
        log.append(encode_batch([Record(0, NOW, None, b"old", [])]), 0, NOW)
        self.follow(
            node,
            TopicDeleted(ORDERS),
            TopicCreated(again, "orders"),
            partition(0, NODE_ID)._replace(topic_id=again),
        )
        new = node.replicas.find("orders", 0).log
        assert new is not None
        assert (new.log_end_offset, new.topic_id) == (0, again)
        assert len([name for name in node.files.list_directory("/data") if name.endswith("-delete")]) == 1
        self.follow(node, TopicDeleted(again))
        assert not node.files.exists("/data/orders-0")

    def test_a_replica_goes_and_comes_back(self, node: Node) -> None:
        self.follow(node, TopicCreated(ORDERS, "orders"), partition(0, NODE_ID))
        log = node.replicas.find("orders", 0).log
        assert log is not None
        log.append(encode_batch([Record(0, NOW, None, b"old", [])]), 0, NOW)
        self.follow(node, partition(0, ELSEWHERE, leader=ELSEWHERE, leader_epoch=1))
        assert not node.files.exists("/data/orders-0")
        self.follow(node, partition(0, ELSEWHERE, NODE_ID, leader=ELSEWHERE, leader_epoch=2))
        back = node.replicas.find("orders", 0).log
        assert back is not None
        assert back.log_end_offset == 0

    def test_a_replica_that_a_full_disk_did_not_take_comes_once_there_is_room(self, node: Node) -> None:
        def is_full(name: str, path: str) -> None:
            if path.startswith("/data/orders"):
                raise OSError(errno.ENOSPC, "No space left on device", path)

        node.files.faults.on_operation = is_full
        self.follow(node, TopicCreated(ORDERS, "orders"), partition(0, NODE_ID, ELSEWHERE))
        found = node.replicas.find("orders", 0)
        assert found.log is None
        assert "No space left" in found.offline_reason
        node.files.faults.on_operation = None
        node.replicas.begin_missing(node.image)
        assert found.log is None, "it is in sync, as far as others know"
        others = PartitionChanged(ORDERS, 0, (NODE_ID, ELSEWHERE), (ELSEWHERE,), ELSEWHERE, 1, 1)
        node.files.faults.on_operation = is_full
        self.follow(node, others)
        node.replicas.begin_missing(node.image)
        assert found.log is None
        node.files.faults.on_operation = None
        node.replicas.begin_missing(node.image)
        assert found.log is not None
        assert found.leader == ELSEWHERE
