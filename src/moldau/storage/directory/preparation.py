"""Directories of partitions that are about to exist, made before anybody waits for them.

Invariant: each has the name of a deleted partition, so that a start after a crash removes it with those.
When the metadata says that the partition exists it gets its own name by one rename; nothing before that is
visible to anyone.
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
    """Makes them; ``run`` may go to any thread. After an error none of ``places`` is to be used."""

    __slots__ = ("_files", "error", "places", "topic_id")

    def __init__(self, files: Files, topic_id: Uuid, places: dict[TopicPartition, PreparedDirectory]) -> None:
        self.places = places
        self.topic_id = topic_id
        self.error: OSError | None = None
        self._files = files

    def run(self) -> None:
        try:
            for place in self.places.values():
                self._files.make_directory(place.path)
                write_topic_id(self._files, place.path, self.topic_id, sync=False)
                self._files.create(f"{place.path}/{file_name(0, LOG_SUFFIX)}").close()
        except OSError as error:
            self.error = error


def choose_places(
    files: Files,
    wanted: Iterable[TopicPartition],
    online: Sequence[LogDirectory],
    used: Iterable[LogDirectory],
) -> dict[TopicPartition, PreparedDirectory]:
    """A directory for each partition, spread as if they were created one after the other."""
    return dict(_places(files, wanted, online, Counter(used)))


def _places(
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
