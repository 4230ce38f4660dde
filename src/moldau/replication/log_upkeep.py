"""What the logs of a node need from time to time: flushing, checkpoints, retention, removal of files.

Invariant: decided on the loop, in steps too short to be felt; done to files in the executor. Checkpoints
are written one at a time, each from what is true when its turn comes, so that an old one never replaces a
newer. A round of retention that is still under way is not joined by a second.
"""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress

from moldau.base import clock_watch
from moldau.base.clock import Clock
from moldau.base.clock_watch import ClockWatch
from moldau.base.tasks import Background, Timers
from moldau.cluster.configs.broker_settings import BrokerSettings
from moldau.protocol.errors import KafkaError
from moldau.replication.disk_space import CHECK_SECONDS, DiskSpace
from moldau.replication.log_moves import LogMoves
from moldau.replication.replicas import Replicas
from moldau.storage.directory.logs import Logs
from moldau.storage.files import Files
from moldau.storage.jobs import CheckpointJob, FileRemovalJob, RemovalJob
from moldau.storage.log.log import Log
from moldau.storage.log.trimming import begin_drop, expire_segments, finish_drop, has_old_segments, must_flush

_FLUSH_CHECK_SECONDS = 1.0
_REMOVAL_CHECK_SECONDS = 1.0
#: A removal waits for the file system nearly all of its time, and that does several at once.
_REMOVAL_THREADS = 4
#: An interval that is set to less would keep the loop busy.
_SHORTEST_SECONDS = 0.1
#: Logs that retention looks at before requests get a turn.
_LOGS_AT_A_TIME = 256


