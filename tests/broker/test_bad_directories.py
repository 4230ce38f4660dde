"""Several data directories of which one dies, or is not there at the start: its partitions are offline, the
others serve, and nothing that was lost from sight is taken for empty.
"""

import errno
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.coordinators.runtime import partition_of
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from moldau.storage.memory_files import MemoryFiles
from moldau.testing import Broker, Cluster
from tests.contract.batches import batch
from tests.contract.scene import produce_request
from tests.contract.wire import Wire
from tests.shared.waiting import wait_until

NOW = 1_700_000_000_000
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
#: What a client takes for: ask again, maybe elsewhere.
TRY_AGAIN = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


def broken(name: str, path: str) -> None:
    """Everything that is written below /b fails."""
    if path.startswith("/b"):
        raise OSError(errno.EIO, "Input/output error", path)


class Scene:
    """A broker with two directories, and a topic with a partition in each."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        broker.create_topic("t", partitions=2)
        self.wire = Wire(broker.port)
        self.wire.ask(FindCoordinatorRequest(key="g", key_type=0), 3)  # makes the topic of the offsets
        self.in_dead = self.partition_in("/b", "t")

    @property
    def files(self) -> MemoryFiles:
        assert self.broker._memory is not None
        return self.broker._memory[0]

    def home_of(self, topic: str, partition: int) -> str:
        async def directory() -> str:
            log = self.broker.node.replicas.find(topic, partition).log
            return "" if log is None else log.directory[:2]

        return self.broker.run(directory())

    def partition_in(self, directory: str, topic: str) -> int:
        return next(number for number in range(50) if self.home_of(topic, number) == directory)

    def group_in(self, directory: str) -> str:
        """A group whose offsets are kept there."""
        names = (f"group-{number}" for number in range(1000))
        return next(
            name for name in names if self.home_of("__consumer_offsets", partition_of(name, 50)) == directory
        )

    def produce(self, partition: int) -> int:
        request = produce_request("t", batch(b"v", timestamp=NOW), partition=partition)
        return int(self.wire.ask(request, 9).responses[0].partition_responses[0].error_code)

    def fetch(self, partition: int) -> Any:
        asked = [FetchPartition(partition, fetch_offset=0, partition_max_bytes=1 << 20)]
        answer = self.wire.ask(FetchRequest(min_bytes=1, topics=[FetchTopic("t", partitions=asked)]), 12)
        return answer.responses[0].partitions[0]

    def commit(self, group: str) -> int:
        topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1, -1, "")])
        answer = self.wire.ask(OffsetCommitRequest(group_id=group, member_id="", topics=[topic]), 8)
        return int(answer.topics[0].partitions[0].error_code)

    def join(self, group: str) -> int:
        protocols = [JoinGroupRequestProtocol("range", b"")]
        request = JoinGroupRequest(group, 10_000, 10_000, "", None, "consumer", protocols)
        return int(self.wire.ask(request, 3).error_code)

    def committed(self, group: str) -> Any:
        topics = [OffsetFetchRequestTopic("t", [0])]
        return self.wire.ask(OffsetFetchRequest(group_id=group, topics=topics), 5)

    def directories(self) -> dict[str, int]:
        answer = self.wire.ask(DescribeLogDirsRequest(None), 4)
        return {result.log_dir: result.error_code for result in answer.results}

    def break_disk(self) -> None:
        self.files.faults.on_operation = broken

    def restart(self) -> None:
        self.wire.close()
        self.broker.stop()
        self.broker.start()
        self.wire = Wire(self.broker.port)


@pytest.fixture
def scene() -> Iterator[Scene]:
    with Broker({"log.dirs": "/a,/b", "group.initial.rebalance.delay.ms": 0}) as broker:
        made = Scene(broker)
        yield made
        made.wire.close()
        made.files.faults.on_operation = None


def test_a_disk_that_breaks(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    dead, alive = scene.in_dead, 1 - scene.in_dead
    assert [scene.produce(0), scene.produce(1)] == [0, 0]
    scene.break_disk()
    assert scene.produce(dead) == STORAGE_ERROR
    assert scene.produce(alive) == 0
    assert scene.produce(dead) == STORAGE_ERROR
    assert scene.fetch(alive).high_watermark == 2
    assert scene.directories() == {"/a": 0, "/b": STORAGE_ERROR}
    assert "data directory /b is offline" in caplog.text
    assert "'moldau log repair /b --dry-run'" in caplog.text
    scene.broker.create_topic("new", partitions=4)
    assert {scene.home_of("new", number) for number in range(4)} == {"/a"}


def test_groups_of_a_disk_that_breaks(scene: Scene) -> None:
    dead, alive = scene.group_in("/b"), scene.group_in("/a")
    assert [scene.commit(dead), scene.commit(alive)] == [0, 0]
    scene.break_disk()
    for _ in range(2):
        assert scene.commit(dead) in TRY_AGAIN
    assert scene.committed(dead).topics[0].partitions[0].committed_offset == 1, "it is known, not forgotten"
    assert scene.commit(alive) == 0
    assert scene.join(alive) == 0


def test_a_disk_that_is_broken_at_the_start(scene: Scene) -> None:
    dead, alive = scene.in_dead, 1 - scene.in_dead
    groups = scene.group_in("/b"), scene.group_in("/a")
    assert [scene.produce(0), scene.produce(1)] == [0, 0]
    assert [scene.commit(group) for group in groups] == [0, 0]
    scene.break_disk()
    scene.restart()
    assert scene.produce(dead) == STORAGE_ERROR
    assert scene.fetch(dead).error_code == STORAGE_ERROR
    assert scene.produce(alive) == 0
    assert scene.commit(groups[0]) in TRY_AGAIN
    assert scene.join(groups[0]) in TRY_AGAIN
    assert scene.committed(groups[0]).error_code in TRY_AGAIN
    assert scene.commit(groups[1]) == 0
    scene.files.faults.on_operation = None
    scene.restart()
    assert scene.fetch(dead).high_watermark == 1, "it was there all the time"
    assert scene.produce(dead) == 0
    assert scene.committed(groups[0]).topics[0].partitions[0].committed_offset == 1


@pytest.mark.slow
def test_a_disk_that_is_not_mounted(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    dead = scene.in_dead
    assert scene.produce(dead) == 0
    scene.wire.close()
    scene.broker.stop()
    scene.files.rename("/b", "/elsewhere")
    scene.broker.start()
    scene.wire = Wire(scene.broker.port)
    assert scene.produce(dead) == STORAGE_ERROR
    assert scene.directories()["/b"] == STORAGE_ERROR
    assert "is its disk mounted" in caplog.text
    scene.wire.close()
    scene.broker.stop()
    scene.files.remove_tree("/b")
    scene.files.rename("/elsewhere", "/b")
    scene.broker.start()
    scene.wire = Wire(scene.broker.port)
    assert scene.fetch(dead).high_watermark == 1


def test_rot_takes_one_partition_only(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """A damaged segment below the recovery point: named with position and offset, and left as it is."""
    assert [scene.produce(0), scene.produce(1), scene.produce(scene.in_dead)] == [0, 0, 0]
    scene.wire.close()
    scene.broker.stop()
    path = f"/b/t-{scene.in_dead}/{0:020d}.log"
    content = scene.files.read_whole(path)
    scene.files.open(path).truncate(len(content) - 1)
    scene.broker.start()
    scene.wire = Wire(scene.broker.port)
    assert scene.produce(scene.in_dead) == STORAGE_ERROR
    assert scene.produce(1 - scene.in_dead) == 0
    assert path in caplog.text
    assert "position" in caplog.text
    assert f"moldau log verify /b/t-{scene.in_dead}" in caplog.text
    assert scene.files.read_whole(path) == content[:-1]


def test_others_lead_what_is_on_a_disk_that_breaks() -> None:
    """The broker stays in the cluster, and in sync with what it has on its other disk."""
    settings: dict[str, str | int] = {
        "log.dirs": "/a,/b",
        "default.replication.factor": 2,
        "offsets.topic.num.partitions": 1,
    }
    with Cluster(2, settings) as cluster:
        cluster[1].create_topic("t", partitions=4)

        last = TopicPartition("t", 3)

        def in_sync() -> list[set[int]]:
            return [set(each.isr) for each in cluster.image.topics_by_name["t"].partitions]

        wait_until(lambda: all(broker.node.replicas.get(last) for broker in cluster.brokers.values()))
        # The second partition of each broker is on its second disk, and so is the fourth.
        victim = cluster.leader("t", 1)
        other = 3 - victim
        memory = cluster[victim]._memory
        assert memory is not None
        memory[0].faults.on_operation = broken
        with pytest.raises(KafkaError):
            cluster[victim].produce("t", "lost", partition=1)
        wait_until(lambda: in_sync() == [{1, 2}, {other}, {1, 2}, {other}], in_sync)
        assert (cluster.leader("t", 1), cluster.leader("t", 3)) == (other, other)
        wait_until(lambda: cluster[other].node.replicas.find("t", 1).leading is not None)
        assert cluster[other].produce("t", "kept", partition=1) == 0
        memory[0].faults.on_operation = None
