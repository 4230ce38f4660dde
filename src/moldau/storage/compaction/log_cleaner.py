"""The log cleaner: which log to compact next, who does the work, and putting the result in place.

A result is used only if the log has not changed in between: if anything of it was deleted, truncated or
moved, the result is discarded. A crash at any moment leaves the old segments or the new one. A log with a
corrupt batch is not compacted again before the next start, and nothing of it is lost.

Invariant: everything runs in the thread that owns the logs, except ``CleaningJob.run``, which may run in
any other.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from moldau.base.names import TopicPartition
from moldau.protocol.errors import KafkaError
from moldau.storage.compaction.cleaned_batch import LastRecord
from moldau.storage.compaction.cleaned_segment import remove_leftovers
from moldau.storage.compaction.cleaner_worker import Worker
from moldau.storage.compaction.cleaning import (
    CleanedGroup,
    CleaningAbortedError,
    CleaningPlan,
    CleaningStep,
    SegmentToClean,
)
from moldau.storage.compaction.log_to_clean import LogToClean, measure_dirtiness
from moldau.storage.compaction.swap import remove_swap_files, rename_to_swap, replace_segments
from moldau.storage.directory import checkpoints
from moldau.storage.directory.log_directory import LogDirectory
from moldau.storage.directory.logs import Logs
from moldau.storage.errors import CorruptFileError, CorruptLogError, StorageError, repair_steps
from moldau.storage.files import Files
from moldau.storage.jobs import CheckpointJob
from moldau.storage.log.log import Log
from moldau.storage.log.segment import Segment

logger = logging.getLogger("moldau.storage")


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    """The ``log.cleaner.*`` settings, for all compactions together."""

    threads: int = 1
    dedupe_buffer_size: int = 134_217_728
    io_buffer_size: int = 524_288
    io_buffer_load_factor: float = 0.9
    io_max_bytes_per_second: float = float("inf")


class Stage(Enum):
    """What a job does next."""

    CLEANING = auto()
    #: A group was renamed to ``.swap``; it replaces the old segments once the renames are flushed.
    SWAPPING = auto()


class CleaningJob:
    """One compaction: ``run`` does a step in any thread, ``LogCleaner.finish_cleaning`` takes its result."""

    def __init__(
        self, files: Files, log: Log, plan: CleaningPlan, segments: list[Segment], worker: Worker
    ) -> None:
        self.log = log
        self.plan = plan
        #: The segments that the plan was made from, by base offset.
        self.segments = {segment.base_offset: segment for segment in segments}
        self.worker = worker
        self.step: CleaningStep | None = None
        self.stage = Stage.CLEANING
        self.error: OSError | StorageError | CleaningAbortedError | None = None
        self._files = files
        self._has_begun = False

    def run(self) -> None:
        """May take long; the outcome is in ``step`` or ``error``."""
        try:
            if self.stage is Stage.SWAPPING:
                self._files.flush_directory(self.plan.directory)
                return
            if not self._has_begun:
                self._has_begun = True
                self.worker.begin(self.plan)
            elif self.step is not None and self.step.group is not None:
                remove_swap_files(self._files, self.plan.directory, self.step.group)
            self.step = self.worker.step()
        except (OSError, StorageError, CleaningAbortedError) as error:
            self.error = error


class LogCleaner:
    def __init__(
        self,
        files: Files,
        logs: Logs,
        new_worker: Callable[[], Worker],
        *,
        stable_offset: Callable[[Log], int] = lambda log: log.last_stable_offset,
    ) -> None:
        """``stable_offset``: up to where a log is replicated and has no open transaction."""
        #: Partitions with a corrupt batch, and what is wrong with them.
        self.uncleanable: dict[TopicPartition, str] = {}
        self.jobs: list[CleaningJob] = []
        #: The largest part of a log that was not compacted yet, at the last look.
        self.max_dirty_ratio = 0.0
        self._files = files
        self._logs = logs
        self._new_worker = new_worker
        self._stable_offset = stable_offset
        self._idle: list[Worker] = []
        #: Up to where logs are compacted. The key is the log, since another one may get the same name.
        self._offsets: dict[Log, int] = {}
        self._changed: set[LogDirectory] = set()
        self._closed = False
        for directory in logs.online:
            self._read_offsets(directory)

    def _read_offsets(self, directory: LogDirectory) -> None:
        try:
            path = f"{directory.path}/{checkpoints.CLEANER_OFFSET_FILE}"
            known = checkpoints.read_offsets(self._files, path)
        except CorruptFileError as error:
            logger.warning("everything is compacted anew: %s", error)
            return
        for log in self._logs:
            offset = known.get(log.topic_partition)
            if offset is not None and self._logs.directory_of(log.topic_partition) is directory:
                self._offsets[log] = offset

    # -- beginning

    def begin_cleaning(self, now_ms: int, cleaner_config: CleanerConfig) -> CleaningJob | None:
        """Begins the next compaction; None when nothing is dirty enough or ``threads`` are running."""
        self._forget_deleted_logs()
        if self._closed or len(self.jobs) >= cleaner_config.threads:
            return None
        assessed = [found for log in self._logs if (found := self._assess(log, now_ms))]
        self.max_dirty_ratio = max((each.dirty_ratio for each in assessed), default=0.0)
        due = [found for found in assessed if found.is_due]
        for found in sorted(due, key=lambda each: each.dirty_ratio, reverse=True):
            job = self._begin(found, now_ms, cleaner_config)
            if job is not None:
                return job
        if not self.jobs:
            # A worker may be a process, which is not kept while there is nothing to do.
            while self._idle:
                self._idle.pop().stop()
        return None

    def _forget_deleted_logs(self) -> None:
        for job in self.jobs:
            if not self._is_current(job.log):
                job.worker.stop()
        for log in [log for log in self._offsets if not self._is_current(log)]:
            del self._offsets[log]
            self._changed.update(self._logs.online)
        for topic_partition in [known for known in self.uncleanable if self._logs.get(known) is None]:
            del self.uncleanable[topic_partition]

    def _is_current(self, log: Log) -> bool:
        return log.offline is None and self._logs.get(log.topic_partition) is log

    def _assess(self, log: Log, now_ms: int) -> LogToClean | None:
        if not log.config.compact or log.offline is not None or log.cleaning is not None or log.moving:
            return None
        if len(log.segments) == 1 or log.topic_partition in self.uncleanable:
            return None
        self._check_truncation(log)
        try:
            return measure_dirtiness(log, self._offsets.get(log), self._stable_offset(log), now_ms)
        except (CorruptLogError, OSError) as error:
            self._mark_uncleanable(log, error)
            return None

    def _check_truncation(self, log: Log) -> None:
        """What was written after a truncation has not been compacted."""
        offset = log.segments.take_lowest_truncation()
        if offset is not None and offset < self._offsets.get(log, 0):
            self._offsets[log] = offset
            self._mark_changed(log)

    def _begin(self, found: LogToClean, now_ms: int, cleaner_config: CleanerConfig) -> CleaningJob | None:
        log = found.log
        segments = [each for each in log.segments if each.base_offset < found.first_uncleanable_offset]
        try:
            plan = self._plan(found, segments, now_ms, cleaner_config)
        except KafkaError as error:
            self._mark_uncleanable(log, error)
            return None
        worker = self._idle.pop() if self._idle else self._new_worker()
        job = CleaningJob(self._files, log, plan, segments, worker)
        log.cleaning = job
        self.jobs.append(job)
        return job

    def _plan(
        self, found: LogToClean, segments: list[Segment], now_ms: int, cleaner_config: CleanerConfig
    ) -> CleaningPlan:
        log, config = found.log, found.log.config
        return CleaningPlan(
            topic_partition=log.topic_partition,
            directory=log.directory,
            segments=tuple(SegmentToClean(each.base_offset, each.size) for each in segments),
            first_dirty_offset=found.first_dirty_offset,
            end_offset=found.first_uncleanable_offset,
            aborted=tuple(log.aborted_transactions(segments[0].base_offset, found.first_uncleanable_offset)),
            last_records={
                producer.producer_id: LastRecord(producer.last_offset, producer.epoch)
                for producer in log.active_producers()
            },
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            memory_bytes=cleaner_config.dedupe_buffer_size // max(1, cleaner_config.threads),
            load_factor=cleaner_config.io_buffer_load_factor,
            read_bytes=cleaner_config.io_buffer_size,
            bytes_per_second=cleaner_config.io_max_bytes_per_second / max(1, cleaner_config.threads),
        )

    def _mark_uncleanable(self, log: Log, error: Exception) -> None:
        self.uncleanable[log.topic_partition] = str(error)
        logger.error(
            "%s is not compacted any more until the next start; nothing of it is lost: %s. Next: %s",
            log.topic_partition,
            error,
            repair_steps(log.directory),
        )

    # -- finishing

    def finish_cleaning(self, job: CleaningJob, now_ms: int) -> CleaningJob | None:
        """Takes the result of a step; the job if it has to be run again, None when it is over."""
        if self._continues(job, now_ms):
            return job
        self.jobs.remove(job)
        job.log.cleaning = None
        if job.error is None and not self._closed:
            self._idle.append(job.worker)
        else:
            job.worker.stop()
        return None

    def _continues(self, job: CleaningJob, now_ms: int) -> bool:
        log = job.log
        if self._closed or not self._is_current(log) or log.segments.was_truncated:
            self._discard(job)
            return False
        if job.error is not None:
            self._discard(job)
            self._report_failure(log, job.error)
            return False
        assert job.step is not None
        if job.step.group is None:
            self._complete(job, job.step)
            return False
        return self._replace_segments(job, job.step.group, now_ms)

    def _discard(self, job: CleaningJob) -> None:
        try:
            remove_leftovers(self._files, job.plan.directory)
        except OSError as error:
            # They are removed by the next compaction of the log, or at the next start.
            logger.debug("%s: %s", job.log.topic_partition, error)

    def _report_failure(self, log: Log, error: OSError | StorageError | CleaningAbortedError) -> None:
        if isinstance(error, CorruptLogError):
            self._mark_uncleanable(log, error)
        elif isinstance(error, FileNotFoundError) or not isinstance(error, OSError):
            logger.warning("%s: the compaction came to nothing: %s", log.topic_partition, error)
        else:
            log.handle_disk_error("compact", error)

    def _replace_segments(self, job: CleaningJob, group: CleanedGroup, now_ms: int) -> bool:
        log = job.log
        old = [job.segments[base_offset] for base_offset in group.base_offsets]
        if not log.segments.contains_all(old):
            self._discard(job)
            return False
        try:
            if job.stage is Stage.CLEANING:
                rename_to_swap(self._files, log.directory, group)
                job.stage = Stage.SWAPPING
            else:
                due_ms = now_ms + log.config.file_delete_delay_ms
                replace_segments(self._files, log.segments, old, group, due_ms)
                job.stage = Stage.CLEANING
        except OSError as error:
            # It is not known which names the files have now; the next start completes the swap.
            log.handle_disk_error("put compacted segments in place", error)
            log.mark_offline(str(error))
            return False
        return True

    def _complete(self, job: CleaningJob, step: CleaningStep) -> None:
        log, stats = job.log, step.stats
        self._offsets[log] = step.next_dirty_offset
        self._mark_changed(log)
        if stats.without_key:
            logger.warning(
                "%s: %d records without a key were dropped: a compacted topic cannot keep them",
                log.topic_partition,
                stats.without_key,
            )
        logger.info(
            "%s: compacted up to offset %d: %d of %d records stay, %d of %d bytes",
            log.topic_partition,
            step.next_dirty_offset,
            stats.records_retained,
            stats.records_read,
            stats.bytes_written,
            stats.bytes_read,
        )

    # -- the cleaner offset checkpoint

    def offset_of(self, log: Log) -> int | None:
        """Up to where the log is compacted; None when it never was."""
        return self._offsets.get(log)

    def _mark_changed(self, log: Log) -> None:
        directory = self._logs.directory_of(log.topic_partition)
        if directory is not None:
            self._changed.add(directory)

    def begin_checkpoint(self) -> list[CheckpointJob]:
        """Jobs that write cleaner-offset-checkpoint where it has changed, to be run one at a time."""
        changed, self._changed = self._changed, set()
        jobs = []
        for directory in changed:
            offsets = {
                log.topic_partition: offset
                for log, offset in self._offsets.items()
                if self._logs.directory_of(log.topic_partition) is directory and self._is_current(log)
            }
            contents = {checkpoints.CLEANER_OFFSET_FILE: offsets}
            jobs.append(CheckpointJob(directory, contents))
        return jobs

    def finish_checkpoint(self, job: CheckpointJob) -> None:
        if job.error is not None:
            # An old offset only means that a part of the log is compacted twice.
            logger.error("%s: the offsets of compaction cannot be written: %s", job.directory.path, job.error)
            self._changed.add(job.directory)

    def close(self) -> None:
        """Stops the running compactions; no other is begun after this."""
        self._closed = True
        for worker in [*self._idle, *(job.worker for job in self.jobs)]:
            worker.stop()
        self._idle.clear()
