"""Where a group shall go on reading: from a wish ("earliest", "two back", "yesterday at noon") to offsets.

Invariant: asks the cluster, changes nothing. Every offset that comes out lies within its partition as it is
now; a wish beyond its ends is moved to the end that is nearer, and said so.
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


class Wish(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    OFFSET = "offset"
    SHIFT = "shift"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Reset:
    """A wish; ``number`` is the offset, by how much to shift, or the milliseconds since 1970."""

    wish: Wish
    number: int = 0


@dataclass(frozen=True, slots=True)
class Moved:
    """A wish that lay outside: what was wanted, and what became of it."""

    partition: TopicPartition
    wanted: int
    offset: int


@dataclass(slots=True)
class NewOffsets:
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    #: Partitions that have no record from the wanted time on, and go to their end.
    without_record: list[TopicPartition] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)


class NoCommittedOffset(Exception):
    """A shift from nowhere."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(partition)
        self.partition = partition


async def partitions_of(cluster: Cluster, scope: str) -> list[TopicPartition]:
    """The partitions that ``topic`` or ``topic:0,2`` means; ValueError for words that are no numbers."""
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
    """The offsets that a wish comes to; ``committed`` is where the group is."""
    wanted = list(partitions)
    await check_exist(admin.cluster, wanted)
    found = NewOffsets()
    match reset.wish:
        case Wish.EARLIEST:
            found.offsets = await _offsets(admin, wanted, EARLIEST)
        case Wish.LATEST:
            found.offsets = await _offsets(admin, wanted, LATEST)
        case Wish.CURRENT:
            ends = await _offsets(admin, [p for p in wanted if p not in committed], LATEST)
            found.offsets = {p: committed[p].offset if p in committed else ends[p] for p in wanted}
        case Wish.TIMESTAMP:
            await _at_time(admin, wanted, reset.number, found)
        case Wish.OFFSET:
            await within(admin, dict.fromkeys(wanted, reset.number), found)
        case Wish.SHIFT:
            missing = [p for p in wanted if p not in committed]
            if missing:
                raise NoCommittedOffset(missing[0])
            await within(admin, {p: committed[p].offset + reset.number for p in wanted}, found)
    return found


async def within(admin: Admin, offsets: Mapping[TopicPartition, int], found: NewOffsets) -> None:
    """Adds the offsets to ``found``, each moved to the nearer end of its partition where it lies outside."""
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
