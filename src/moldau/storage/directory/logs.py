"""All logs of a broker, in one or more data directories: open, create, delete, checkpoint, close.

Invariant: what cannot be used goes offline alone: a partition with corrupt data, or a directory whose disk
fails. No data is deleted because something else is missing: what does not fit is renamed and left to a
person. Every method is called by the thread that owns the logs; only ``run`` of a job may be called in
another.
"""

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from moldau.base.clock import Clock
from moldau.base.names import TopicPartition, Uuid
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.storage.directory import checkpoints
from moldau.storage.directory.closing import close_logs
from moldau.storage.directory.directories import claim_directories, name_full_disks
from moldau.storage.directory.future_logs import settle
from moldau.storage.directory.log_directory import DELETE_SUFFIX, STRAY_SUFFIX, LogDirectory, renamed_path
from moldau.storage.directory.lost_partitions import LostPartitionError, refuse_to_begin_empty
from moldau.storage.directory.new_partitions import NewPartitions
from moldau.storage.directory.preparation import RetirementJob
from moldau.storage.errors import CorruptFileError, LostFileError, StorageError, repair_steps
from moldau.storage.files import Files
from moldau.storage.jobs import CheckpointJob, FileRemovalJob, RemovalJob
from moldau.storage.log.log import Log, LogConfig
from moldau.storage.log.lost_segments import SealedCheck
from moldau.storage.log.recovery import LogToOpen, create_log, open_in_parallel, open_log
from moldau.storage.log.trimming import expire_segments, has_old_segments, must_flush

logger = logging.getLogger("moldau.storage")

#: Files that one job removes: a broker that stops waits for one job at most.
_FILES_AT_A_TIME = 256

Progress = Callable[[int, int, TopicPartition], None]


