"""The bytes of a partition as they are in the log, from one offset to another.

    async for piece in read_raw(cluster, TopicPartition("orders", 0), start, end):
        for position, header in batches(piece.records): ...

Invariant: plain Fetch, so that every Kafka can be read like this. Whole batches, control batches included,
each once and in order, their checksums as they came; the last one may go on behind the end. The end is
reached, or the error says why not. A leader that moved is followed.
"""

from collections.abc import AsyncIterator
from itertools import count
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.client.admin.descriptions import READ_UNCOMMITTED
from moldau.client.consumer.partition_fetcher import Fetched, PartitionFetcher
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import AbortedTransaction
from moldau.protocol.records import batches

#: Answers in a row without a batch below the end before something must be wrong.
_MAX_EMPTY = 20
_NUMBERS = count()


class Piece(NamedTuple):
    """Whole batches that follow each other."""

    records: memoryview
    next_offset: int
    #: Transactions with records here that were aborted; none unless they were asked for.
    aborted_transactions: list[AbortedTransaction]


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
    fetcher = PartitionFetcher(
        cluster,
        partition,
        isolation_level=isolation_level,
        max_bytes=max_bytes,
        purpose=f"raw-{next(_NUMBERS)}",
    )
    try:
        while offset < end:
            piece = _piece(await fetcher.fetch(offset, max_bytes), offset)
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
        await fetcher.disconnect()


def _piece(fetched: Fetched, offset: int) -> Piece | None:
    """The whole batches of an answer that reach up to ``offset`` or behind it."""
    records = fetched.records
    first, last, next_offset = -1, 0, offset
    for position, header in batches(records):
        if header.last_offset < offset:
            continue
        if first < 0:
            first = position
        last, next_offset = position + header.size, header.last_offset + 1
    if first < 0:
        return None
    return Piece(records[first:last], next_offset, fetched.aborted_transactions)
