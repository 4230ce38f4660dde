"""Creating the directories of a new topic's partitions in another thread, before the topic exists.

Each has the name of a deleted partition, so that the start after a crash removes it. When the metadata has
the partition, one rename gives the directory its name; before that nobody sees it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from moldau.base.names import TopicPartition, Uuid
from moldau.storage.directory.checkpoints import write_topic_id
from moldau.storage.directory.log_directory import DELETE_SUFFIX, LogDirectory, renamed
from moldau.storage.file_names import LOG_SUFFIX, file_name
from moldau.storage.files import Files


class PreparedDirectory(NamedTuple):
    log_directory: LogDirectory
    path: str


class PreparationJob:
    """Creates the directories; ``run`` may be called in any thread. After an error none of them is used."""

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
                self._files.make_directory(prepared.path)
                write_topic_id(self._files, prepared.path, self.topic_id, sync=False)
                self._files.create(f"{prepared.path}/{file_name(0, LOG_SUFFIX)}").close()
        except OSError as error:
            self.error = error


def choose_directories(
    files: Files,
    wanted: Iterable[TopicPartition],
    online: Sequence[LogDirectory],
    used: Iterable[LogDirectory],
) -> dict[TopicPartition, PreparedDirectory]:
    """A directory for each partition, spread as if the partitions were created one after the other."""
    return dict(_choose(files, wanted, online, Counter(used)))


def _choose(
    files: Files,
    wanted: Iterable[TopicPartition],
    online: Sequence[LogDirectory],
    counts: Counter[LogDirectory],
) -> Iterator[tuple[TopicPartition, PreparedDirectory]]:
    for topic_partition in wanted:
        log_directory = min(online, key=counts.__getitem__)
        counts[log_directory] += 1
        name = renamed(topic_partition, files.unique_hex(), DELETE_SUFFIX)
        yield topic_partition, PreparedDirectory(log_directory, f"{log_directory.path}/{name}")