class Logs:
    def __init__(
        self,
        files: Files,
        directories: Sequence[str],
        node_id: int,
        cluster_id: str | None,
        clock: Clock,
        *,
        config_of: Callable[[str], LogConfig] | None = None,
        recovery_threads: int = 1,
        accept_lost_files: bool = False,
        on_offline: Callable[[LogDirectory], None] = lambda directory: None,
    ) -> None:
        self.node_id = node_id
        #: Known after ``open`` at the latest: that of the directories, or a new one.
        self.cluster_id = cluster_id
        self.directories = [LogDirectory(files, path) for path in directories]
        #: Partitions whose log could not be opened, and why.
        self.failed: dict[TopicPartition, str] = {}
        self._files = files
        self._clock = clock
        self._config_of = config_of or (lambda topic: LogConfig())
        self._recovery_threads = recovery_threads
        self._accept_lost_files = accept_lost_files
        #: Those of ``failed`` of which files are gone; what is left need not be checked again.
        self._lost: set[TopicPartition] = set()
        #: Every partition that this broker has is known; until then any checkpoint may tell of a lost one.
        self._all_known = False
        self._on_offline = on_offline
        self._logs: dict[TopicPartition, Log] = {}
        self._directory_by_partition: dict[TopicPartition, LogDirectory] = {}
        self._removals: list[tuple[int, str]] = []
        #: Directories of deleted partitions that may still have their old names.
        self._retiring: dict[TopicPartition, RetirementJob] = {}
        self.new_partitions = NewPartitions(
            files, lambda: self.online, self._directory_by_partition, self._retiring, self.remove_later
        )

    @property
    def clean_broker_epoch(self) -> int:
        """The broker epoch of the process before this one if it has closed every directory cleanly, or -1."""
        epochs = {directory.clean_broker_epoch for directory in self.directories}
        return epochs.pop() if len(epochs) == 1 else -1

    # -- opening

    def open(self, progress: Progress = lambda done, total, topic_partition: None) -> None:
        """Locks every directory and opens every log in it.

        StorageError when no directory can be used, or when one is in use elsewhere or is not this broker's.
        """
        try:
            self.cluster_id = claim_directories(
                self._files, self.directories, self.node_id, self.cluster_id, self._clock, self._fail
            )
        except StorageError:
            self._release()
            raise
        now_ms = self._clock.now_ms()
        self._removals += ((now_ms, path) for directory in self.online for path in directory.leftovers())
        found = self._found()
        work = [
            (log_directory.path, to_open, self.failure_in(log_directory)) for log_directory, to_open in found
        ]
        outcomes = open_in_parallel(self._files, work, self._recovery_threads)
        for done, ((log_directory, to_open), outcome) in enumerate(zip(found, outcomes, strict=True), 1):
            self._register_outcome(log_directory, to_open, outcome)
            progress(done, len(found), to_open.topic_partition)

        name_full_disks(self.online)

    def _found(self) -> list[tuple[LogDirectory, LogToOpen]]:
        found: dict[TopicPartition, list[tuple[LogDirectory, LogToOpen]]] = {}
        for directory in self.online:
            try:
                openings = self._openings(directory)
            except OSError as error:
                self._fail(directory, str(error))
                continue
            for to_open in openings:
                found.setdefault(to_open.topic_partition, []).append((directory, to_open))
        return [
            candidates[0] if len(candidates) == 1 else settle(self._files, candidates, self._retire)
            for candidates in found.values()
        ]

    def _openings(self, directory: LogDirectory) -> list[LogToOpen]:
        """What is known of the logs in a directory before they are opened."""
        now_ms = self._clock.now_ms()
        partitions = directory.partitions()
        if partitions and not directory.clean:
            message = "%s was not closed in order: checking %d logs from their recovery points on, %d at once"
            message += "; 'moldau log verify %s --running' looks at what is older"
            logger.warning(message, directory.path, len(partitions), self._recovery_threads, directory.path)
        return [
            LogToOpen(
                topic_partition,
                self._topic_id(path),
                path,
                self._config_of(topic_partition.topic),
                directory.clean,
                directory.recovery_points.get(topic_partition, 0),
                directory.log_start_offsets.get(topic_partition, 0),
                now_ms,
                self._accept_lost_files,
            )
            for topic_partition, path in partitions
        ]

    def _register_outcome(
        self, log_directory: LogDirectory, to_open: LogToOpen, outcome: Log | Exception
    ) -> None:
        topic_partition = to_open.topic_partition
        if isinstance(outcome, Log):
            self._register(outcome, log_directory)
            return
        self._directory_by_partition[topic_partition] = log_directory
        # The other partitions are served all the same.
        reason = str(outcome)
        if isinstance(outcome, LostFileError):
            self._lost.add(topic_partition)
        elif isinstance(outcome, StorageError):
            reason += f"; {repair_steps(to_open.directory)}"
        logger.error("%s is offline: %s", topic_partition, reason)
        self.failed[topic_partition] = reason

    def _register(self, log: Log, log_directory: LogDirectory) -> None:
        self._logs[log.topic_partition] = log
        self._directory_by_partition[log.topic_partition] = log_directory
        log.before_truncation = lambda: self._checkpoint_now(log_directory)

    def _topic_id(self, path: str) -> Uuid | None:
        try:
            return checkpoints.read_topic_id(self._files, path)
        except CorruptFileError as error:
            logger.warning("topic id not known: %s", error)
            return None

    # -- finding

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.offline is None]

    def __iter__(self) -> Iterator[Log]:
        return iter(self._logs.values())

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, topic_partition: TopicPartition) -> Log | None:
        return self._logs.get(topic_partition)

    def directory_of(self, topic_partition: TopicPartition) -> LogDirectory | None:
        return self._directory_by_partition.get(topic_partition)

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """As of the last checkpoint before the start; 0 when there was none."""
        log_directory = self._directory_by_partition.get(topic_partition)
        return 0 if log_directory is None else log_directory.high_watermarks.get(topic_partition, 0)

    # -- creating and deleting

    def open_partition(
        self, topic_partition: TopicPartition, topic_id: Uuid, config: LogConfig, *, is_new: bool = True
    ) -> Log:
        """The log of a partition that this broker has a replica of; created if there is none.

        A log of another topic with the same name is renamed, not overwritten. KAFKA_STORAGE_ERROR when the
        data cannot be used, is lost, or may be in a directory that is offline (unless the partition
        ``is_new`` since this start).
        """
        if topic_partition in self.failed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.failed[topic_partition])
        log = self._logs.get(topic_partition)
        if log is not None and log.topic_id not in (None, topic_id):
            self._rename_to_stray(topic_partition)
            log = None
        if log is None:
            offline = [directory.path for directory in self.directories if directory.offline is not None]
            if offline and not is_new:
                where = ", ".join(offline)
                message = (
                    f"{topic_partition} is in none of the directories in use; {where} may have it: "
                    "bring that back and start the broker again"
                )
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
            if not is_new:
                self._look_for_lost(topic_partition)
            return self.create(topic_partition, topic_id, config)
        if log.topic_id is None:
            checkpoints.write_topic_id(self._files, log.directory, topic_id)
            log.topic_id = topic_id
        log.config = config
        return log

    def _look_for_lost(self, topic_partition: TopicPartition) -> None:
        try:
            refuse_to_begin_empty(topic_partition, self.online, accept=self._accept_lost_files)
        except LostPartitionError as error:
            self._directory_by_partition[topic_partition] = error.directory
            self.failed[topic_partition] = error.message or ""
            self._lost.add(topic_partition)
            raise

    def create(self, topic_partition: TopicPartition, topic_id: Uuid, config: LogConfig) -> Log:
        """An empty log, in the directory that a job has made for it, or in one that is made now."""
        assert topic_partition not in self._logs, f"{topic_partition} exists"
        new = self.new_partitions.take_made(topic_partition, topic_id)
        if new is None:
            new = self.new_partitions.choose(topic_partition, topic_id)
            if new.log_directory.has_checkpointed(topic_partition):
                self._checkpoint_now(new.log_directory)
            self._finish_retiring(topic_partition)
            new.make(self._files)
        path = new.path
        to_open = LogToOpen(topic_partition, topic_id, path, config, True, 0, 0, self._clock.now_ms())
        try:
            if new.error is not None:
                raise new.error
            created = create_log(self._files, to_open, self.failure_in(new.log_directory), file_exists=True)
        except OSError as error:
            logger.error("%s cannot be created: %s", path, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} cannot be created: {error}") from error
        self._register(created, new.log_directory)
        return created

    def adopt(
        self,
        prepared: str,
        log_directory: LogDirectory,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        log_start_offset: int,
    ) -> Log:
        """Opens the complete and cleanly closed log at ``prepared``, under the name of the partition.

        The caller has made sure that no topic of this name is in use; one that comes at this moment wins.
        """
        if self.new_partitions.is_making(topic_partition):
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"{topic_partition} is being made.")
        if topic_partition in self.failed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.failed[topic_partition])
        if topic_partition in self._logs:
            self._rename_to_stray(topic_partition)
        if log_directory.has_checkpointed(topic_partition):
            self._checkpoint_now(log_directory)
        self._finish_retiring(topic_partition)
        path = f"{log_directory.path}/{topic_partition}"
        now_ms = self._clock.now_ms()
        to_open = LogToOpen(topic_partition, topic_id, path, config, True, 0, log_start_offset, now_ms)
        try:
            self._files.rename(prepared, path)
            try:
                adopted = open_log(self._files, to_open, self.failure_in(log_directory))
            except (OSError, StorageError):
                self._files.rename(path, prepared)
                raise
        except (OSError, StorageError) as error:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{path} cannot be taken into use: {error}"
            ) from error
        self._register(adopted, log_directory)
        return adopted

    def begin_forgetting(self, partitions: Iterable[TopicPartition]) -> list[CheckpointJob]:
        """Jobs after which checkpoints name no deleted ones of these; else ``create`` waits for the disk."""
        deleted = [each for each in partitions if each not in self._logs]
        stale = [each for each in self.online if any(map(each.has_checkpointed, deleted))]
        return [self._checkpoint_job(directory) for directory in stale]

    def _checkpoint_job(self, log_directory: LogDirectory) -> CheckpointJob:
        logs = self._logs_in(log_directory)
        contents = {
            checkpoints.RECOVERY_POINT_FILE: self._recovery_points(log_directory, logs),
            checkpoints.LOG_START_OFFSET_FILE: self._log_starts(log_directory, logs),
        }
        return CheckpointJob(log_directory, contents)

    def _checkpoint_now(self, log_directory: LogDirectory) -> None:
        """Writes recovery points and log start offsets in this thread, where those on disk are too high: of a
        partition that was deleted and is created again, and of a log that is about to be truncated."""
        job = self._checkpoint_job(log_directory)
        job.run()
        self.finish_checkpoint(job)
        if job.error is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(job.error)) from job.error

    def delete(self, topic_partition: TopicPartition) -> None:
        """Takes a partition out of use; its files are removed by ``step`` after file.delete.delay.ms."""
        job = self.begin_deletion(topic_partition)
        if job is not None:
            job.run()
            self.finish_deletion(job)

    def begin_deletion(self, topic_partition: TopicPartition) -> RetirementJob | None:
        """Takes a partition out of use at once; the job, for another thread, takes its directory away."""
        taken, log_directory = self._forget(topic_partition)
        if log_directory is None:
            return None
        path = f"{log_directory.path}/{topic_partition}"
        target = renamed_path(path, self._files.unique_hex(), DELETE_SUFFIX)
        delay_ms = (LogConfig() if taken is None else taken.config).file_delete_delay_ms
        job = RetirementJob(self._files, topic_partition, path, target, delay_ms)
        self._retiring[topic_partition] = job
        return job

    def finish_deletion(self, job: RetirementJob) -> None:
        if self._retiring.get(job.topic_partition) is job:
            del self._retiring[job.topic_partition]
        if job.target is not None:
            self.remove_later(job.target, job.delay_ms)

    def _finish_retiring(self, topic_partition: TopicPartition) -> None:
        """The name of a partition is needed again before its directory was renamed elsewhere."""
        job = self._retiring.get(topic_partition)
        if job is not None:
            job.run()

    def _forget(self, topic_partition: TopicPartition) -> tuple[Log | None, LogDirectory | None]:
        """A partition is no longer one of this node: its log, which may not be used, and where it is."""
        taken = self._logs.pop(topic_partition, None)
        log_directory = self._directory_by_partition.pop(topic_partition, None)
        self.failed.pop(topic_partition, None)
        self._lost.discard(topic_partition)
        if log_directory is not None:
            log_directory.forget(topic_partition)
            if taken is not None:
                taken.mark_offline("it was deleted")
        return taken, log_directory

    def exchange(
        self, log: Log, log_directory: LogDirectory, opening: Callable[[Callable[[], None]], Log]
    ) -> Log:
        """``opening`` makes another log that of the partition; it calls what it is given to retire this one.

        Whoever reads the old files is not disturbed: they go after file.delete.delay.ms.
        """
        topic_partition = log.topic_partition
        if log_directory.has_checkpointed(topic_partition):
            self._checkpoint_now(log_directory)

        delay_ms = log.config.file_delete_delay_ms
        opened = opening(lambda: log.moved_to(self._retire(log.directory, delay_ms)))
        self._directory_by_partition[topic_partition].forget(topic_partition)
        self._register(opened, log_directory)
        return opened

    def _retire(self, path: str, delay_ms: int = 0) -> str:
        """The directory is no longer that of a partition, and will be removed."""
        target = renamed_path(path, self._files.unique_hex(), DELETE_SUFFIX)
        self._files.rename(path, target)
        self.remove_later(target, delay_ms)
        return target

    def remove_later(self, path: str, delay_ms: int = 0) -> None:
        self._removals.append((self._clock.now_ms() + delay_ms, path))

    def _rename_to_stray(self, topic_partition: TopicPartition) -> None:
        path = self._leave_to_a_person(topic_partition)
        logger.warning("%s is of a topic or replica that is no more, and is now %s", topic_partition, path)

    def _leave_to_a_person(self, topic_partition: TopicPartition) -> str | None:
        """Takes a partition out of use and keeps its files under a name that is never removed; the name."""
        taken, log_directory = self._forget(topic_partition)
        if log_directory is None:
            return None
        path = f"{log_directory.path}/{topic_partition}"
        if taken is None and not self._files.exists(path):
            return None
        target = renamed_path(path, self._files.unique_hex(), STRAY_SUFFIX)
        try:
            self._files.rename(path, target)
        except OSError as error:
            logger.error("%s cannot be renamed: %s", path, error)
            return None
        logger.info("%s renamed to %s", path, target)
        return target

    def set_aside(self, topic_partition: TopicPartition) -> bool:
        """What is left of a log that cannot be used gets another name, so that a copy may begin anew.

        True also where nothing is left, because it could not be created; False when its disk lets nothing go.
        """
        reason = self.failed.get(topic_partition)
        if reason is None:
            return topic_partition not in self._directory_by_partition
        log_directory = self._directory_by_partition[topic_partition]
        path = self._leave_to_a_person(topic_partition)
        if self._files.exists(f"{log_directory.path}/{topic_partition}"):
            self.failed[topic_partition] = reason
            self._directory_by_partition[topic_partition] = log_directory
            return False
        left = "" if path is None else f"; what is left of it is now {path}"
        logger.warning("%s is copied again from its leader: %s%s", topic_partition, reason, left)
        return True

    # -- maintenance

    def step(self, now_ms: int) -> None:
        """Removes deleted files whose file.delete.delay.ms is over, in this thread."""
        for job in self.begin_removals(now_ms):
            job.run()

    def begin_removals(self, now_ms: int) -> list[RemovalJob | FileRemovalJob]:
        """Jobs that remove deleted partitions and segments whose file.delete.delay.ms is over."""
        due = [path for due_ms, path in self._removals if due_ms <= now_ms]
        self._removals = [removal for removal in self._removals if removal[0] > now_ms]
        jobs: list[RemovalJob | FileRemovalJob] = [RemovalJob(self._files, path) for path in due]
        dropped = [path for log in self._logs.values() for path in log.segments.take_due(now_ms)]
        pieces = (dropped[at : at + _FILES_AT_A_TIME] for at in range(0, len(dropped), _FILES_AT_A_TIME))
        jobs += (FileRemovalJob(self._files, piece) for piece in pieces)
        return jobs

    def apply_retention(self, high_watermarks: Mapping[TopicPartition, int], now_ms: int) -> int:
        """Deletes what retention does not keep, in the order of ``trimming``; returns how many segments."""
        for topic_partition, log in self._logs.items():
            high_watermark = high_watermarks.get(topic_partition, self.high_watermark(topic_partition))
            while expire_segments(log, high_watermark, now_ms):
                pass
            if must_flush(log):
                with suppress(KafkaError):  # the log has reported it, and offline logs keep their files
                    log.flush()
        for job in self.begin_start_checkpoint():
            job.run()
            self.finish_checkpoint(job)
        return self.delete_old_segments(now_ms)

    def delete_old_segments(self, now_ms: int) -> int:
        """Deletes segments below the log start offset of their log; returns how many."""
        return sum(log.delete_old_segments(now_ms) for log in self._logs.values())

    def sealed_check(self, log: Log) -> SealedCheck:
        """A check of the names and the order of sealed segments; ``run`` may be called in any thread."""
        return SealedCheck(self._files, log)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Removes producers that were idle for ``producer.id.expiration.ms``; returns how many."""
        return sum(log.producers.expire(now_ms, expiration_ms) for log in self._logs.values())

    def begin_checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> list[CheckpointJob]:
        """Jobs that write the checkpoint files; ``run`` of a job may be called in any thread."""
        jobs = []
        for directory in self.online:
            logs = self._logs_in(directory)
            places = [log.topic_partition for log in logs]
            contents = {
                checkpoints.RECOVERY_POINT_FILE: self._recovery_points(directory, logs),
                checkpoints.HIGH_WATERMARK_FILE: {
                    **self._entries_of_failed(directory, directory.high_watermarks),
                    **{tp: high_watermarks.get(tp, self.high_watermark(tp)) for tp in places},
                },
                checkpoints.LOG_START_OFFSET_FILE: self._log_starts(directory, logs),
            }
            jobs.append(CheckpointJob(directory, contents))
        return jobs

    def begin_start_checkpoint(self) -> list[CheckpointJob]:
        """Only the log start offsets, and only where segments are to be deleted because of them."""
        jobs = []
        for directory in self.online:
            logs = self._logs_in(directory)
            if any(has_old_segments(log) for log in logs):
                contents = {checkpoints.LOG_START_OFFSET_FILE: self._log_starts(directory, logs)}
                jobs.append(CheckpointJob(directory, contents))
        return jobs

    def _logs_in(self, directory: LogDirectory) -> list[Log]:
        directories = self._directory_by_partition
        return [
            log for topic_partition, log in self._logs.items() if directories[topic_partition] is directory
        ]

    def _recovery_points(self, directory: LogDirectory, logs: list[Log]) -> dict[TopicPartition, int]:
        return {
            **self._entries_of_failed(directory, directory.recovery_points),
            **{log.topic_partition: log.recovery_point for log in logs},
        }

    def _log_starts(self, directory: LogDirectory, logs: list[Log]) -> dict[TopicPartition, int]:
        """Those that differ from the base offset of the first segment."""
        return {
            **self._entries_of_failed(directory, directory.log_start_offsets),
            **{
                log.topic_partition: log.log_start_offset
                for log in logs
                if log.log_start_offset > log.first_segment_offset
            },
        }

    def _entries_of_failed(
        self, directory: LogDirectory, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The old entries of partitions that could not be opened, or may yet be missed."""
        return {
            tp: offset
            for tp, offset in offsets.items()
            if tp not in self._logs
            and (not self._all_known or self._directory_by_partition.get(tp) is directory)
        }

    def all_are_known(self, used: Container[TopicPartition]) -> None:
        """Other entries, and logs, are of topics or replicas that went while this broker was away."""
        self._all_known = True
        for unused in [each for each in self._logs if each not in used and not self._accept_lost_files]:
            self._rename_to_stray(unused)

    def finish_checkpoint(self, job: CheckpointJob) -> None:
        if job.error is not None:
            logger.error("%s: checkpoints cannot be written: %s", job.directory.path, job.error)

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Writes all checkpoint files in this thread."""
        for job in self.begin_checkpoint(high_watermarks):
            job.run()
            self.finish_checkpoint(job)

    # -- failing and closing

    def failure_in(self, directory: LogDirectory) -> Callable[[str, OSError], None]:
        return lambda path, error: self._fail(directory, f"{path}: {error}")

    def _fail(self, directory: LogDirectory, reason: str) -> None:
        if not directory.mark_offline(reason):
            return
        message = "data directory %s is offline until the next start: %s. Next: see to the disk; %s"
        logger.error(message, directory.path, reason, repair_steps(directory.path))
        for topic_partition, log_directory in self._directory_by_partition.items():
            if log_directory is directory and topic_partition in self._logs:
                self._logs[topic_partition].mark_offline(reason)
        self._on_offline(directory)

    def close(
        self, high_watermarks: Mapping[TopicPartition, int] | None = None, broker_epoch: int = 0
    ) -> None:
        """Writes and flushes everything, and marks the directories that are online as cleanly shut down."""
        for retirement in self._retiring.values():
            retirement.run()
        in_use = ((log, self._directory_by_partition[log.topic_partition]) for log in self._logs.values())
        failed = close_logs(in_use, self._fail)
        for job in self.begin_checkpoint(high_watermarks or {}):
            job.run()
            self.finish_checkpoint(job)
            if job.error is not None:
                failed.add(job.directory)
        # Partitions that could not be opened are to be checked again at the next start.
        failed |= {self._directory_by_partition[each] for each in self.failed if each not in self._lost}
        for directory in self.online:
            if directory not in failed:
                directory.mark_clean(broker_epoch)
        self._release()

    def abandon(self) -> None:
        """Lets go of the directories as a process that dies does: nothing is written or marked as clean."""
        self._release()

    def _release(self) -> None:
        for directory in self.directories:
            directory.release()
