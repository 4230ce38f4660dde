"""A copy of a log in another data directory, and the moment in which it takes the place of the log.

While it is being made its directory is called ``<topic>-<partition>.<unique>-future``, as Kafka calls it. The
exchange is a rename of the copy, and then one of the log. A marker file in the copy says which of two
directories with the name of a partition is the true one, should the broker die between the two.

Invariant: at every moment there is a directory, under a name that the next start finds, with everything that
was flushed. What the copy has above the log's recovery point at a start is not trusted: the log may have lost
it and written something else there.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from moldau.base.names import TopicPartition, Uuid
from moldau.protocol.errors import KafkaError
from moldau.storage.directory import checkpoints
from moldau.storage.directory.log_directory import FUTURE_SUFFIX, LogDirectory, renamed
from moldau.storage.errors import CorruptFileError, StorageError
from moldau.storage.file_names import snapshot_path
from moldau.storage.files import Files
from moldau.storage.log.config import LogConfig
from moldau.storage.log.log import Log
from moldau.storage.log.recovery import LogToOpen, create_log, open_log

logger = logging.getLogger("moldau.storage")

#: Exists in a directory that is about to take the place of another of the same partition.
MARKER_FILE = "moldau-moved"

OnFailure = Callable[[str, OSError], None]


def create_future(
    files: Files,
    log_directory: LogDirectory,
    source: Log,
    topic_id: Uuid,
    now_ms: int,
    on_failure: OnFailure,
) -> Log:
    """An empty copy of ``source`` in another directory."""
    name = renamed(source.topic_partition, files.unique_hex(), FUTURE_SUFFIX)
    path = f"{log_directory.path}/{name}"
    files.make_directory(path)
    checkpoints.write_topic_id(files, path, topic_id, sync=False)
    to_open = LogToOpen(source.topic_partition, topic_id, path, source.config, True, 0, 0, now_ms)
    return create_log(files, to_open, on_failure)


class FutureOpening:
    """Opens a copy that was being made when the broker stopped; ``run`` may be called in any thread."""

    def __init__(
        self,
        files: Files,
        path: str,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        now_ms: int,
        on_failure: OnFailure,
    ) -> None:
        self._files = files
        self._to_open = LogToOpen(topic_partition, topic_id, path, config, False, 0, 0, now_ms)
        self._on_failure = on_failure
        #: None when what is left cannot be used.
        self.log: Log | None = None

    def run(self) -> None:
        path = self._to_open.directory
        try:
            if checkpoints.read_topic_id(self._files, path) != self._to_open.topic_id:
                return
            if self._files.exists(f"{path}/{MARKER_FILE}"):
                self._files.remove(f"{path}/{MARKER_FILE}")
            self.log = open_log(self._files, self._to_open, self._on_failure)
        except (OSError, StorageError, CorruptFileError, KafkaError) as error:
            logger.warning("%s cannot be continued, the copy begins anew: %s", path, error)


def mark(files: Files, future: Log) -> None:
    """To be called before ``take_place``, in any thread."""
    files.write_atomically(f"{future.directory}/{MARKER_FILE}", b"")


def take_place(
    files: Files,
    source: Log,
    future: Log,
    directory: LogDirectory,
    now_ms: int,
    on_failure: OnFailure,
    release: Callable[[], None],
) -> Log:
    """Makes the copy the log of the partition; both have the same records.

    ``release`` takes the name of the partition from ``source``. OSError, StorageError or KafkaError when the
    copy cannot be taken into use: the log is then as it was.
    """
    end = source.log_end_offset
    assert future.log_end_offset == end, f"{future} is not a copy of {source}"
    future.advance_log_start_offset(source.log_start_offset, "the copy begins where its source does")
    future.leader_epochs.clear()
    for epoch, start in source.leader_epochs.entries():
        future.leader_epochs.assign(epoch, start)
    job = future.begin_close()
    if job is not None:
        job.run()
    future.finish_close(job)
    if job is not None and job.error is not None:
        raise job.error
    # Compaction may have taken batches of which only the state of producers still tells.
    files.write_atomically(snapshot_path(future.directory, end), source.producers.snapshot(), sync=False)
    path = f"{directory.path}/{source.topic_partition}"
    config, start = source.config, source.log_start_offset
    to_open = LogToOpen(source.topic_partition, source.topic_id, path, config, True, end, start, now_ms)
    files.rename(future.directory, path)
    try:
        # On the device before the other loses its name: the two may be on different disks.
        files.flush_directory(directory.path)
        opened = open_log(files, to_open, on_failure)
    except BaseException:
        files.rename(path, future.directory)
        raise
    release()
    with suppress(OSError):
        files.remove(f"{path}/{MARKER_FILE}")
    return opened


def settle(
    files: Files, candidates: Sequence[tuple[LogDirectory, LogToOpen]], retire: Callable[[str], object]
) -> tuple[LogDirectory, LogToOpen]:
    """Which of several directories with one partition is the true one; those before a move are retired."""
    marked = [each for each in candidates if files.exists(f"{each[1].directory}/{MARKER_FILE}")]
    if len(marked) != 1:
        chosen = candidates[0]
        for _, to_open in candidates[1:]:
            message = "%s and %s hold the same partition, and only the second is served: compare "
            message += "them with 'moldau log inspect', and move one of them away"
            logger.error(message, to_open.directory, chosen[1].directory)
        return chosen
    (chosen,) = marked
    for _, to_open in candidates:
        if to_open is not chosen[1]:
            logger.info("%s was moved to %s", to_open.directory, chosen[1].directory)
            retire(to_open.directory)
    with suppress(OSError):
        files.remove(f"{chosen[1].directory}/{MARKER_FILE}")
    return chosen
