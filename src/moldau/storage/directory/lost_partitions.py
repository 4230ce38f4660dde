"""Partitions that had records and whose directory is gone, as the checkpoints of the data directories tell.

Checkpoints name every log that a broker has, with offsets; a partition that is gone from the disk is still in
them, and stays in them until it is back or given up.

Invariant: ``refuse_to_begin_empty`` is the one place that decides whether a partition may begin anew, and
``refuse_to_begin_without_metadata`` the one for a whole cluster.
"""

import logging
from collections.abc import Iterable

from moldau.base.names import TopicPartition
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.storage.directory.log_directory import LogDirectory
from moldau.storage.errors import ACCEPT_LOST_FILES, LostFileError

logger = logging.getLogger("moldau.storage")


class LostPartitionError(KafkaError):
    """A partition had records in this directory, and they are gone."""

    def __init__(self, directory: LogDirectory, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)
        self.directory = directory


def refuse_to_begin_empty(
    topic_partition: TopicPartition, directories: Iterable[LogDirectory], *, accept: bool
) -> None:
    """LostPartitionError for a partition without a log that had records; ``accept`` lets it begin anew.

    Consumers would otherwise be told that offsets they have seen do not exist, and start again from nothing.
    """
    for directory in directories:
        end_offset = directory.checkpointed_end(topic_partition)
        if end_offset == 0:
            continue
        path = f"{directory.path}/{topic_partition}"
        if accept:
            message = "%s is gone, with the records below offset %d; it begins anew and empty, as %s says"
            logger.warning(message, path, end_offset, ACCEPT_LOST_FILES)
            directory.forget(topic_partition)
            continue
        raise LostPartitionError(
            directory,
            f"{path} is gone, and with it the records below offset {end_offset}: put it back and restart the "
            f"broker, delete the topic, or start once with {ACCEPT_LOST_FILES}=true to let it begin empty",
        )


def refuse_to_begin_without_metadata(
    directories: Iterable[LogDirectory], partitions: int, *, accept: bool
) -> None:
    """LostFileError when a cluster without any metadata has partitions: it would not know one of them."""
    if not partitions:
        return
    where = ", ".join(directory.path for directory in directories)
    gone = f"the metadata of the cluster is gone, and {where} has {partitions} partition(s) of it"
    if accept:
        logger.warning("%s; they are left alone, as %s says", gone, ACCEPT_LOST_FILES)
        return
    raise LostFileError(
        f"{gone}: put metadata.sqlite back, take over a directory of Apache Kafka with 'moldau log import', "
        f"or start once with {ACCEPT_LOST_FILES}=true to begin without topics"
    )
