"""Computes the offsets that a group is reset to: "earliest", "two back", "yesterday at noon".

Invariant: nothing is changed here. Every new offset is within its partition: one before the first or after
the last record is moved there, and ``NewOffsets.moved`` lists it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import EARLIEST, LATEST, ListedOffset
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError


class ResetTo(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    OFFSET = "offset"
    SHIFT = "shift"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Reset:
    """What to reset to; ``number`` is the offset, by how much to shift, or the milliseconds since 1970."""

    to: ResetTo
    number: int = 0


@dataclass(frozen=True, slots=True)
class Moved:
    """An offset outside of its partition: which one was asked for, and which one is used instead."""

    partition: TopicPartition
    wanted: int
    offset: int


@dataclass(slots=True)
class NewOffsets:
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    #: Partitions without a record at or after the given time; they are reset to their end.
    without_record: list[TopicPartition] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)


class NoCommittedOffset(Exception):
    """A group cannot be shifted in a partition for which it has committed nothing."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(partition)
        self.partition = partition


async def partitions_of(cluster: Cluster, scope: str) -> list[TopicPartition]:
    """The partitions that ``topic`` or ``topic:0,2`` stands for; ValueError if they are no numbers."""
    name, colon, indexes = scope.rpartition(":") if ":" in scope else (scope, "", "")
    if colon:
        return [TopicPartition(name, int(index)) for index in indexes.split(",")]
    topic = await cluster.topic(name, refresh=True)
    return [TopicPartition(name, partition.index) for partition in topic.partitions]


async def new_offsets(
    admin: Admin,
    reset: Reset,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, CommittedOffset],
) -> NewOffsets:
    """The offsets to reset to; ``committed`` is where the group is now."""
    wanted = list(partitions)
    await check_exist(admin.cluster, wanted)
    found = NewOffsets()
    match reset.to:
        case ResetTo.EARLIEST:
            found.offsets = await _offsets(admin, wanted, EARLIEST)
        case ResetTo.LATEST:
            found.offsets = await _offsets(admin, wanted, LATEST)
        case ResetTo.CURRENT:
            ends = await _offsets(admin, [p for p in wanted if p not in committed], LATEST)
            found.offsets = {p: committed[p].offset if p in committed else ends[p] for p in wanted}
        case ResetTo.TIMESTAMP:
            await _at_time(admin, wanted, reset.number, found)
        case ResetTo.OFFSET:
            await within(admin, dict.fromkeys(wanted, reset.number), found)
        case ResetTo.SHIFT:
            missing = [p for p in wanted if p not in committed]
            if missing:
                raise NoCommittedOffset(missing[0])
            await within(admin, {p: committed[p].offset + reset.number for p in wanted}, found)
    return found


async def within(admin: Admin, offsets: Mapping[TopicPartition, int], found: NewOffsets) -> None:
    """Adds the offsets to ``found``, each moved into the range of its partition if it is outside."""
    begins = await _offsets(admin, offsets, EARLIEST)
    ends = await _offsets(admin, offsets, LATEST)
    for partition, wanted in offsets.items():
        offset = min(max(wanted, begins[partition]), ends[partition])
        found.offsets[partition] = offset
        if offset != wanted:
            found.moved.append(Moved(partition, wanted, offset))


async def check_exist(cluster: Cluster, partitions: Iterable[TopicPartition]) -> None:
    wanted = list(partitions)
    topics = await cluster.topics(sorted({p.topic for p in wanted})) if wanted else []
    counts = {topic.name: len(topic.partitions) for topic in topics if not topic.error_code}
    missing = [str(p) for p in wanted if not 0 <= p.partition < counts.get(p.topic, 0)]
    if missing:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f'The partitions "{",".join(missing)}" do not exist'
        )


async def _at_time(admin: Admin, wanted: list[TopicPartition], timestamp_ms: int, found: NewOffsets) -> None:
    listed = await _offsets(admin, wanted, timestamp_ms)
    found.without_record = [p for p in wanted if listed[p] < 0]
    ends = await _offsets(admin, found.without_record, LATEST)
    found.offsets = {p: ends[p] if listed[p] < 0 else listed[p] for p in wanted}


async def _offsets(
    admin: Admin, partitions: Iterable[TopicPartition], time: int
) -> dict[TopicPartition, int]:
    wanted = dict.fromkeys(partitions, time)
    listed = await admin.list_offsets(wanted) if wanted else {}
    raise_errors(listed)
    return {p: each.offset for p, each in listed.items() if isinstance(each, ListedOffset)}
