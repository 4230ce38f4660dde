"""Moves of replicas between the data directories of this broker: copied beside the log, then exchanged.

A copy (the *future* replica) is made batch by batch while the log is in use; when nothing is missing, it
takes its place. A move that a stop has cut short goes on at the next start.

Invariant: the event-loop thread owns everything here; reading and flushing go to the executor. A copy never
has what the log does not have: when the log is cut, so is the copy. A log that moves is not compacted, or
the copy might keep a key whose tombstone it never saw.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from typing import Any, NamedTuple

from moldau.base.clock import Clock
from moldau.base.names import TopicPartition
from moldau.base.tasks import Background
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication.copying import append_copied
from moldau.replication.partition import Partition
from moldau.replication.replicas import Replicas
from moldau.replication.throttle import ReplicationThrottle
from moldau.storage.directory.future_logs import FutureOpening, create_future, mark, take_place
from moldau.storage.directory.log_directory import LogDirectory
from moldau.storage.directory.logs import Logs
from moldau.storage.errors import StorageError
from moldau.storage.files import Files
from moldau.storage.log.log import Log

log = logging.getLogger("moldau.replication")

_CHUNK = 1024 * 1024
#: How often is looked whether a source has more, a throttle has opened, or a compaction has ended.
_LOOK_SECONDS = 0.1
#: An error of the disk is tried again after so long.
_AFTER_ERROR_SECONDS = 5.0


class FutureReplica(NamedTuple):
    """A copy that is being made, as DescribeLogDirs shows it."""

    topic_partition: TopicPartition
    size: int
    offset_lag: int


class _Move:
    """One partition on its way to another directory."""

    __slots__ = ("bound", "directory", "future", "leftover", "marked", "partition", "source")

    def __init__(
        self, partition: Partition, source: Log, directory: LogDirectory, leftover: str | None
    ) -> None:
        self.partition = partition
        self.source = source
        self.directory = directory
        #: The directory of a copy that was begun before this start.
        self.leftover = leftover
        self.future: Log | None = None
        #: Above it a copy from before this start may differ from the log.
        self.bound = source.recovery_point
        self.marked = False

    @property
    def lag(self) -> int:
        start = self.source.log_start_offset
        copied = start if self.future is None else max(self.future.log_end_offset, start)
        return max(self.source.log_end_offset - copied, 0)


class LogMoves:
    def __init__(
        self,
        files: Files,
        logs: Logs,
        replicas: Replicas,
        executor: Executor,
        background: Background,
        clock: Clock,
        rate: Callable[[], int],
        write_checkpoints: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """``rate``: bytes a second that all moves together may copy."""
        self._files = files
        self._logs = logs
        self._replicas = replicas
        self._executor = executor
        self._background = background
        self._clock = clock
        self._throttle = ReplicationThrottle(rate, clock)
        self._write_checkpoints = write_checkpoints
        self._moves: dict[TopicPartition, _Move] = {}

    # --- what is asked ----------------------------------------------------------------------------

    def move(self, place: TopicPartition, path: str, *, exists: bool) -> None:
        """Begins to move a replica of this node; one that moves already goes on to the new directory.

        LOG_DIR_NOT_FOUND for a directory that is none of the broker's, KAFKA_STORAGE_ERROR for one that is
        offline, REPLICA_NOT_AVAILABLE where there is no replica; one that comes later is put there, where
        the partition ``exists``.
        """
        directory = self._directory(path)
        partition = self._replicas.get(place)
        if partition is None:
            if exists:
                self._logs.new_partitions.wanted[place] = directory
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
        source = partition.log
        if source is None or source.offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, partition.offline_reason)
        moving = self._moves.get(place)
        if moving is not None and moving.directory is directory and self._is_current(moving):
            return
        if moving is not None:
            self._discard(moving)
        if self._logs.directory_of(place) is not directory:
            self._begin(_Move(partition, source, directory, None))

    def _directory(self, path: str) -> LogDirectory:
        for directory in self._logs.directories:
            if directory.path == path:
                if directory.offline is not None:
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} is offline")
                return directory
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not in log.dirs")

    def futures_in(self, path: str) -> Iterator[FutureReplica]:
        """The copies that are being made in a directory."""
        for place, move in self._moves.items():
            if move.directory.path == path:
                size = 0 if move.future is None else move.future.size
                yield FutureReplica(place, size, move.lag)

    def resume(self) -> None:
        """Goes on with what the last stop has cut short; to be called when the replicas are known."""
        for directory in self._logs.online:
            for place, path in directory.futures():
                partition = self._replicas.get(place)
                source = None if partition is None else partition.log
                usable = source is not None and self._logs.directory_of(place) is not directory
                if partition is None or source is None or not usable or place in self._moves:
                    self._logs.remove_later(path)
                    continue
                log.info("%s goes on moving to %s", place, directory.path)
                self._begin(_Move(partition, source, directory, path))

    # --- one move ---------------------------------------------------------------------------------

    def _begin(self, move: _Move) -> None:
        self._moves[move.partition.topic_partition] = move
        move.source.after_truncation = lambda offset: self._truncated(move, offset)
        move.source.moving = True
        self._background.start(self._run(move), f"move of {move.partition.topic_partition}")

    def _truncated(self, move: _Move, offset: int) -> None:
        move.bound = min(move.bound, offset)
        if move.future is not None and move.future.log_end_offset > offset:
            move.future.truncate_to(offset, self._clock.now_ms())

    def _is_current(self, move: _Move) -> bool:
        place = move.partition.topic_partition
        return self._moves.get(place) is move and move.partition.log is move.source

    def _discard(self, move: _Move) -> None:
        """The copy is not wanted any more."""
        place = move.partition.topic_partition
        if self._moves.get(place) is move:
            del self._moves[place]
            move.source.after_truncation = lambda offset: None
            move.source.moving = False
        future, move.future = move.future, None
        path = move.leftover if future is None else future.directory
        if path is not None and self._files.exists(path):
            self._logs.remove_later(path)

    async def _run(self, move: _Move) -> None:
        while self._is_current(move):
            try:
                if await self._step(move):
                    return
            except (OSError, StorageError, KafkaError) as error:
                place = move.partition.topic_partition
                log.error("%s cannot be moved to %s now: %s", place, move.directory.path, error)
                if move.directory.offline is not None or move.source.offline is not None:
                    # What there is of the copy stays for the next start.
                    return
                await asyncio.sleep(_AFTER_ERROR_SECONDS)
        self._discard(move)

    async def _step(self, move: _Move) -> bool:
        """Copies some, or exchanges the two; True when that is done."""
        if move.source.cleaning is not None or not self._throttle.is_open:
            await asyncio.sleep(_LOOK_SECONDS)
            return False
        if move.future is None:
            await self._open(move)
        elif move.lag > 0:
            await self._copy(move)
        elif not move.marked:
            future = move.future
            await self._run_in_thread(lambda: mark(self._files, future))
            move.marked = True
        else:
            return await self._finish(move)
        return False

    async def _open(self, move: _Move) -> None:
        source, now_ms = move.source, self._clock.now_ms()
        on_failure = self._logs.failure_in(move.directory)
        assert source.topic_id is not None, f"{source} has no topic id"
        if move.leftover is not None:
            place, path = source.topic_partition, move.leftover
            opening = FutureOpening(
                self._files, path, place, source.topic_id, source.config, now_ms, on_failure
            )
            await self._run_in_thread(opening.run)
            if not self._is_current(move):
                return
            move.leftover = None
            if opening.log is not None:
                move.future = opening.log
                move.future.truncate_to(min(move.bound, source.log_end_offset), now_ms)
                return
            self._logs.remove_later(path)
        future = create_future(self._files, move.directory, source, source.topic_id, now_ms, on_failure)
        if source.log_start_offset:
            future.restart_at(source.log_start_offset, now_ms)
        move.future = future

    async def _copy(self, move: _Move) -> None:
        future, source = move.future, move.source
        assert future is not None
        now_ms = self._clock.now_ms()
        if future.log_end_offset < source.log_start_offset:
            future.restart_at(source.log_start_offset, now_ms)
        offset = future.log_end_offset
        found = source.read(offset, _CHUNK, source.log_end_offset, at_least_one=True)
        if found is None:
            await asyncio.sleep(_LOOK_SECONDS)
            return
        data = await self._run_in_thread(found.read)
        if not self._is_current(move) or move.future is not future or future.log_end_offset != offset:
            return
        if source.log_end_offset < offset or source.log_start_offset > offset:
            return
        self._throttle.take(len(data))
        append_copied(future, memoryview(data), now_ms)

    async def _finish(self, move: _Move) -> bool:
        future, source = move.future, move.source
        assert future is not None
        job = future.begin_flush()
        if job is not None:
            await self._run_in_thread(job.run)
            future.finish_flush(job)
            if job.error is not None:
                raise job.error
        if move.lag > 0 and not self._copy_rest(move):
            return False
        if not self._is_current(move) or source.cleaning is not None:
            return False
        now_ms = self._clock.now_ms()
        on_failure = self._logs.failure_in(move.directory)

        def exchange(retire: Callable[[], None]) -> Log:
            return take_place(self._files, source, future, move.directory, now_ms, on_failure, retire)

        try:
            opened = self._logs.exchange(source, move.directory, exchange)
        except BaseException:
            # The copy is closed: it is begun anew.
            move.future, move.marked = None, False
            self._logs.remove_later(future.directory)
            raise
        source.after_truncation = lambda offset: None
        move.partition.log = opened
        del self._moves[move.partition.topic_partition]
        log.info("%s has moved to %s", move.partition.topic_partition, move.directory.path)
        move.partition.notify()
        await self._write_checkpoints()
        return True

    def _copy_rest(self, move: _Move) -> bool:
        """What came during the flush, if it is little enough not to keep the loop; whether that is all."""
        future, source = move.future, move.source
        assert future is not None
        if future.log_end_offset < source.log_start_offset:
            return False
        found = source.read(future.log_end_offset, _CHUNK, source.log_end_offset, at_least_one=True)
        if found is None:
            return False
        append_copied(future, memoryview(found.read()), self._clock.now_ms())
        return move.lag == 0

    async def _run_in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)
