"""The partitions of the simulated broker: real logs in memory, with a delayed commit.

A coordinator's records are committed some time after they were appended, as if followers had to fetch them
first; what is not committed may be lost when the leader changes. Records of producers and markers are
committed as they are written, because the broker does not wait for followers there yet.

Invariant: the bytes, the bounds, the producers' state and who is notified of a commit are the real ones
(``storage.log``, ``Partition``); only the moment of the commit, refusals and losses are invented here.
"""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

from moldau.base.names import INTERNAL_TOPICS, TopicPartition, Uuid
from moldau.cluster.image import ClusterImage, PartitionImage, TopicImage
from moldau.protocol.control_records import Marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication.commit_notices import CommitNotices
from moldau.replication.partition import Partition
from moldau.replication.replicas import Replicas, TopicReplicas
from moldau.storage.directory.logs import Logs
from moldau.storage.files import MemoryFiles
from moldau.storage.log.log import Appended, LogConfig
from tests.simulation.faults import Faults
from tests.simulation.virtual_time import VirtualClock, VirtualLoop

NODE_ID = 1
NOBODY = -1
#: Segments so small that producers' snapshots and indexes are met too.
CONFIG = LogConfig(segment_bytes=6_000, index_interval_bytes=256)
_REFUSALS = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
)


def topic_id(name: str) -> Uuid:
    return name.encode()[:16].rjust(16, b"-")


class SimulatedPartition(Partition):
    __slots__ = ("ends", "owner", "writing_marker")

    def __init__(self, topic_partition: TopicPartition, owner: "Partitions") -> None:
        super().__init__(topic_partition, topic_id(topic_partition.topic), NODE_ID, owner.notices)
        self.owner = owner
        #: Where the batches end that are not committed.
        self.ends: list[int] = []
        self.writing_marker = False
        self.leader = NODE_ID
        self.leader_epoch = 0
        self.replicas = self.isr = (NODE_ID,)

    @property
    def is_internal(self) -> bool:
        return self.topic_partition.topic in INTERNAL_TOPICS

    def append_internal(self, records: Any, now_ms: int) -> Appended:
        self.owner.maybe_refuse()
        return super().append_internal(records, now_ms)

    def append_marker(
        self, marker: Marker, producer_id: int, producer_epoch: int, now_ms: int, **how: Any
    ) -> bool:
        self.writing_marker = True
        try:
            return super().append_marker(marker, producer_id, producer_epoch, now_ms, **how)
        finally:
            self.writing_marker = False

    def _commit(self, log: Any, now_ms: int) -> None:
        delay = self.owner.commit_delay() if self.is_internal and not self.writing_marker else 0.0
        if delay == 0.0 and (self.writing_marker or not self.ends):
            self.commit(log.log_end_offset)
            return
        self.ends.append(log.log_end_offset)
        self.owner.loop.call_later(delay, self._replicated, log.log_end_offset, self.leader_epoch)

    def _replicated(self, end: int, leader_epoch: int) -> None:
        if leader_epoch == self.leader_epoch and end > self.high_watermark:
            self.commit(end)

    def commit(self, end: int) -> None:
        self.ends = [each for each in self.ends if each > end]
        self.advance_high_watermark(end)

    def change_leader(self, dice: Random, now_ms: int) -> None:
        """The next leader has all that is committed, and some of the rest or none of it."""
        assert self.log is not None
        end = dice.choice([self.high_watermark, *self.ends])
        if end < self.log.log_end_offset:
            self.log.truncate_to(end, now_ms)
        self.ends = []
        self.leader_epoch += 1
        self.high_watermark = end
        self.log.assign_leader_epoch(self.leader_epoch)


class SimulatedReplicas(Replicas):
    def __init__(self) -> None:
        self.by_name: dict[str, TopicReplicas] = {}
        self.by_id: dict[Uuid, TopicReplicas] = {}
        self.validating: set[str] = set()

    def apply(self, old: ClusterImage, new: ClusterImage) -> None:
        """The image is made from the partitions here, not the other way round."""

    def flush(self, partition: Partition) -> "asyncio.Future[None]":
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future


class Partitions:
    """All partitions; they outlive the broker that serves them."""

    def __init__(
        self, loop: VirtualLoop, clock: VirtualClock, dice: Random, topics: Mapping[str, int]
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.dice = dice
        self.faults = Faults()
        self.replicas = SimulatedReplicas()
        self.notices = CommitNotices(loop.call_soon)
        self._files = MemoryFiles()
        self._logs = self._open_logs()
        for name, count in topics.items():
            self.grow(name, count)

    def _open_logs(self) -> Logs:
        logs = Logs(self._files, ["/data"], NODE_ID, "simulated", self.clock, config_of=lambda topic: CONFIG)
        logs.open()
        return logs

    def grow(self, name: str, count: int) -> None:
        """Makes a topic, or gives it more partitions."""
        topic = self.replicas.by_name.setdefault(name, TopicReplicas(name, topic_id(name)))
        self.replicas.by_id[topic.topic_id] = topic
        for index in range(len(topic.partitions), count):
            partition = SimulatedPartition(TopicPartition(name, index), self)
            partition.log = self._logs.open_partition(partition.topic_partition, topic.topic_id, CONFIG)
            topic.partitions.append(partition)

    def all(self) -> list[SimulatedPartition]:
        return [partition for partition in self.replicas if isinstance(partition, SimulatedPartition)]

    def get(self, topic: str, index: int) -> SimulatedPartition:
        found = self.replicas.by_name[topic].partitions[index]
        assert isinstance(found, SimulatedPartition)
        return found

    def image(self) -> ClusterImage:
        """The cluster as the controller would describe it now."""
        topics = [
            TopicImage(topic.topic_id, topic.name, tuple(map(_described, topic.partitions)))
            for topic in self.replicas.by_name.values()
        ]
        return ClusterImage(
            topics_by_name={topic.name: topic for topic in topics},
            topics_by_id={topic.topic_id: topic for topic in topics},
        )

    # --- faults ---------------------------------------------------------------------------------

    def maybe_refuse(self) -> None:
        if self.faults.refusal and self.dice.random() < self.faults.refusal:
            raise KafkaError(self.dice.choice(_REFUSALS), "a simulated refusal")

    def commit_delay(self) -> float:
        if not self.faults.commit_delay or self.dice.random() < 0.2:
            return 0.0
        return self.dice.random() * self.faults.commit_delay

    def crash(self) -> None:
        """The process dies: the logs are opened again from what it wrote, and lose what was not committed."""
        for partition in self.all():
            partition.commit_listeners.clear()
        self._files = self._files.after_kill()
        self._logs = self._open_logs()
        for partition in self.all():
            topic_partition = partition.topic_partition
            partition.log = self._logs.open_partition(topic_partition, partition.topic_id, CONFIG)
            partition.change_leader(self.dice, self.clock.now_ms())
            partition.leader = NODE_ID


def _described(partition: Partition | None) -> PartitionImage:
    assert partition is not None
    index = partition.topic_partition.partition
    return PartitionImage(
        index,
        partition.replicas,
        partition.isr,
        partition.leader,
        partition.leader_epoch,
        partition.leader_epoch,
    )
