"""Proof that two topics have the same records: counts and checksums of every partition.

Two checksums: one over the records (offset, timestamp, key, value, headers) as any consumer sees them, one
that leaves offsets out, for targets that have their own. Where both sides have the same bytes nothing is
decoded.

Invariant: reads what is there and changes nothing. Both sides are compared up to the same place: the end of
the smaller one, unless an end is given.
"""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from moldau.base.names import TopicPartition
from moldau.client.admin.descriptions import READ_COMMITTED
from moldau.client.consumer.fetched import read_batches
from moldau.client.consumer.raw_reader import read_raw
from moldau.client.transport.cluster import Cluster
from moldau.mirror.source import source_bounds

_NUMBER = struct.Struct(">q")
_NONE = b"\xff" * 8


@dataclass(frozen=True, slots=True)
class PartitionSum:
    """What a partition has: how many records, from where to where, and their checksum."""

    partition: int
    records: int
    start: int
    end: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Difference:
    topic: str
    source: PartitionSum
    target: PartitionSum
    #: What the source has and the target has not yet, which is not compared: offsets, or records.
    behind: int

    @property
    def equal(self) -> bool:
        return self.source.records == self.target.records and self.source.checksum == self.target.checksum


async def partition_sum(
    cluster: Cluster,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    offsets: bool,
    limit: int | None = None,
) -> PartitionSum:
    """Counts and sums the committed records below ``end``; ``limit`` ends it after so many records."""
    digest = hashlib.sha256()
    count = 0
    if start < end:
        async for piece in read_raw(cluster, partition, start, end, isolation_level=READ_COMMITTED):
            for step in read_batches(
                *partition,
                piece.records,
                fetch_offset=start,
                aborted_transactions=piece.aborted_transactions,
                check_crcs=True,
            ):
                if step.batch is None:
                    continue
                for record in step.batch.consumer_records():
                    if record.offset < start or record.offset >= end or count == limit:
                        continue
                    count += 1
                    if offsets:
                        digest.update(_NUMBER.pack(record.offset))
                    digest.update(_NUMBER.pack(record.timestamp))
                    for part in (record.key, record.value):
                        _add(digest, part)
                    for name, value in record.headers:
                        _add(digest, name.encode())
                        _add(digest, value)
            if count == limit:
                break
    return PartitionSum(partition.partition, count, start, end, digest.hexdigest())


def _add(digest: "hashlib._Hash", part: bytes | None) -> None:
    """With its length, so that two parts cannot be taken for one; null is not the same as empty."""
    if part is None:
        digest.update(_NONE)
    else:
        digest.update(_NUMBER.pack(len(part)))
        digest.update(part)


async def compare_topics(
    source: Cluster,
    target: Cluster,
    names: Mapping[str, str],
    *,
    exact: bool,
    ends: Mapping[TopicPartition, int] | None = None,
) -> list[Difference]:
    """Every partition of each topic (source's name -> target's name), up to what both have."""
    found = []
    for source_name, target_name in names.items():
        here = (await source.topic(source_name, refresh=True)).partitions
        await target.topic(target_name, refresh=True)
        for index in range(len(here)):
            mine, theirs = TopicPartition(source_name, index), TopicPartition(target_name, index)
            end = (ends or {}).get(mine)
            found.append(await _compare(source, target, mine, theirs, exact=exact, end=end))
    return found


async def _compare(
    source: Cluster,
    target: Cluster,
    here: TopicPartition,
    there: TopicPartition,
    *,
    exact: bool,
    end: int | None,
) -> Difference:
    ours = (await source_bounds(source, [here], READ_COMMITTED))[here]
    theirs = (await source_bounds(target, [there], READ_COMMITTED))[there]
    if exact:
        start = max(ours.start, theirs.start)
        last = min(ours.end, theirs.end) if end is None else end
        mine = await partition_sum(source, here, start, last, offsets=True)
        copied = await partition_sum(target, there, start, last, offsets=True)
        return Difference(here.topic, mine, copied, max(0, ours.end - last))
    mine = await partition_sum(source, here, ours.start, ours.end if end is None else end, offsets=False)
    copied = await partition_sum(target, there, theirs.start, theirs.end, offsets=False, limit=mine.records)
    behind = mine.records - copied.records
    if behind:
        mine = await partition_sum(source, here, ours.start, ours.end, offsets=False, limit=copied.records)
    return Difference(here.topic, mine, copied, behind)
