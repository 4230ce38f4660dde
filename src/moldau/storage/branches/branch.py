"""A partition's directory in the making: what every branch of a log needs before it can be taken into use.

Invariant: until it is whole it lies under the name of a deleted partition, so that a crash at any moment
leaves something that no start opens and the next start removes, Kafka's included. It then gets its own
name, and a marker in it until the cluster knows its topic: a directory with a marker and a topic that
nobody knows goes at the next start. Whoever made it has all of it on the device before it gets its name.
"""

import contextlib
import logging
from collections.abc import Collection, Sequence
from typing import NamedTuple

from moldau.base.names import TopicPartition, Uuid
from moldau.protocol.control_records import ControlType, Marker, encode_marker
from moldau.protocol.errors import KafkaError
from moldau.storage.directory import checkpoints
from moldau.storage.directory.log_directory import DELETE_SUFFIX, LogDirectory, renamed
from moldau.storage.directory.logs import Logs
from moldau.storage.errors import StorageError
from moldau.storage.file_names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    file_name,
    snapshot_path,
)
from moldau.storage.files import Files
from moldau.storage.log.log import Log
from moldau.storage.log.producer_state import ProducerStateEntry, ProducerStates

logger = logging.getLogger("moldau.storage")

#: Stands in the directory of a branch until its topic is in the cluster's metadata.
MARKER_FILE = "branch.unfinished"


_CACHES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)


class OpenTransaction(NamedTuple):
    """A transaction whose end lies behind the end of the branch."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class Branch:
    """The directory of one partition: made out of sight, then given its name."""

    __slots__ = (
        "end_offset",
        "files",
        "log_directory",
        "log_start_offset",
        "open_transactions",
        "path",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self, files: Files, log_directory: LogDirectory, topic_partition: TopicPartition, topic_id: Uuid
    ) -> None:
        self.files = files
        self.log_directory = log_directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.path = f"{log_directory.path}/{renamed(topic_partition, files.unique_hex(), DELETE_SUFFIX)}"
        self.log_start_offset = 0
        self.end_offset = 0
        self.open_transactions: list[OpenTransaction] = []

    def make_directory(self) -> None:
        self.files.make_directory(self.path)
        self.files.write_atomically(f"{self.path}/{MARKER_FILE}", b"", sync=False)
        checkpoints.write_topic_id(self.files, self.path, self.topic_id, sync=False)

    def seal(self, producers: ProducerStates) -> None:
        """The empty segment that the branch grows in, and what it knows of producers, which is nothing.

        It is a topic of its own: a producer that wrote to the source begins at sequence 0 here. Only where
        transactions are cut in the middle their producers are known until the markers are written.
        """
        for suffix in (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path = f"{self.path}/{file_name(self.end_offset, suffix)}"
            if not self.files.exists(path):
                self.files.create(path)
        self.open_transactions = [_transaction(each) for each in producers.active() if _is_open(each)]
        known = producers if self.open_transactions else ProducerStates(self.topic_partition)
        snapshot = snapshot_path(self.path, self.end_offset)
        self.files.write_atomically(snapshot, known.snapshot(), sync=False)

    def flush(self, known: Collection[str] = ()) -> None:
        """Brings all onto the device but files that are known to be there.

        Indexes are caches, which a start compares with the log; of an empty file the name is enough.
        """
        for name, size in self.files.list_sizes(self.path).items():
            if size and name not in known and not name.endswith(_CACHES):
                self.files.open(f"{self.path}/{name}").flush()
        self.files.flush_directory(self.path)

    def discard(self) -> None:
        """Removes a directory that never got its name."""
        try:
            with contextlib.suppress(FileNotFoundError):
                self.files.remove_tree(self.path)
        except OSError as error:
            logger.error("%s cannot be removed now and goes at the next start: %s", self.path, error)


def _is_open(producer: ProducerStateEntry) -> bool:
    return producer.transaction_first_offset >= 0


def _transaction(producer: ProducerStateEntry) -> OpenTransaction:
    return OpenTransaction(producer.producer_id, producer.epoch, max(producer.coordinator_epoch, 0))


def abort_transactions(
    branch: Log, transactions: Sequence[OpenTransaction], leader_epoch: int, now_ms: int
) -> None:
    """Ends what was open where the branch was cut, as if all had stopped there, and forgets the producers."""
    for each in transactions:
        marker = encode_marker(
            Marker(ControlType.ABORT, each.coordinator_epoch),
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            timestamp_ms=now_ms,
        )
        branch.append(memoryview(marker), leader_epoch, now_ms, internal=True)
    if transactions:
        branch.producers.clear()
        branch.roll(now_ms)


def publish(files: Files, branch: Log) -> None:
    """The cluster knows the topic: the directory is an ordinary one from now on."""
    try:
        files.remove(f"{branch.directory}/{MARKER_FILE}")
    except OSError as error:
        # It is looked at only where the topic is not known.
        logger.warning("%s: the marker of the branch stays: %s", branch.directory, error)


def settle(files: Files, logs: Logs, known: Collection[Uuid]) -> int:
    """At start: takes away branches whose topic never became known; how many partitions."""
    orphans = [
        log.topic_partition
        for log in logs
        if log.topic_id not in known and files.exists(f"{log.directory}/{MARKER_FILE}")
    ]
    for topic_partition in orphans:
        logger.warning("%s was being made when the broker stopped, and is removed", topic_partition)
        logs.delete(topic_partition)
    return len(orphans)


#: What can go wrong while a branch is made, beside a programmer's error.
BranchError = (OSError, StorageError, KafkaError)
