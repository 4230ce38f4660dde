"""Compaction while the broker runs: when to look for work, and where the work is done.

Invariant: what to do is decided on the loop, and results are put in place there; the work itself goes to
threads of its own, so that a compaction of an hour keeps no flush waiting. A compaction that has finished
looks for more at once; when there is nothing to do, the next look is after ``log.cleaner.backoff.ms``.
Settings count from the next look on.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from moldau.base.clock import Clock
from moldau.base.tasks import Background, Timers
from moldau.cluster.configs.broker_settings import BrokerSettings
from moldau.replication.replicas import Replicas
from moldau.storage.compaction.cleaner_worker import ProcessWorker, ThreadWorker, Worker
from moldau.storage.compaction.log_cleaner import CleanerConfig, CleaningJob, LogCleaner
from moldau.storage.directory.logs import Logs
from moldau.storage.files import Files, OsFiles
from moldau.storage.log.log import Log

log = logging.getLogger("moldau.storage.cleaner")

_SHORTEST_SECONDS = 0.1
#: An upper bound; a thread is started only when there is something for it to do.
_MOST_THREADS = 64


class LogCleaning:
    def __init__(
        self,
        files: Files,
        logs: Logs,
        replicas: Replicas,
        background: Background,
        clock: Clock,
        settings: BrokerSettings,
    ) -> None:
        self._replicas = replicas
        self._background = background
        self._clock = clock
        self._settings = settings
        #: When it last looked for work, how long the last compaction took, and how many there were.
        self.looked_at: float | None = None
        self.last_seconds = 0.0
        self.cleanings = 0
        self._threads = ThreadPoolExecutor(_MOST_THREADS, "moldau-cleaner")
        self.cleaner = LogCleaner(files, logs, _worker_for(files, clock), stable_offset=self._stable_offset)

    def _stable_offset(self, log: Log) -> int:
        """Up to where every replica in sync has the log, and no transaction is open."""
        topic, number = log.topic_partition
        replicas = self._replicas.by_name.get(topic)
        found = replicas.partitions[number] if replicas and number < len(replicas.partitions) else None
        if found is None or found.log is not log:
            return log.log_start_offset
        return log.stable_offset_below(found.high_watermark)

    def schedule(self, timers: Timers) -> None:
        """From now on for as long as the timers run."""
        if not self._settings.log_cleaner_enable:
            return

        def look() -> None:
            self.look()
            timers.after(self._pause_seconds(), look)

        timers.after(self._pause_seconds(), look)

    def _pause_seconds(self) -> float:
        backoff_ms: int = self._settings.log_cleaner_backoff_ms
        return max(backoff_ms / 1000, _SHORTEST_SECONDS)

    def look(self) -> None:
        """Begins as many compactions as there is need and capacity for."""
        self.looked_at = self._clock.monotonic()
        while (job := self._begin()) is not None:
            self._background.start(self._clean(job), "compaction")

    def _begin(self) -> CleaningJob | None:
        settings = self._settings
        return self.cleaner.begin_cleaning(
            self._clock.now_ms(),
            CleanerConfig(
                threads=settings.log_cleaner_threads,
                dedupe_buffer_size=settings.log_cleaner_dedupe_buffer_size,
                io_buffer_size=settings.log_cleaner_io_buffer_size,
                io_buffer_load_factor=settings.log_cleaner_io_buffer_load_factor,
                io_max_bytes_per_second=settings.log_cleaner_io_max_bytes_per_second,
            ),
        )

    async def _clean(self, job: CleaningJob) -> None:
        began = self._clock.monotonic()
        unfinished: CleaningJob | None = job
        while unfinished is not None:
            await self._run(unfinished.run)
            unfinished = self.cleaner.finish_cleaning(unfinished, self._clock.now_ms())
        self.last_seconds = self._clock.monotonic() - began
        self.cleanings += 1
        log.info("compacted %s in %.3f s", job.log.topic_partition, self.last_seconds)
        for checkpoint in self.cleaner.begin_checkpoint():
            await self._run(checkpoint.run)
            self.cleaner.finish_checkpoint(checkpoint)
        self.look()

    async def _run(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def close(self) -> None:
        """Ends what is under way; whatever it has written is cleared away at the next start."""
        self.cleaner.close()
        self._threads.shutdown()


def _worker_for(files: Files, clock: Clock) -> Callable[[], Worker]:
    """A disk can be reached from another process, memory cannot."""
    return ProcessWorker if isinstance(files, OsFiles) else lambda: ThreadWorker(files, clock)
