"""Topics as they were: forks, the end of a topic at some time, and its table of keys at that time.

    made = await fork_topic(cluster, "orders", "orders-test", timestamp_ms=yesterday)
    ends = await ends_as_of(cluster, partitions, yesterday)
    table = await table_as_of(cluster, partitions, yesterday)

``fork_topic`` asks for an API of our own: a broker that is not Moldau's answers UNSUPPORTED_VERSION. The
others are plain reading and work with every Kafka.

Invariant: "as of" a time means the records before the first one that is newer: a beginning of the log, the
same for everybody who asks. Where the log no longer has all that was there, the answer says from which
offset on it has.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from moldau.base.names import TopicPartition, Uuid
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, ListedOffset
from moldau.client.consumer.fetched import ConsumerRecord, FetchedBatch, read_batches
from moldau.client.consumer.raw_reader import read_raw
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.connection import error_code
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.fork_topic import ForkConfig, ForkPartition, ForkTopicRequest
from moldau.protocol.records import batches


@dataclass(frozen=True, slots=True)
class ForkedPartition:
    partition: int
    log_start_offset: int
    #: The first offset that does not come from the source.
    cut_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class ForkedTopic:
    name: str
    topic_id: Uuid
    partitions: tuple[ForkedPartition, ...]


async def fork_topic(
    cluster: Cluster,
    source: str,
    name: str,
    *,
    timestamp_ms: int | None = None,
    offsets: Mapping[int, int] | None = None,
    configs: Mapping[str, str | None] | None = None,
    timeout_ms: int | None = None,
) -> ForkedTopic:
    """A new topic with the records of another one up to a time, up to offsets, or all that is committed.

    ``configs`` change those of the source; None takes one away.
    """
    request = ForkTopicRequest(
        source=source,
        name=name,
        timestamp=-1 if timestamp_ms is None else timestamp_ms,
        partitions=[ForkPartition(index, offset) for index, offset in (offsets or {}).items()],
        configs=[ForkConfig(key, value) for key, value in (configs or {}).items()],
    )
    answer = await (await cluster.controller()).send(request, timeout_ms=timeout_ms)
    if answer.error_code:
        raise KafkaError(error_code(answer.error_code), answer.error_message)
    made = tuple(
        ForkedPartition(each.partition_index, each.log_start_offset, each.cut_offset, each.log_end_offset)
        for each in answer.partitions
    )
    return ForkedTopic(name, answer.topic_id, made)


async def ends_as_of(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    timestamp_ms: int,
    *,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """For each partition the offset of the first record that is newer; the end where there is none."""
    wanted = list(partitions)
    admin = Admin(cluster)
    newer = await admin.list_offsets(dict.fromkeys(wanted, timestamp_ms + 1), isolation_level=isolation_level)
    latest = await admin.list_offsets(dict.fromkeys(wanted, LATEST), isolation_level=isolation_level)
    raise_errors(newer)
    raise_errors(latest)
    ends: dict[TopicPartition, int] = {}
    for partition in wanted:
        found, end = newer[partition], latest[partition]
        assert isinstance(found, ListedOffset)
        assert isinstance(end, ListedOffset)
        ends[partition] = end.offset if found.offset < 0 else min(found.offset, end.offset)
    return ends


@dataclass(slots=True)
class Table:
    """The last value of every key, as of some time."""

    #: In the order of partitions and offsets; keys that were deleted are not there.
    rows: list[ConsumerRecord] = field(default_factory=list)
    #: The end of each partition at that time.
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    #: From which offset on nothing is missing. Keys that were written only before it may be missing, and
    #: others may show an older value.
    complete_from: dict[TopicPartition, int] = field(default_factory=dict)
    #: Records without a key, which have no place in a table.
    without_key: int = 0

    @property
    def is_complete(self) -> bool:
        return all(offset == 0 for offset in self.complete_from.values())


async def table_as_of(
    cluster: Cluster, partitions: Iterable[TopicPartition], timestamp_ms: int | None
) -> Table:
    """What a reader of committed data would have in its table at that time; None stands for now."""
    wanted = list(partitions)
    table = Table()
    if timestamp_ms is None:
        latest = await Admin(cluster).list_offsets(
            dict.fromkeys(wanted, LATEST), isolation_level=READ_COMMITTED
        )
        raise_errors(latest)
        table.ends = {p: o.offset for p, o in latest.items() if isinstance(o, ListedOffset)}
    else:
        table.ends = await ends_as_of(cluster, wanted, timestamp_ms, isolation_level=READ_COMMITTED)
    starts = await Admin(cluster).list_offsets(dict.fromkeys(wanted, EARLIEST))
    raise_errors(starts)
    for partition in wanted:
        start = starts[partition]
        assert isinstance(start, ListedOffset)
        await _fill(cluster, partition, start.offset, table)
    return table


async def _fill(cluster: Cluster, partition: TopicPartition, start: int, table: Table) -> None:
    """Reads one partition up to its end into the table."""
    end = table.ends[partition]
    latest: dict[bytes, ConsumerRecord] = {}
    complete_from = expected = start
    async for piece in read_raw(cluster, partition, start, end, isolation_level=READ_COMMITTED):
        for _, header in batches(piece.records):
            # What is missing in a batch or between two of them was taken by compaction.
            if header.base_offset > expected:
                complete_from = min(header.base_offset, end)
            if header.record_count <= header.last_offset_delta:
                complete_from = min(header.last_offset + 1, end)
            expected = header.last_offset + 1
        for step in read_batches(
            *partition,
            piece.records,
            fetch_offset=start,
            aborted_transactions=piece.aborted_transactions or (),
        ):
            if step.batch is not None:
                table.without_key += _apply(step.batch, end, latest)
    table.complete_from[partition] = complete_from
    table.rows += sorted(latest.values(), key=lambda record: record.offset)


def _apply(batch: FetchedBatch, end: int, latest: dict[bytes, ConsumerRecord]) -> int:
    """Takes the records below the end into the table; how many have no key."""
    without_key = 0
    for record in batch.consumer_records():
        if record.offset >= end:
            break
        if record.key is None:
            without_key += 1
        elif record.value is None:
            latest.pop(record.key, None)
        else:
            latest[record.key] = record
    return without_key
