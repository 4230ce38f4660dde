"""New topics that begin with data: forks of other topics, and topics restored from snapshots.

Invariant: files are linked, copied and flushed in the executor; decisions are made on the loop. A branch
comes into use in one order: its directories are whole and on the device, they get their names, checkpoints
name their start offsets, and only then the metadata says that the topic exists. A failure before that
leaves nothing behind.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Protocol

from moldau.base.clock import Clock
from moldau.base.names import TopicPartition, Uuid
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication.partition import Partition
from moldau.replication.replicas import Replicas
from moldau.storage.branches.branch import Branch, BranchError, abort_transactions, publish
from moldau.storage.branches.forking import ForkJob, begin_fork
from moldau.storage.branches.restoring import PartitionRestore
from moldau.storage.directory.logs import Logs
from moldau.storage.files import Files
from moldau.storage.log.config import LogConfig
from moldau.storage.log.log import Log

log = logging.getLogger("moldau.replication")

#: How often linking starts again because compaction replaced a segment, before the client has to retry.
_ATTEMPTS = 5


class _Job(Protocol):
    """What makes a branch, in any thread."""

    branch: Branch
    error: Exception | None

    def run(self) -> None: ...


class UnpublishedTopic:
    """A topic that has its data and is not known to the cluster yet."""

    def __init__(self, name: str, topic_id: Uuid, logs: list[Log], leader_epochs: list[int]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.logs = logs
        #: With which epoch each partition begins: not below what its records have.
        self.leader_epochs = leader_epochs

    def bounds(self) -> list[tuple[int, int]]:
        """Where each partition begins and ends."""
        return [(each.log_start_offset, each.log_end_offset) for each in self.logs]


class Restore:
    """A topic that is being filled from a snapshot."""

    def __init__(self, name: str, topic_id: Uuid, partitions: list[PartitionRestore]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions

    def append(self, partition: int, records: memoryview, now_ms: int) -> int:
        """The offset that comes next."""
        if not 0 <= partition < len(self.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.partitions[partition].append(records, now_ms)


class Branching:
    def __init__(
        self,
        files: Files,
        logs: Logs,
        replicas: Replicas,
        executor: Executor,
        clock: Clock,
        write_checkpoints: Callable[[], Awaitable[None]],
    ) -> None:
        self._files = files
        self._logs = logs
        self._replicas = replicas
        self._executor = executor
        self._clock = clock
        self._write_checkpoints = write_checkpoints
        #: Topics that are being made: another one of the name would put their data aside.
        self._names: set[str] = set()
        #: Forks of which this broker has its part, until it is known what becomes of them.
        self._unpublished: dict[Uuid, UnpublishedTopic] = {}

    @contextlib.contextmanager
    def reserved(self, name: str) -> Iterator[None]:
        """Keeps others from making a branch of this name; TOPIC_ALREADY_EXISTS when one is being made."""
        if name in self._names:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is just being made.")
        self._names.add(name)
        try:
            yield
        finally:
            self._names.discard(name)

    # --- forks ----------------------------------------------------------------------------------

    async def fork(
        self,
        sources: Sequence[Partition],
        ends: Sequence[int],
        epochs: Sequence[int],
        name: str,
        topic_id: Uuid,
        now_ms: int,
    ) -> UnpublishedTopic:
        """The data of a topic that has what each source has below its end; ``settle`` says how it goes on.

        ``epochs`` and ``now_ms`` are those of the markers that end open transactions.
        """
        configs = [source.readable_log().config for source in sources]
        outcomes = await asyncio.gather(
            *(
                self._fork_one(source, end, TopicPartition(name, source.topic_partition.partition), topic_id)
                for source, end in zip(sources, ends, strict=True)
            ),
            return_exceptions=True,
        )
        branches = [outcome.branch for outcome in outcomes if isinstance(outcome, ForkJob)]
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                await self._discard(branches)
                raise outcome
        made = await self._adopt(branches, name, topic_id, configs, list(epochs), now_ms)
        self._unpublished[topic_id] = made
        return made

    def settle(self, topic_id: Uuid, *, publish: bool) -> None:
        """The metadata has the topic, or will never have it."""
        topic = self._unpublished.pop(topic_id, None)
        if topic is not None:
            (self.publish if publish else self.withdraw)(topic)

    async def _fork_one(self, source: Partition, end: int, target: TopicPartition, topic_id: Uuid) -> ForkJob:
        for _ in range(_ATTEMPTS):
            partition_log = source.readable_log()
            directory = self._logs.directory_of(source.topic_partition)
            assert directory is not None, f"{source.topic_partition} has a log and no directory"
            # Compaction or retention may have moved the beginning since the end was chosen.
            end_now = max(end, partition_log.log_start_offset)
            branch = Branch(self._files, directory, target, topic_id)
            try:
                job = begin_fork(partition_log, branch, end_now, self._clock.now_ms())
            except BranchError as error:
                raise _refused(source.topic_partition, error) from error
            try:
                await self._run(job)
            except BaseException:
                await self._discard([branch])
                raise
            if source.log is partition_log and partition_log.offline is None and job.is_consistent():
                if job.error is None:
                    return job
                await self._discard([branch])
                raise _refused(source.topic_partition, job.error)
            await self._discard([branch])
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{source.topic_partition} was compacted each time while it was being forked: try again",
        )

    # --- restored snapshots ----------------------------------------------------------------------

    def begin_restore(
        self, name: str, topic_id: Uuid, bounds: Sequence[tuple[int, int]], values: Mapping[str, Any]
    ) -> Restore:
        """A topic with these log start and end offsets, to be filled."""
        config = LogConfig.from_values(values)
        partitions = []
        for index, (log_start_offset, end_offset) in enumerate(bounds):
            directory = self._logs.new_partitions.emptiest_directory()
            branch = Branch(self._files, directory, TopicPartition(name, index), topic_id)
            partitions.append(PartitionRestore(branch, config, log_start_offset, end_offset))
        return Restore(name, topic_id, partitions)

    async def finish_restore(self, restore: Restore) -> UnpublishedTopic:
        branches = [each.branch for each in restore.partitions]
        try:
            for each in restore.partitions:
                await self._run(each)
                if each.error is not None:
                    raise _refused(each.branch.topic_partition, each.error)
        except BaseException:
            await self._discard(branches)
            raise
        epochs = [max(each.latest_leader_epoch, 0) for each in restore.partitions]
        configs = [each.config for each in restore.partitions]
        now_ms = self._clock.now_ms()
        return await self._adopt(branches, restore.name, restore.topic_id, configs, epochs, now_ms)

    async def abandon_restore(self, restore: Restore) -> None:
        await self._discard([each.branch for each in restore.partitions])

    # --- from directories to a topic ------------------------------------------------------------

    async def _adopt(
        self,
        branches: list[Branch],
        name: str,
        topic_id: Uuid,
        configs: Sequence[LogConfig],
        leader_epochs: list[int],
        now_ms: int,
    ) -> UnpublishedTopic:
        """Gives the directories their names and opens them, a partition at a time."""
        topic = UnpublishedTopic(name, topic_id, [], leader_epochs)
        try:
            for branch, config, epoch in zip(branches, configs, leader_epochs, strict=True):
                if name in self._replicas.by_name:
                    raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
                partition_log = self._logs.adopt(
                    branch.path,
                    branch.log_directory,
                    branch.topic_partition,
                    topic_id,
                    config,
                    branch.log_start_offset,
                )
                topic.logs.append(partition_log)
                abort_transactions(partition_log, branch.open_transactions, epoch, now_ms)
                await self._flush(partition_log)
                branch.log_directory.high_watermarks[branch.topic_partition] = partition_log.log_end_offset
            await self._write_checkpoints()
        except BaseException:
            self.withdraw(topic)
            await self._discard(branches[len(topic.logs) :])
            raise
        return topic

    def publish(self, topic: UnpublishedTopic) -> None:
        """The metadata has the topic now."""
        for partition_log in topic.logs:
            publish(self._files, partition_log)

    def withdraw(self, topic: UnpublishedTopic) -> None:
        """The metadata did not take the topic: its data goes."""
        for partition_log in topic.logs:
            if self._logs.get(partition_log.topic_partition) is partition_log:
                self._logs.delete(partition_log.topic_partition)

    # --- the executor ---------------------------------------------------------------------------

    async def _run(self, job: _Job) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, job.run)

    async def _flush(self, partition_log: Log) -> None:
        """What was written since the directory was opened; others get a turn in any case."""
        await asyncio.sleep(0)
        job = partition_log.begin_flush()
        if job is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, job.run)
            partition_log.finish_flush(job)
            if job.error is not None:
                raise _refused(partition_log.topic_partition, job.error)

    async def _discard(self, branches: Sequence[Branch]) -> None:
        loop = asyncio.get_running_loop()
        for branch in branches:
            await loop.run_in_executor(self._executor, branch.discard)


def _refused(topic_partition: TopicPartition, error: Exception) -> KafkaError:
    if isinstance(error, KafkaError):
        return error
    log.error("%s: a branch cannot be made: %s", topic_partition, error)
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic_partition}: {error}")
