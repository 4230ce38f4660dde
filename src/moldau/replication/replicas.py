"""All replicas of this node: found by name or id, made and dropped as the cluster's image says.

Invariant: the event-loop thread owns everything here. Flushing goes to an executor, and so does making and
renaming directories, before and after ``apply``; nothing else leaves the loop.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple, Protocol

from moldau.base.clock import Clock, SystemClock, stopwatch
from moldau.base.names import TopicPartition, Uuid
from moldau.base.tasks import Background
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage, PartitionImage, TopicImage
from moldau.cluster.records import NO_LEADER
from moldau.metrics.instruments import Histogram
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication.commit_notices import CommitNotices
from moldau.replication.isr import IsrProposer, NoProposer
from moldau.replication.partition import Partition
from moldau.replication.schema_validation import SchemaValidation, schema_validation
from moldau.replication.throttle import is_throttled
from moldau.storage.directory.logs import Logs
from moldau.storage.directory.preparation import RetirementJob
from moldau.storage.log.log import Log, LogConfig

log = logging.getLogger("moldau.replication")

_DRAIN_LOOK_SECONDS = 0.005


class _Job(Protocol):
    def run(self) -> None: ...


class DirectoryUse(NamedTuple):
    """A data directory as DescribeLogDirs shows it; sizes are -1 where they are not known."""

    path: str
    offline: bool
    partitions: list[tuple[TopicPartition, int]]
    total_bytes: int
    usable_bytes: int


class TopicReplicas:
    """The partitions of one topic; ``partitions[i]`` is None when this node has no replica of it."""

    __slots__ = ("bytes_out", "fetches", "name", "partitions", "replication_bytes_out", "topic_id")

    def __init__(self, name: str, topic_id: Uuid) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[Partition | None] = []
        #: Answers to fetches that had something of the topic, and the bytes of records in them.
        self.fetches = 0
        self.bytes_out = 0
        self.replication_bytes_out = 0

    def traffic(self) -> "Traffic":
        held = [partition for partition in self.partitions if partition is not None]
        return Traffic(
            sum(each.messages_in for each in held),
            sum(each.bytes_in for each in held),
            self.bytes_out,
            sum(each.appends for each in held),
            self.fetches,
            sum(each.bytes_replicated for each in held),
            self.replication_bytes_out,
        )


class Traffic(NamedTuple):
    """What went in and out of one topic, or of all, since this broker has started."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    produce_requests: int = 0
    fetch_requests: int = 0
    replication_bytes_in: int = 0
    replication_bytes_out: int = 0

    def plus(self, other: "Traffic") -> "Traffic":
        return Traffic(*map(sum, zip(self, other, strict=True)))


_LEADERS_THROTTLED = "leader.replication.throttled.replicas"
_FOLLOWERS_THROTTLED = "follower.replication.throttled.replicas"


