"""All logs of a node, in one or more data directories: open, create, delete, checkpoint, close.

Law: what cannot be used goes offline alone: a partition with rotten data, a directory whose disk fails. No
data is deleted because something else is missing: what does not fit is renamed and left to a person. Every
method is called by the thread that owns the logs, but for ``run`` of a job.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from moldau.base.clock import Clock
from moldau.base.names import TopicPartition, Uuid
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.storage import checkpoints
from moldau.storage.errors import CorruptFileError, StorageError
from moldau.storage.files import Files
from moldau.storage.flush import FlushJob, run_all
from moldau.storage.log import Log, LogConfig
from moldau.storage.log_directory import DELETE_SUFFIX, STRAY_SUFFIX, LogDirectory, new_id, renamed
from moldau.storage.recovery import Opening, create_log, open_log

log = logging.getLogger("moldau.storage")

Progress = Callable[[int, int, TopicPartition], None]


class CheckpointJob:
    """The checkpoint files of one directory, ready to be written by any thread."""

    __slots__ = ("_contents", "_files", "directory", "error")

    def __init__(
        self, files: Files, directory: LogDirectory, contents: dict[str, dict[TopicPartition, int]]
    ) -> None:
        self.directory = directory
        self.error: OSError | None = None
        self._files = files
        self._contents = contents

    def run(self) -> None:
        try:
            for name, offsets in self._contents.items():
                checkpoints.write_offsets(self._files, f"{self.directory.path}/{name}", offsets)
        except OSError as error:
            self.error = error


class RemovalJob:
    """The files of one deleted partition."""

    __slots__ = ("_files", "path")

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self._files = files

    def run(self) -> None:
        try:
            self._files.remove_tree(self.path)
            log.info("%s removed", self.path)
        except OSError as error:
            log.error("%s cannot be removed: %s", self.path, error)


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
        on_offline: Callable[[LogDirectory], None] = lambda directory: None,
    ) -> None:
        self.node_id = node_id
        #: Known after ``open`` at the latest: what the directories say, or a new one.
        self.cluster_id = cluster_id
        self.directories = [LogDirectory(files, path) for path in directories]
        #: Partitions whose log could not be opened, and why.
        self.failed: dict[TopicPartition, str] = {}
        self._files = files
        self._clock = clock
        self._config_of = config_of or (lambda topic: LogConfig())
        self._on_offline = on_offline
        self._logs: dict[TopicPartition, Log] = {}
        self._homes: dict[TopicPartition, LogDirectory] = {}
        self._removals: list[tuple[int, str]] = []

    # -- opening

    def open(self, progress: Progress = lambda done, total, topic_partition: None) -> None:
        """Takes every directory and opens every log in it.

        StorageError when no directory can be used, when one is in use elsewhere or belongs to someone else.
        """
        try:
            self._take_directories()
        except StorageError:
            self._release()
            raise
        found = [
            (directory, topic_partition, path)
            for directory in self.online
            for topic_partition, path in directory.partitions()
        ]
        for done, (directory, topic_partition, path) in enumerate(found, 1):
            self._open_one(directory, topic_partition, path)
            progress(done, len(found), topic_partition)

    def _take_directories(self) -> None:
        identities = {}
        for directory in self.directories:
            try:
                identities[directory] = directory.take()
            except OSError as error:
                self._fail(directory, str(error))
        if not identities:
            reasons = "; ".join(f"{d.path}: {d.offline}" for d in self.directories)
            raise StorageError(f"no data directory can be used: {reasons}")
        if self.cluster_id is None:
            known = next((found.cluster_id for found in identities.values() if found is not None), None)
            self.cluster_id = known or new_id(self._files)
        for directory, identity in identities.items():
            comment = f"written at {self._clock.now_ms()} ms"
            directory.identify(identity, self.node_id, self.cluster_id, comment)
            directory.read_checkpoints()
            now_ms = self._clock.now_ms()
            self._removals += ((now_ms, path) for path in directory.leftovers())

    def _open_one(self, directory: LogDirectory, topic_partition: TopicPartition, path: str) -> None:
        if topic_partition in self._logs:
            reason = f"{path} and {self._logs[topic_partition].directory} hold the same partition"
            log.error("%s", reason)
            return
        opening = Opening(
            topic_partition,
            self._topic_id(path),
            path,
            self._config_of(topic_partition.topic),
            directory.clean,
            directory.recovery_points.get(topic_partition, 0),
            directory.log_start_offsets.get(topic_partition, 0),
            self._clock.now_ms(),
        )
        try:
            opened = open_log(self._files, opening, self._failure_in(directory))
        except (StorageError, OSError, KafkaError) as error:
            # One bad partition must not keep the others from being served.
            log.error("%s is offline: %s", topic_partition, error)
            self.failed[topic_partition] = str(error)
            self._homes[topic_partition] = directory
            return
        self._logs[topic_partition] = opened
        self._homes[topic_partition] = directory

    def _topic_id(self, path: str) -> Uuid | None:
        try:
            return checkpoints.read_topic_id(self._files, path)
        except CorruptFileError as error:
            log.warning("topic id not known: %s", error)
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
        return self._homes.get(topic_partition)

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """As of the last checkpoint before the start; 0 when there was none."""
        home = self._homes.get(topic_partition)
        return 0 if home is None else home.high_watermarks.get(topic_partition, 0)

    # -- creating and deleting

    def open_partition(self, topic_partition: TopicPartition, topic_id: Uuid, config: LogConfig) -> Log:
        """The log of a partition that this node has to hold, made if there is none.

        A log of another topic with the same name is put aside, not overwritten. KAFKA_STORAGE_ERROR
        when the data is there and cannot be used.
        """
        if topic_partition in self.failed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.failed[topic_partition])
        held = self._logs.get(topic_partition)
        if held is not None and held.topic_id not in (None, topic_id):
            self._put_aside(topic_partition)
            held = None
        if held is None:
            return self.create(topic_partition, topic_id, config)
        if held.topic_id is None:
            checkpoints.write_topic_id(self._files, held.directory, topic_id)
            held.topic_id = topic_id
        held.config = config
        return held

    def create(self, topic_partition: TopicPartition, topic_id: Uuid, config: LogConfig) -> Log:
        """An empty log in the directory that holds the fewest partitions."""
        assert topic_partition not in self._logs, f"{topic_partition} exists"
        online = self.online
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "every data directory of this node is offline")
        homes = list(self._homes.values()) if len(online) > 1 else []
        home = min(online, key=homes.count)
        path = f"{home.path}/{topic_partition}"
        opening = Opening(topic_partition, topic_id, path, config, True, 0, 0, self._clock.now_ms())
        try:
            self._files.make_directory(path)
            checkpoints.write_topic_id(self._files, path, topic_id, sync=False)
            created = create_log(self._files, opening, self._failure_in(home))
        except OSError as error:
            log.error("%s cannot be created: %s", path, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} cannot be created: {error}") from error
        self._logs[topic_partition] = created
        self._homes[topic_partition] = home
        return created

    def delete(self, topic_partition: TopicPartition) -> None:
        """Takes a partition out of use at once; its files go with ``step`` after file.delete.delay.ms."""
        deleted = self._logs.get(topic_partition)
        path = self._rename(topic_partition, DELETE_SUFFIX)
        if path is not None and deleted is not None:
            due_ms = self._clock.now_ms() + deleted.config.file_delete_delay_ms
            self._removals.append((due_ms, path))

    def _put_aside(self, topic_partition: TopicPartition) -> None:
        path = self._rename(topic_partition, STRAY_SUFFIX)
        log.warning("%s belonged to another topic of this name and is now %s", topic_partition, path)

    def _rename(self, topic_partition: TopicPartition, suffix: str) -> str | None:
        taken = self._logs.pop(topic_partition, None)
        home = self._homes.pop(topic_partition, None)
        self.failed.pop(topic_partition, None)
        if taken is None or home is None:
            return None
        taken.fail("it was deleted")
        target = f"{home.path}/{renamed(topic_partition, self._files.unique_hex(), suffix)}"
        try:
            self._files.rename(taken.directory, target)
        except OSError as error:
            log.error("%s cannot be renamed: %s", taken.directory, error)
            return None
        log.info("%s renamed to %s", taken.directory, target)
        return target

    # -- from time to time

    def step(self, now_ms: int) -> None:
        """Removes what was deleted and whose delay is over, in this thread."""
        for job in self.begin_removals(now_ms):
            job.run()

    def begin_removals(self, now_ms: int) -> list[RemovalJob]:
        """The same for another thread: a job for each deleted partition."""
        due = [path for due_ms, path in self._removals if due_ms <= now_ms]
        self._removals = [removal for removal in self._removals if removal[0] > now_ms]
        for held in self._logs.values():
            held.remove_deleted(now_ms)
        return [RemovalJob(self._files, path) for path in due]

    def delete_old_segments(self, now_ms: int) -> int:
        """Segments below the log start offset of their log; how many."""
        return sum(held.delete_old_segments(now_ms) for held in self._logs.values() if held.offline is None)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers that were silent for ``producer.id.expiration.ms``; how many."""
        return sum(held.producers.expire(now_ms, expiration_ms) for held in self._logs.values())

    def begin_checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> list[CheckpointJob]:
        """The checkpoint files as they should be now; a job's ``run`` may go to any thread, one at a time."""
        jobs = []
        for directory in self.online:
            homes = self._homes
            logs = {tp: held for tp, held in self._logs.items() if homes[tp] is directory}
            contents = {
                checkpoints.RECOVERY_POINT_FILE: {
                    **self._of_failed(directory, directory.recovery_points),
                    **{tp: held.recovery_point for tp, held in logs.items()},
                },
                checkpoints.HIGH_WATERMARK_FILE: {
                    tp: high_watermarks.get(tp, self.high_watermark(tp)) for tp in logs
                },
                checkpoints.LOG_START_OFFSET_FILE: {
                    **self._of_failed(directory, directory.log_start_offsets),
                    **{
                        tp: held.log_start_offset
                        for tp, held in logs.items()
                        if held.log_start_offset > held.first_segment_offset
                    },
                },
            }
            jobs.append(CheckpointJob(self._files, directory, contents))
        return jobs

    def _of_failed(
        self, directory: LogDirectory, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """What was known of partitions that could not be opened stays as it is."""
        failed = (tp for tp in self.failed if self._homes[tp] is directory)
        return {tp: offsets[tp] for tp in failed if tp in offsets}

    def finish_checkpoint(self, job: CheckpointJob) -> None:
        if job.error is not None:
            log.error("%s: checkpoints cannot be written: %s", job.directory.path, job.error)

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """All at once, in this thread."""
        for job in self.begin_checkpoint(high_watermarks):
            job.run()
            self.finish_checkpoint(job)

    # -- failing and closing

    def _failure_in(self, directory: LogDirectory) -> Callable[[str, OSError], None]:
        return lambda path, error: self._fail(directory, f"{path}: {error}")

    def _fail(self, directory: LogDirectory, reason: str) -> None:
        if not directory.fail(reason):
            return
        log.error("data directory %s is offline: %s", directory.path, reason)
        for topic_partition, home in self._homes.items():
            if home is directory and topic_partition in self._logs:
                self._logs[topic_partition].fail(reason)
        self._on_offline(directory)

    def close(
        self, high_watermarks: Mapping[TopicPartition, int] | None = None, broker_epoch: int = 0
    ) -> None:
        """Writes and flushes everything and leaves the mark of a clean stop, in each directory that works."""
        self._close_logs()
        failed = set()
        for job in self.begin_checkpoint(high_watermarks or {}):
            job.run()
            self.finish_checkpoint(job)
            if job.error is not None:
                failed.add(job.directory)
        # Partitions that could not be opened have to be checked again at the next start.
        failed |= {self._homes[topic_partition] for topic_partition in self.failed}
        for directory in self.online:
            if directory not in failed:
                directory.mark_clean(broker_epoch)
        self._release()

    def _close_logs(self) -> None:
        jobs: list[tuple[Log, FlushJob | None]] = []
        for topic_partition, held in self._logs.items():
            if held.offline is None:
                try:
                    jobs.append((held, held.begin_close()))
                except OSError as error:
                    self._fail(self._homes[topic_partition], str(error))
        run_all([job for _, job in jobs if job is not None])
        for held, job in jobs:
            held.finish_close(job)

    def _release(self) -> None:
        for directory in self.directories:
            directory.release()
