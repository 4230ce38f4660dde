"""The directories of partitions that this broker does not have yet: on which disk each is to be, and the jobs
that make them in another thread.

Invariant: what a job has made and nobody takes is removed; only ``run`` of a job leaves the thread that owns
the logs.
"""

import logging
from collections.abc import Callable, Container, Mapping, Sequence

from moldau.base.names import TopicPartition, Uuid
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.storage.directory.log_directory import DELETE_SUFFIX, LogDirectory, renamed_path
from moldau.storage.directory.preparation import (
    CreationJob,
    NewDirectory,
    PreparationJob,
    PreparedDirectory,
    prepared_directories,
    spread,
)
from moldau.storage.files import Files

logger = logging.getLogger("moldau.storage")


class NewPartitions:
    def __init__(
        self,
        files: Files,
        online: Callable[[], list[LogDirectory]],
        directory_by_partition: Mapping[TopicPartition, LogDirectory],
        retiring: Container[TopicPartition],
        remove_later: Callable[[str], None],
    ) -> None:
        """Partitions in ``retiring`` are deleted, but their directories may still have the old names."""
        #: Where a request wants partitions to be.
        self.wanted: dict[TopicPartition, LogDirectory] = {}
        self._files = files
        self._online = online
        self._directory_by_partition = directory_by_partition
        self._retiring = retiring
        self._remove_later = remove_later
        self._prepared: dict[tuple[TopicPartition, Uuid], PreparedDirectory] = {}
        #: Those that a job makes, or has made, for partitions of the metadata.
        self._made: dict[TopicPartition, NewDirectory] = {}

    # -- for partitions that the metadata has

    def begin_creation(self, partitions: Sequence[tuple[TopicPartition, Uuid]]) -> CreationJob:
        """A job that makes the directories before ``Logs.create`` opens them.

        Not of those whose name is in use: they are made when it is free.
        """
        in_use = self._directory_by_partition
        free = {
            topic_partition: topic_id
            for topic_partition, topic_id in partitions
            if topic_partition not in in_use and topic_partition not in self._retiring
        }
        online = self._online()
        places = spread(free, online, in_use.values()) if online else ()
        directories = {
            topic_partition: self.choose(topic_partition, free[topic_partition], log_directory)
            for topic_partition, log_directory in places
        }
        self._made |= directories
        return CreationJob(self._files, directories)

    def is_making(self, topic_partition: TopicPartition) -> bool:
        """Whether a directory has the name of the partition already, or will have it at any moment."""
        return topic_partition in self._made

    def take_made(self, topic_partition: TopicPartition, topic_id: Uuid) -> NewDirectory | None:
        """What a job has made, if nothing has come in between since it began."""
        made = self._made.pop(topic_partition, None)
        if made is None or not made.is_done:
            return None
        wanted = self.wanted.get(topic_partition, made.log_directory) is made.log_directory
        if wanted and made.topic_id == topic_id and made.log_directory.offline is None:
            self.wanted.pop(topic_partition, None)
            return made
        if made.error is None and made.log_directory.offline is None:
            self._discard_made(made.path)
        return None

    def _discard_made(self, path: str) -> None:
        unused = renamed_path(path, self._files.unique_hex(), DELETE_SUFFIX)
        try:
            self._files.rename(path, unused)
        except OSError as error:
            logger.error("%s is not used and cannot be renamed: %s", path, error)
        else:
            self._remove_later(unused)

    def choose(
        self, topic_partition: TopicPartition, topic_id: Uuid, chosen: LogDirectory | None = None
    ) -> NewDirectory:
        """What is to be made: where it is wanted, or prepared, or ``chosen``, or has most room."""
        prepared = self._prepared.pop((topic_partition, topic_id), None)
        wanted = self.wanted.pop(topic_partition, None)
        if prepared is not None and prepared.log_directory.offline is not None:
            prepared = None
        if wanted is not None and wanted.offline is None:
            chosen, prepared = wanted, None
        elif prepared is not None:
            chosen = prepared.log_directory
        log_directory = chosen or self.emptiest_directory()
        return NewDirectory(log_directory, f"{log_directory.path}/{topic_partition}", topic_id, prepared)

    def emptiest_directory(self) -> LogDirectory:
        """The directory with the fewest partitions; KAFKA_STORAGE_ERROR when all are offline."""
        online = self._online()
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "every data directory of this node is offline")
        used = list(self._directory_by_partition.values()) if len(online) > 1 else []
        return min(online, key=used.count)

    # -- for partitions of a topic that is not decided yet

    def begin_preparation(self, topic: str, topic_id: Uuid, partitions: range) -> PreparationJob:
        """A job that makes directories which nobody sees until the metadata has the topic."""
        online = self._online()
        partitions_wanted = [TopicPartition(topic, number) for number in partitions] if online else []
        places = spread(partitions_wanted, online, self._directory_by_partition.values())
        return PreparationJob(self._files, topic_id, prepared_directories(self._files, places))

    def finish_preparation(self, job: PreparationJob) -> None:
        """``choose`` will use the directories; ``discard_prepared`` removes those that it does not use."""
        for topic_partition, prepared in job.directories.items():
            self._prepared[topic_partition, job.topic_id] = prepared
        if job.error is not None:
            logger.warning("directories of a new topic could not be prepared: %s", job.error)
            self.discard_prepared(job.topic_id)

    def discard_prepared(self, topic_id: Uuid) -> None:
        for key in [key for key in self._prepared if key[1] == topic_id]:
            path = self._prepared.pop(key).path
            if self._files.exists(path):
                self._remove_later(path)
