"""The bytes of a partition as they lie in the log, from one offset to another.

    async for piece in read_raw(cluster, TopicPartition("orders", 0), start, end):
        for position, header in batches(piece.records): ...

Invariant: plain Fetch, so that every Kafka can be read like this. Whole batches, control batches included,
each once and in order, their checksums as they came; the last one may go on behind the end. The end is
reached, or the error says why not. A leader that moved is followed.
"""

from collections.abc import AsyncIterator
from functools import partial
from itertools import count
from typing import NamedTuple

from moldau.base.names import ZERO_UUID, TopicPartition
from moldau.client.admin.descriptions import READ_UNCOMMITTED
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.connection import error_code
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from moldau.protocol.records import batches

#: The last version of Fetch that names topics; later ones have their ids.
_LAST_VERSION_WITH_NAMES = 12
_MAX_WAIT_MS = 500
#: Answers in a row without a batch below the end before something must be wrong.
_MAX_EMPTY = 20
_NUMBERS = count()


class Piece(NamedTuple):
    """Whole batches that follow each other."""

    records: memoryview
    next_offset: int
    #: Transactions with records here that were aborted; None unless they were asked for.
    aborted_transactions: list[AbortedTransaction] | None


async def read_raw(
    cluster: Cluster,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    isolation_level: int = READ_UNCOMMITTED,
    max_bytes: int = 4 * 1024 * 1024,
) -> AsyncIterator[Piece]:
    """Every batch with offsets from ``start`` to below ``end``."""
    offset, empty = start, 0
    lane = f"raw-{next(_NUMBERS)}"  # who reads beside us must not wait behind our long polls
    try:
        while offset < end:
            fetch = partial(_fetch, cluster, partition, offset, isolation_level, max_bytes, lane)
            data = await cluster.retry(fetch)
            piece = _piece(data, offset)
            if piece is None:
                empty += 1
                if empty == _MAX_EMPTY:
                    raise KafkaError(
                        ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition} gives nothing from offset {offset} on"
                    )
                continue
            empty = 0
            offset = piece.next_offset
            yield piece
    finally:
        known = cluster.partition(partition)
        if known is not None:
            await cluster.hang_up(known.leader_id, lane)


async def _fetch(
    cluster: Cluster, partition: TopicPartition, offset: int, isolation_level: int, max_bytes: int, lane: str
) -> PartitionData:
    topic = await cluster.topic(partition.topic)
    asked = FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=_MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=[FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[asked])],
    )
    by_name = topic.topic_id == ZERO_UUID
    connection = await cluster.leader(partition, lane)
    answer: FetchResponse = await connection.send(
        request, max_version=_LAST_VERSION_WITH_NAMES if by_name else None
    )
    if answer.error_code:
        raise KafkaError(error_code(answer.error_code), f"{connection.address} refused to fetch")
    (data,) = answer.responses[0].partitions
    if data.error_code:
        raise KafkaError(error_code(data.error_code), f"{partition} cannot be read at offset {offset}")
    return data


def _piece(data: PartitionData, offset: int) -> Piece | None:
    """The whole batches of an answer that reach up to ``offset`` or behind it."""
    records = data.records
    if not records:
        return None
    first, last, next_offset = -1, 0, offset
    for position, header in batches(records):
        if header.last_offset < offset:
            continue
        if first < 0:
            first = position
        last, next_offset = position + header.size, header.last_offset + 1
    if first < 0:
        return None
    return Piece(memoryview(records)[first:last], next_offset, data.aborted_transactions)