class Replicas:
    def __init__(
        self,
        node_id: int,
        logs: Logs,
        executor: Executor,
        background: Background,
        topic_values: Callable[[ClusterImage, str], Mapping[str, Any]],
        *,
        clock: Clock | None = None,
        isr_proposer: IsrProposer | None = None,
        role_changed: Callable[[Partition], None] = lambda partition: None,
        metadata_thread: Executor | None = None,
    ) -> None:
        """``role_changed`` hears of every partition whose metadata has changed, or that is gone.

        ``metadata_thread`` does what a change of the metadata waits for, and nothing that takes longer.
        """
        self._clock: Clock = SystemClock() if clock is None else clock
        self._isr_proposer: IsrProposer = NoProposer() if isr_proposer is None else isr_proposer
        self._role_changed = role_changed
        self._node_id = node_id
        self._suspended = False
        self._logs = logs
        self._executor = executor
        self._metadata_thread = metadata_thread or executor
        self._background = background
        self._topic_values = topic_values
        self._flushing: dict[Partition, list[asyncio.Future[None]]] = {}
        #: The directories of what this node has no more.
        self._retiring: list[RetirementJob] = []
        #: What this node had and has no more, until checkpoints do not name it.
        self._left: list[TopicPartition] = []
        self._forgetting = False
        self.by_name: dict[str, TopicReplicas] = {}
        self.by_id: dict[Uuid, TopicReplicas] = {}
        # Listeners run once the append that concerns them, and the answer to it, are out of the way.
        self._notices = CommitNotices(lambda call: asyncio.get_running_loop().call_soon(call))
        #: The traffic of what this node no longer has.
        self.former_traffic = Traffic()
        self.flush_times = Histogram()
        #: Data directories with too little room for producers -> why, and the partitions that refuse them.
        self.full_directories: dict[str, str] = {}
        self.refusing: set[Partition] = set()
        #: Names of topics whose records have to name a registered schema.
        self.validating: set[str] = set()

    def __iter__(self) -> Iterator[Partition]:
        for topic in self.by_name.values():
            for partition in topic.partitions:
                if partition is not None:
                    yield partition

    def find(self, topic: str, partition: int) -> Partition:
        known = self.by_name.get(topic)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return _partition_of(known, partition)

    def get(self, place: TopicPartition) -> Partition | None:
        """The replica of this node, if it has one."""
        known = self.by_name.get(place.topic)
        if known is None or not 0 <= place.partition < len(known.partitions):
            return None
        return known.partitions[place.partition]

    def find_by_id(self, topic_id: Uuid, partition: int) -> Partition:
        known = self.by_id.get(topic_id)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return _partition_of(known, partition)

    def make_ready(self, old: ClusterImage, new: ClusterImage) -> Awaitable[None] | None:
        """Before ``apply``: the directories of partitions that this node is to have, made off the loop.

        None when there are none. What goes wrong shows when ``apply`` opens them.
        """
        if old is EMPTY_IMAGE or old.topics_by_id is new.topics_by_id:
            return None
        added = [
            (TopicPartition(image.name, index), topic_id)
            for topic_id, image in new.topics_by_id.items()
            if old.topics_by_id.get(topic_id) is not image
            for index in self._not_here(topic_id, image)
        ]
        return self._make_directories(added) if added else None

    def _not_here(self, topic_id: Uuid, image: TopicImage) -> Iterator[int]:
        """The partitions that this node is to have a replica of, and has not."""
        topic = self.by_id.get(topic_id)
        held = [] if topic is None else topic.partitions
        for index, described in enumerate(image.partitions):
            if self._node_id in described.replicas and (index >= len(held) or held[index] is None):
                yield index

    async def _make_directories(self, added: Sequence[tuple[TopicPartition, Uuid]]) -> None:
        forgetting = self._logs.begin_forgetting(topic_partition for topic_partition, _ in added)
        creation = self._logs.new_partitions.begin_creation(added)
        await _in_thread(self._metadata_thread, [*forgetting, creation])
        for job in forgetting:
            self._logs.finish_checkpoint(job)

    def clear_up(self) -> Awaitable[None] | None:
        """After ``apply``: the directories of what this node has no more get other names, off the loop."""
        return self._rename_retiring() if self._retiring else None

    async def _rename_retiring(self) -> None:
        jobs, self._retiring = self._retiring, []
        await _in_thread(self._metadata_thread, jobs)
        for job in jobs:
            self._logs.finish_deletion(job)

    def apply(self, old: ClusterImage, new: ClusterImage) -> None:
        """Follows the image: topics that are new, gone, wider, or with other configs.

        The first time ``old`` is empty, and everything was there before this start.
        """
        if old.topics_by_id is not new.topics_by_id:
            for topic_id, topic in tuple(self.by_id.items()):
                if topic_id not in new.topics_by_id:
                    self._drop(topic)
            for topic_id, image in new.topics_by_id.items():
                if old.topics_by_id.get(topic_id) is not image or topic_id not in self.by_id:
                    self._place(image, new, is_new=old is not EMPTY_IMAGE)
            self._forget_left()
        if old is EMPTY_IMAGE:
            self._logs.all_are_known({partition.topic_partition for partition in self})
        if old.overrides is not new.overrides:
            for topic in self.by_name.values():
                self._configure(topic, new)

    def _place(self, image: TopicImage, cluster: ClusterImage, *, is_new: bool) -> None:
        topic = self.by_id.get(image.topic_id)
        if topic is None:
            topic = TopicReplicas(image.name, image.topic_id)
            self.by_name[image.name] = self.by_id[image.topic_id] = topic
        values = self._topic_values(cluster, image.name)
        config = LogConfig.from_values(values)
        validation = self._validation(image.name, values)
        minimum = int(values["min.insync.replicas"])
        for index, described in enumerate(image.partitions):
            if index == len(topic.partitions):
                topic.partitions.append(None)
            partition = topic.partitions[index]
            if self._node_id not in described.replicas:
                if partition is not None:
                    topic.partitions[index] = None
                    self._leave(partition)
                continue
            if partition is None:
                partition = Partition(
                    TopicPartition(image.name, index),
                    image.topic_id,
                    self._node_id,
                    self._notices,
                    self._isr_proposer,
                )
                partition.log = self._open(partition, config, is_new=is_new)
                if partition.log is not None and len(described.replicas) > 1:
                    partition.high_watermark = self._known_high_watermark(partition.log)
                if self.full_directories:
                    directory = self._logs.directory_of(partition.topic_partition)
                    partition.full = None if directory is None else self.full_directories.get(directory.path)
                    self.refusing.add(partition)
                _take_values(partition, values, validation)
                partition.set_mirror(values["moldau.mirror.state"], self._clock.now_ms())
                topic.partitions[index] = partition
            if partition.log is None and self._may_be_copied_again(described):
                self._begin_anew(partition, config)
            # Before the role: with a config that came together with it a smaller ISR may commit nothing.
            partition.min_insync_replicas = minimum
            if self._suspended and described.leader == self._node_id:
                described = described._replace(leader=NO_LEADER)
            partition.take_role(described, self._clock.now_ms())
            self._role_changed(partition)

    def suspend(self) -> None:
        """Leads nothing from now on, whatever the metadata says: the session may be over, and others lead."""
        self._suspended = True
        for partition in self:
            if partition.leader == self._node_id:
                known = (partition.replicas, partition.isr, NO_LEADER, partition.leader_epoch, -1)
                partition.take_role(
                    PartitionImage(partition.topic_partition.partition, *known), self._clock.now_ms()
                )
                self._role_changed(partition)

    def resume(self, image: ClusterImage) -> None:
        """Leads again what the metadata says."""
        self._suspended = False
        for topic in image.topics_by_id.values():
            self._place(topic, image, is_new=True)

    def _known_high_watermark(self, log: Log) -> int:
        """What was committed when the broker last noted it, within what the log still has."""
        noted = self._logs.high_watermark(log.topic_partition)
        return min(max(noted, log.log_start_offset), log.log_end_offset)

    def _validation(self, topic: str, values: Mapping[str, Any]) -> SchemaValidation | None:
        """What the topic asks of schemas, noted where a produce request sees it at a glance."""
        validation = schema_validation(topic, values)
        if validation is None:
            self.validating.discard(topic)
        else:
            self.validating.add(topic)
        return validation

    def _open(self, partition: Partition, config: LogConfig, *, is_new: bool) -> Log | None:
        topic_partition, topic_id = partition.topic_partition, partition.topic_id
        try:
            return self._logs.open_partition(topic_partition, topic_id, config, is_new=is_new)
        except KafkaError as error:
            partition.offline_reason = error.message or "The log of this partition cannot be used."
            log.error("partition %s is offline: %s", topic_partition, error)
            return None

    def _may_be_copied_again(self, described: PartitionImage) -> bool:
        """Whether others have all that this node has lost, and nobody counts on what it has."""
        others_lead = described.leader not in (NO_LEADER, self._node_id)
        return others_lead and self._node_id not in (*described.isr, *described.elr)

    def _begin_anew(self, partition: Partition, config: LogConfig) -> None:
        """A replica that is lost or damaged begins empty, as a new one does, and follows its leader."""
        if self._logs.set_aside(partition.topic_partition):
            partition.log = self._open(partition, config, is_new=True)
            partition.high_watermark = 0

    def begin_missing(self, image: ClusterImage) -> None:
        """Tries again to begin those that could not be made, because a disk was full, and may be copied."""
        for topic in tuple(self.by_id.values()):
            if any(each is not None and each.log is None for each in topic.partitions):
                self._place(image.topics_by_id[topic.topic_id], image, is_new=True)

    def why_unusable(self, topic_id: Uuid) -> str | None:
        """Why a partition that this node has of a topic has no log; None when all have one."""
        topic = self.by_id.get(topic_id)
        for partition in () if topic is None else topic.partitions:
            if partition is not None and partition.log is None:
                return partition.offline_reason
        return None

    def leave_lost(self) -> bool:
        """Copies nothing to replicas whose disk has failed; whether others still count on one of them."""
        counted = False
        for partition in self:
            if partition.log is None or partition.log.offline is not None:
                self._role_changed(partition)
                counted |= self._node_id in partition.isr and len(partition.isr) > 1
        return counted

    async def prepare(self, topic: str, topic_id: Uuid, partitions: range) -> OSError | None:
        """Makes directories of partitions that are about to exist, off the loop; then ``discard_prepared``.

        Returns why the disk or the system does not allow it.
        """
        job = self._logs.new_partitions.begin_preparation(topic, topic_id, partitions)
        await _in_thread(self._executor, [job])
        self._logs.new_partitions.finish_preparation(job)
        return job.error

    async def forget_deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """Before partitions are created: checkpoints no longer name deleted ones of the same names."""
        for job in self._logs.begin_forgetting(partitions):
            await _in_thread(self._executor, [job])
            self._logs.finish_checkpoint(job)

    def _forget_left(self) -> None:
        """Soon, and off the loop: a partition of the same name may be made again at any time."""
        if self._left and not self._forgetting:
            self._forgetting = True
            self._background.start(self._forget_all_left(), "checkpoints without deleted partitions")

    async def _forget_all_left(self) -> None:
        try:
            while self._left:
                left, self._left = self._left, []
                await self.forget_deleted(left)
        finally:
            self._forgetting = False

    def discard_prepared(self, topic_id: Uuid) -> None:
        """The topic is there, or will not be: what it did not need goes."""
        self._logs.new_partitions.discard_prepared(topic_id)

    def _drop(self, topic: TopicReplicas) -> None:
        outs = Traffic(
            bytes_out=topic.bytes_out,
            fetch_requests=topic.fetches,
            replication_bytes_out=topic.replication_bytes_out,
        )
        self.former_traffic = self.former_traffic.plus(outs)
        self.by_name.pop(topic.name, None)
        self.by_id.pop(topic.topic_id, None)
        self.validating.discard(topic.name)
        for partition in topic.partitions:
            if partition is not None:
                self._leave(partition)

    def _leave(self, partition: Partition) -> None:
        """This node has no replica of the partition any more."""
        ins = Traffic(
            messages_in=partition.messages_in,
            bytes_in=partition.bytes_in,
            produce_requests=partition.appends,
            replication_bytes_in=partition.bytes_replicated,
        )
        self.former_traffic = self.former_traffic.plus(ins)
        partition.leader = -1
        partition.leading = None
        if any(each.has_checkpointed(partition.topic_partition) for each in self._logs.online):
            self._left.append(partition.topic_partition)
        retirement = self._logs.begin_deletion(partition.topic_partition)
        if retirement is not None:
            self._retiring.append(retirement)
        partition.log = None
        self._role_changed(partition)
        partition.notify()

    async def drain(self, seconds: float) -> None:
        """Takes no more writes where another broker can lead, and waits until the others have everything.

        What was acknowledged with acks=1 is then not lost with this leader.
        """
        leading = [each for each in self if each.leading is not None and len(each.leading.isr) > 1]
        for partition in leading:
            partition.draining = True
        deadline = self._clock.monotonic() + seconds
        while not all(each.is_drained for each in leading):
            if self._clock.monotonic() >= deadline:
                behind = [str(each.topic_partition) for each in leading if not each.is_drained]
                log.warning("stopping though followers lag behind in %s", ", ".join(behind[:10]))
                return
            await asyncio.sleep(_DRAIN_LOOK_SECONDS)

    def shrink_isrs(self) -> None:
        """Looks for followers that lag too much; due about twice in ``replica.lag.time.max.ms``."""
        now_ms = self._clock.now_ms()
        for partition in self:
            partition.shrink_isr(now_ms)

    def _configure(self, topic: TopicReplicas, cluster: ClusterImage) -> None:
        values = self._topic_values(cluster, topic.name)
        config = LogConfig.from_values(values)
        validation = self._validation(topic.name, values)
        for partition in topic.partitions:
            if partition is not None:
                _take_values(partition, values, validation)
                partition.set_mirror(values["moldau.mirror.state"], self._clock.now_ms())
                if partition.log is not None:
                    partition.log.config = config

    def log_directories(self) -> list[DirectoryUse]:
        """Every data directory, with what this node keeps in it."""
        used = []
        for directory in self._logs.directories:
            offline = directory.offline is not None
            total, usable = (-1, -1) if offline else directory.volume_bytes()
            found = [
                (partition_log.topic_partition, partition_log.size)
                for partition_log in self._logs
                if self._logs.directory_of(partition_log.topic_partition) is directory
            ]
            used.append(DirectoryUse(directory.path, offline, found, total, usable))
        return used

    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {p.topic_partition: p.high_watermark for p in self if p.log is not None}

    def flush(self, partition: Partition) -> asyncio.Future[None]:
        """Brings everything appended so far to the disk; requests that wait together share one sync."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_seen)
        waiting = self._flushing.get(partition)
        if waiting is None:
            self._flushing[partition] = [future]
            self._background.start(self._flush_rounds(partition), f"flush {partition.topic_partition}")
        else:
            waiting.append(future)
        return future

    async def _flush_rounds(self, partition: Partition) -> None:
        while waiting := self._flushing[partition]:
            self._flushing[partition] = []
            error = await self._sync(partition)
            for future in waiting:
                if future.done():
                    continue
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)
        del self._flushing[partition]

    async def _sync(self, partition: Partition) -> KafkaError | None:
        partition_log = partition.log
        if partition_log is None:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, partition.offline_reason)
        try:
            job = partition_log.begin_flush()
        except OSError as error:
            partition_log.handle_disk_error("flush", error)
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"flush failed: {error}")
        if job is None:
            return _why_not_flushed(partition_log)
        began = stopwatch()
        await asyncio.get_running_loop().run_in_executor(self._executor, job.run)
        now = stopwatch()
        self.flush_times.record((now - began) * 1000, now)
        partition_log.finish_flush(job)
        if job.error is not None:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"flush failed: {job.error}")
        return None


async def _in_thread(executor: Executor, jobs: Sequence[_Job]) -> None:
    def run_all() -> None:
        for job in jobs:
            job.run()

    await asyncio.get_running_loop().run_in_executor(executor, run_all)


def _why_not_flushed(partition_log: Log) -> KafkaError | None:
    """Where there is no job: why the disk may lack what was appended; None where it has everything."""
    if partition_log.offline is None and partition_log.recovery_point >= partition_log.log_end_offset:
        return None
    reason = partition_log.offline or "what belongs to it cannot be written now"
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"flush failed: {reason}")


def _seen(future: "asyncio.Future[None]") -> None:
    """Marks the exception as retrieved: it is logged already, and there may be no waiter."""
    if not future.cancelled():
        future.exception()


def _take_values(
    partition: Partition, values: Mapping[str, Any], validation: SchemaValidation | None
) -> None:
    """What the configs of the topic say about the partition itself."""
    partition.watchers.tell()
    partition.min_insync_replicas = int(values["min.insync.replicas"])
    partition.schema_validation = validation
    place = partition.topic_partition.partition, partition.node_id
    partition.throttled_as_leader = is_throttled(values.get(_LEADERS_THROTTLED, ()), *place)
    partition.throttled_as_follower = is_throttled(values.get(_FOLLOWERS_THROTTLED, ()), *place)


def _partition_of(topic: TopicReplicas, index: int) -> Partition:
    partitions = topic.partitions
    if not 0 <= index < len(partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = partitions[index]
    if partition is None:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return partition
