"""Creating and taking away the directories of partitions in another thread: a busy disk takes its time.

Those of a topic that does not exist yet have the names of deleted partitions, so that the start after a
crash removes them. When the metadata has the partition, one rename gives the directory its name; before that
nobody sees it.

Invariant: ``run`` of a job touches files and the job itself, and may be called in any thread.
"""

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from moldau.base.names import TopicPartition, Uuid
from moldau.storage.directory.checkpoints import write_topic_id
from moldau.storage.directory.log_directory import (
    DELETE_SUFFIX,
    STRAY_SUFFIX,
    LogDirectory,
    renamed,
    renamed_path,
)
from moldau.storage.file_names import LOG_SUFFIX, file_name
from moldau.storage.files import Files

logger = logging.getLogger("moldau.storage")


class PreparedDirectory(NamedTuple):
    log_directory: LogDirectory
    path: str


class PreparationJob:
    """Creates the directories. After an error none of them is used."""

    __slots__ = ("_files", "directories", "error", "topic_id")

    def __init__(
        self, files: Files, topic_id: Uuid, directories: dict[TopicPartition, PreparedDirectory]
    ) -> None:
        self.directories = directories
        self.topic_id = topic_id
        self.error: OSError | None = None
        self._files = files

    def run(self) -> None:
        try:
            for prepared in self.directories.values():
                make_empty(self._files, prepared.path, self.topic_id)
        except OSError as error:
            self.error = error


class NewDirectory:
    """The directory of a partition that the metadata has and ``Logs.create`` is about to open."""

    __slots__ = ("error", "is_done", "log_directory", "path", "prepared", "topic_id")

    def __init__(
        self, log_directory: LogDirectory, path: str, topic_id: Uuid, prepared: PreparedDirectory | None
    ) -> None:
        self.log_directory = log_directory
        self.path = path
        self.topic_id = topic_id
        #: What becomes the directory, where it was made before the partition existed.
        self.prepared = prepared
        #: Whether ``make`` has ended, well or not.
        self.is_done = False
        self.error: OSError | None = None

    def make(self, files: Files) -> None:
        try:
            move_out_of_the_way(files, self.path)
            if self.prepared is None:
                make_empty(files, self.path, self.topic_id)
            else:
                files.rename(self.prepared.path, self.path)
        except OSError as error:
            self.error = error
        self.is_done = True


class CreationJob:
    """Makes the directories of new partitions; what went wrong is said of each.

    Not where a checkpoint still names a deleted partition of that name: a crash would give the new one its
    offsets.
    """

    __slots__ = ("_files", "directories")

    def __init__(self, files: Files, directories: dict[TopicPartition, NewDirectory]) -> None:
        self.directories = directories
        self._files = files

    def run(self) -> None:
        for topic_partition, directory in self.directories.items():
            if not directory.log_directory.has_checkpointed(topic_partition):
                directory.make(self._files)


class RetirementJob:
    """Gives the directory of a partition that is no more another name, once, whoever calls it first."""

    __slots__ = ("_done", "_files", "_lock", "delay_ms", "path", "target", "topic_partition")

    def __init__(
        self, files: Files, topic_partition: TopicPartition, path: str, target: str, delay_ms: int
    ) -> None:
        self.topic_partition = topic_partition
        self.path = path
        #: What it is called from then on; None when it is gone, or stays.
        self.target: str | None = target
        self.delay_ms = delay_ms
        self._files = files
        self._lock = threading.Lock()
        self._done = False

    def run(self) -> None:
        with self._lock:
            if self._done:
                return
            self._done = True
            assert self.target is not None
            try:
                self._files.rename(self.path, self.target)
            except FileNotFoundError:
                self.target = None
            except OSError as error:
                logger.error("%s cannot be renamed: %s", self.path, error)
                self.target = None
            else:
                logger.info("%s renamed to %s", self.path, self.target)


def make_empty(files: Files, path: str, topic_id: Uuid) -> None:
    """The directory of a partition without a record; nothing is left of it when that fails."""
    files.make_directory(path)
    try:
        write_topic_id(files, path, topic_id, sync=False)
        files.create(f"{path}/{file_name(0, LOG_SUFFIX)}").close()
    except OSError:
        with suppress(OSError):
            files.remove_tree(path)
        raise


def move_out_of_the_way(files: Files, path: str) -> None:
    """What a new partition finds under its name is of one that is no more: it must not become its data."""
    if files.exists(path):
        target = renamed_path(path, files.unique_hex(), STRAY_SUFFIX)
        files.rename(path, target)
        logger.warning("%s belongs to no partition of this broker, and is now %s", path, target)


def prepared_directories(
    files: Files, spread: Iterable[tuple[TopicPartition, LogDirectory]]
) -> dict[TopicPartition, PreparedDirectory]:
    return {
        topic_partition: PreparedDirectory(
            log_directory,
            f"{log_directory.path}/{renamed(topic_partition, files.unique_hex(), DELETE_SUFFIX)}",
        )
        for topic_partition, log_directory in spread
    }


def spread(
    wanted: Iterable[TopicPartition], online: Sequence[LogDirectory], used: Iterable[LogDirectory]
) -> Iterator[tuple[TopicPartition, LogDirectory]]:
    """A data directory for each partition, as if the partitions were created one after the other."""
    counts = Counter(used)
    for topic_partition in wanted:
        log_directory = min(online, key=counts.__getitem__)
        counts[log_directory] += 1
        yield topic_partition, log_directory
