"""The directory of a branch (a fork or a restore of a partition) until its topic is in the metadata.

While it is incomplete it has the name of a deleted partition, so that the start after a crash removes it,
Kafka's included. Then it gets its own name, and has a marker file until the cluster knows its topic: a
start removes directories with a marker whose topic is unknown.

Invariant: everything in the directory is flushed before it gets its name.
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

#: Exists in the directory of a branch until its topic is in the cluster's metadata.
MARKER_FILE = "branch.unfinished"

_CACHES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)


class UnfinishedTransaction(NamedTuple):
    """A transaction that was open at the end of the branch."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class Branch:
    """The directory of one partition: created under a temporary name, then renamed."""

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
        self.open_transactions: list[UnfinishedTransaction] = []

    def make_directory(self) -> None:
        self.files.make_directory(self.path)
        self.files.write_atomically(f"{self.path}/{MARKER_FILE}", b"", sync=False)
        checkpoints.write_topic_id(self.files, self.path, self.topic_id, sync=False)

    def seal(self, producers: ProducerStates) -> None:
        """Creates the empty active segment and the snapshot of producers, which is empty too.

        A branch is another topic: producers of the source begin at sequence 0 here. Only producers with an
        open transaction are in the snapshot, until ``abort_transactions`` has written the markers.
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
        """Flushes everything except files that are known to be flushed.

        Indexes are caches, which a start compares with the log; of an empty file only the name matters.
        """
        for name, size in self.files.list_sizes(self.path).items():
            if size and name not in known and not name.endswith(_CACHES):
                self.files.open(f"{self.path}/{name}").flush()
        self.files.flush_directory(self.path)

    def discard(self) -> None:
        """Removes a directory that did not get its final name."""
        try:
            with contextlib.suppress(FileNotFoundError):
                self.files.remove_tree(self.path)
        except OSError as error:
            logger.error("%s cannot be removed now and goes at the next start: %s", self.path, error)


def _is_open(producer: ProducerStateEntry) -> bool:
    return producer.transaction_first_offset >= 0


def _transaction(producer: ProducerStateEntry) -> UnfinishedTransaction:
    return UnfinishedTransaction(producer.producer_id, producer.epoch, max(producer.coordinator_epoch, 0))


def abort_transactions(
    branch: Log, transactions: Sequence[UnfinishedTransaction], leader_epoch: int, now_ms: int
) -> None:
    """Aborts the transactions that were open at the end of the branch, and removes their producers."""
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
    """The topic is in the metadata: removes the marker."""
    try:
        files.remove(f"{branch.directory}/{MARKER_FILE}")
    except OSError as error:
        # It matters only while the topic is not known.
        logger.warning("%s: the marker of the branch stays: %s", branch.directory, error)


def remove_unfinished_branches(files: Files, logs: Logs, known: Collection[Uuid]) -> int:
    """At start: deletes branches whose topic is not in the metadata; returns how many partitions."""
    orphans = [
        log.topic_partition
        for log in logs
        if log.topic_id not in known and files.exists(f"{log.directory}/{MARKER_FILE}")
    ]
    for topic_partition in orphans:
        logger.warning("%s was being made when the broker stopped, and is removed", topic_partition)
        logs.delete(topic_partition)
    return len(orphans)


#: What can fail while a branch is made.
BranchError = (OSError, StorageError, KafkaError)