class LogUpkeep:
    def __init__(
        self,
        files: Files,
        logs: Logs,
        replicas: Replicas,
        executor: Executor,
        background: Background,
        clock: Clock,
        settings: BrokerSettings,
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._executor = executor
        self._background = background
        self._clock = clock
        self._settings = settings
        self._writing = asyncio.Lock()
        self._removing = asyncio.Lock()
        self._retention: asyncio.Task[None] | None = None
        self.moves = LogMoves(
            files,
            logs,
            replicas,
            executor,
            background,
            clock,
            lambda: settings["replica.alter.log.dirs.io.max.bytes.per.second"],
            self.write_checkpoints,
        )
        #: Retention and timestamps follow the time of the machine.
        self.clock_watch = ClockWatch(clock)
        self._disk_space = DiskSpace(logs, replicas, settings)
        self._measuring: asyncio.Task[None] | None = None
        self._timers: Timers | None = None

    def schedule(self, timers: Timers) -> None:
        """From now on for as long as the timers run."""
        settings = self._settings
        self._timers = timers
        self.moves.resume()
        self._background.start(self.check_sealed_segments(), "check of sealed segments")
        timers.every(_FLUSH_CHECK_SECONDS, self.flush_due)
        timers.every(_REMOVAL_CHECK_SECONDS, self.remove_deleted)
        timers.every(CHECK_SECONDS, self.look_at_disks)
        timers.every(clock_watch.CHECK_SECONDS, self.clock_watch.check)
        checkpoint_ms = min(
            settings.log_flush_offset_checkpoint_interval_ms,
            settings.log_flush_start_offset_checkpoint_interval_ms,
        )
        delay_ms = settings.log_initial_task_delay_ms
        _every(timers, checkpoint_ms, self.checkpoint, delay_ms)
        _every(timers, settings.log_retention_check_interval_ms, self.apply_retention, delay_ms)
        _every(timers, settings.producer_id_expiration_check_interval_ms, self.expire_producers, delay_ms)

    def flush_due(self) -> None:
        """Starts a sync wherever ``flush.ms`` has passed since the oldest record that the disk lacks."""
        now_ms = self._clock.now_ms()
        for partition in self._replicas:
            log = partition.log
            if log is not None and (deadline := log.flush_deadline_ms) is not None and deadline <= now_ms:
                self._replicas.flush(partition)

    def look_at_disks(self) -> None:
        if self._measuring is None or self._measuring.done():
            self._measuring = self._background.start(self._look_at_disks(), "look at the disks")

    async def _look_at_disks(self) -> None:
        loop = asyncio.get_running_loop()
        self._disk_space.take(await loop.run_in_executor(self._executor, self._disk_space.measure))

    def expire_producers(self) -> None:
        self._logs.expire_producers(self._clock.now_ms(), self._settings.producer_id_expiration_ms)

    def remove_deleted(self) -> None:
        """Files of deleted partitions and dropped segments."""
        jobs = self._logs.begin_removals(self._clock.now_ms())
        if jobs:
            self._background.start(self._remove(jobs), "removal")

    async def _remove(self, jobs: Iterable[RemovalJob | FileRemovalJob]) -> None:
        # In threads of their own: acknowledgements may wait for the others. What a stop leaves behind is
        # found at the next start; it waits for the jobs that have begun.
        loop = asyncio.get_running_loop()
        async with self._removing:
            threads = ThreadPoolExecutor(_REMOVAL_THREADS, "moldau-removal")
            try:
                await asyncio.gather(*(loop.run_in_executor(threads, job.run) for job in jobs))
            finally:
                threads.shutdown(cancel_futures=True)

    async def check_sealed_segments(self) -> None:
        """Once after the start: exchanged and missing files are named before somebody reads them."""
        for partition in tuple(self._replicas):
            log = partition.log
            if log is None or log.offline is not None or len(log.segments) < 2:
                continue
            check = self._logs.sealed_check(log)
            await self._run(check.run)
            check.report(log)

    # --- checkpoints ----------------------------------------------------------------------------

    def checkpoint(self) -> None:
        self._background.start(self.write_checkpoints(), "checkpoint")

    async def write_checkpoints(self) -> None:
        """Returns once they are on the device."""
        async with self._writing:
            await self._write(self._logs.begin_checkpoint(self._replicas.high_watermarks()))

    async def _write(self, jobs: Iterable[CheckpointJob]) -> None:
        for job in jobs:
            await self._run(job.run)
            self._logs.finish_checkpoint(job)

    async def _run(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, work)

    # --- retention ------------------------------------------------------------------------------

    def apply_retention(self) -> None:
        if self._retention is None or self._retention.done():
            self._retention = self._background.start(self.retain(), "retention")

    async def retain(self) -> None:
        """One round over all logs; ``trimming`` says why in this order."""
        now_ms = self._clock.now_ms()
        old: list[Log] = []
        for number, partition in enumerate(tuple(self._replicas), 1):
            # A mirror begins where its source does: retention is the source's business.
            while (
                (log := partition.log) is not None
                and partition.mirror is None
                and expire_segments(log, partition.high_watermark, now_ms)
            ):
                await asyncio.sleep(0)
            if log is not None and has_old_segments(log):
                old.append(log)
                if must_flush(log):
                    with suppress(KafkaError):  # the error is logged, and what is offline keeps its files
                        await self._replicas.flush(partition)
            if number % _LOGS_AT_A_TIME == 0:
                await asyncio.sleep(0)
        if old:
            # No other checkpoint meanwhile: it would leave out the new log starts, as file names show them.
            async with self._writing:
                await self._write(self._logs.begin_start_checkpoint())
                for log in old:
                    await self._drop(log, now_ms)
            self._remove_after({log.config.file_delete_delay_ms for log in old})

    def _remove_after(self, delays_ms: Iterable[int]) -> None:
        """As soon as dropped files are due, rather than when somebody next looks."""
        if self._timers is not None:
            for delay_ms in delays_ms:
                self._timers.after(delay_ms / 1000, self.remove_deleted)

    async def _drop(self, log: Log, now_ms: int) -> None:
        job = begin_drop(log)
        if job is not None:
            await self._run(job.run)
            finish_drop(log, job, now_ms)


def _every(timers: Timers, interval_ms: int, callback: Callable[[], None], delay_ms: int) -> None:
    """The first time after the delay."""
    seconds = max(interval_ms / 1000, _SHORTEST_SECONDS)

    def begin() -> None:
        callback()
        timers.every(seconds, callback)

    timers.after(delay_ms / 1000, begin)
