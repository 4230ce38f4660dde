"""Reads as a consumer with ``isolation.level=read_committed``: from a Fetch response to its records.

It uses nothing but the response: the batches and the list of aborted transactions.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from moldau.protocol.control_records import decode_marker
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.records import batches, decode_records

VERSION = 12


class Seen(NamedTuple):
    offset: int
    key: str
    value: str


class Page(NamedTuple):
    """What one answer shows of a partition, and where to go on."""

    records: list[Seen]
    next_offset: int
    last_stable_offset: int


def request(topic: str, partition: int, offset: int) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=topic, partitions=[wanted])]
    return FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=1, topics=topics)


def page(response: Any, offset: int) -> Page | None:
    """None when the partition cannot be read now."""
    data = response.responses[0].partitions[0] if response.responses else None
    if response.error_code or data is None or data.error_code != ErrorCode.NONE:
        return None
    aborted = [(each.first_offset, each.producer_id) for each in data.aborted_transactions or ()]
    piece = data.records if isinstance(data.records, bytes) else data.records.read()
    records = []
    next_offset = offset
    for seen, last_offset in _visible(piece, sorted(aborted)):
        next_offset = max(next_offset, last_offset + 1)
        records += [each for each in seen if each.offset >= offset]
    return Page(records, next_offset, data.last_stable_offset)


def _visible(piece: bytes, aborted: list[tuple[int, int]]) -> Iterator[tuple[list[Seen], int]]:
    """The records of each batch that count, with the last offset of the batch."""
    under_way: set[int] = set()
    for position, header in batches(piece):
        while aborted and aborted[0][0] <= header.last_offset:
            under_way.add(aborted.pop(0)[1])
        if header.is_control:
            marker = decode_marker(piece, position, header)
            if marker is not None and not marker.committed:
                under_way.discard(header.producer_id)
            yield [], header.last_offset
        elif header.is_transactional and header.producer_id in under_way:
            yield [], header.last_offset
        else:
            decoded = decode_records(piece, position, header, limit=1 << 20)
            yield [_seen(record) for record in decoded], header.last_offset


def _seen(record: Any) -> Seen:
    return Seen(record.offset, (record.key or b"").decode(), (record.value or b"").decode())
