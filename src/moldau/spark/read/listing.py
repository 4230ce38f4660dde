"""What there is to read: which partitions, and from which offset to which.

Invariant: this asks the cluster and decides nothing about tasks or batches. Offsets may be gone by the time a
task reads them, so every reader must handle that.
"""

import re
from collections.abc import Iterable, Mapping

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import READ_COMMITTED, READ_UNCOMMITTED
from moldau.client.transport.cluster import Cluster, Topic, topic_error
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.spark.options import OptionError, ReadOptions
from moldau.spark.read.offsets import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    Limit,
    check_covered,
)


async def partitions_of(cluster: Cluster, options: ReadOptions) -> list[TopicPartition]:
    """Every partition that the options name; UNKNOWN_TOPIC_OR_PARTITION for a topic that is not there."""
    if options.pattern is not None:
        try:
            pattern = re.compile(options.pattern)
        except re.error as error:
            raise OptionError(
                f"subscribePattern {options.pattern!r} is no regular expression: {error}"
            ) from None
        topics = [t for t in await cluster.topics(None) if pattern.fullmatch(t.name) and not t.is_internal]
    else:
        names = options.topics or tuple(dict.fromkeys(tp.topic for tp in options.assignment))
        topics = await cluster.retry(lambda: _topics(cluster, names), retriable=_is_being_made)
    found = [TopicPartition(topic.name, p.index) for topic in topics for p in topic.partitions]
    if options.assignment:
        for wanted in options.assignment:
            if wanted not in found:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {wanted}")
        return sorted(options.assignment)
    return sorted(found)


async def _topics(cluster: Cluster, names: Iterable[str]) -> list[Topic]:
    topics = await cluster.topics(names)
    for topic in topics:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(
                topic.error_code,
                f"topic {topic.name!r} does not exist: check the name, or make it with "
                f"'moldau topics create {topic.name}'",
            )
        if topic.error_code:
            raise topic_error(topic.name, topic.error_code)
    return topics


def _is_being_made(error: KafkaError) -> bool:
    return error.retriable and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def list_offset(
    cluster: Cluster, partition: TopicPartition, timestamp: int, *, committed: bool = True
) -> int:
    """One offset, by timestamp or EARLIEST or LATEST."""
    return (await list_offsets(cluster, {partition: timestamp}, committed=committed))[partition]


async def list_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], *, committed: bool
) -> dict[TopicPartition, int]:
    """The offset for each timestamp; -1 where no record is as new."""
    if not timestamps:
        return {}
    admin = Admin(cluster)
    level = READ_COMMITTED if committed else READ_UNCOMMITTED

    async def attempt() -> dict[TopicPartition, int]:
        listed = await admin.list_offsets(timestamps, isolation_level=level)
        found = {}
        for partition, outcome in listed.items():
            if isinstance(outcome, KafkaError):
                raise KafkaError(outcome.code, f"the offsets of {partition} cannot be had: {outcome}")
            found[partition] = outcome.offset
        return found

    return await cluster.retry(attempt)


async def resolve(
    cluster: Cluster, partitions: Iterable[TopicPartition], limit: Limit, options: ReadOptions, option: str
) -> dict[TopicPartition, int]:
    """The offset that a limit means for each partition now."""
    wanted = list(partitions)
    committed = options.read_committed
    match limit:
        case Earliest():
            return await list_offsets(cluster, dict.fromkeys(wanted, EARLIEST), committed=committed)
        case Latest():
            return await list_offsets(cluster, dict.fromkeys(wanted, LATEST), committed=committed)
        case AtOffsets(offsets):
            _check(option, offsets, wanted)
            words = {tp: offset for tp, offset in offsets.items() if offset < 0}
            return {**offsets, **await list_offsets(cluster, words, committed=committed)}
        case AtTimestamp(timestamp_ms):
            timestamps = dict.fromkeys(wanted, timestamp_ms)
        case AtTimestamps(timestamps_ms):
            _check(option, timestamps_ms, wanted)
            timestamps = timestamps_ms
    return await _by_timestamp(cluster, timestamps, options, option)


async def _by_timestamp(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], options: ReadOptions, option: str
) -> dict[TopicPartition, int]:
    found = await list_offsets(cluster, timestamps, committed=options.read_committed)
    too_young = [tp for tp, offset in found.items() if offset < 0]
    if too_young and option.startswith("starting") and not options.latest_if_too_young:
        raise OptionError(
            f"{option}: no record of {too_young[0]} is as young as {timestamps[too_young[0]]}; "
            "startingOffsetsByTimestampStrategy=latest begins at the end there"
        )
    ends = await list_offsets(cluster, dict.fromkeys(too_young, LATEST), committed=options.read_committed)
    return {**found, **ends}


def _check(option: str, named: Mapping[TopicPartition, int], read: list[TopicPartition]) -> None:
    try:
        check_covered(option, named, read)
    except ValueError as error:
        raise OptionError(str(error)) from None
