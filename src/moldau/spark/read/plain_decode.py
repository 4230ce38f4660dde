"""What ``fast_decode`` does in plain Python: for few records, where numba is absent, and to check it.

Invariant: the same columns and the same words for the same bytes. Slow is fine here, and clever is not.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from moldau.client.consumer.fetched import ConsumerRecord, FetchedBatch, read_batches
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.fetch import AbortedTransaction
from moldau.protocol.records import batches, crc_matches
from moldau.spark.read import damage
from moldau.spark.read.columns import HEADERS_TYPE, Columns, number_array


def decode(
    records: memoryview,
    *,
    name: str,
    first_offset: int,
    end_offset: int,
    aborted: Sequence[AbortedTransaction] | None,
    headers: bool = False,
) -> Columns:
    """The records of [first, end) in the whole batches of ``records``; ``name`` is for messages only."""
    next_offset = first_offset
    rows: list[ConsumerRecord] = []
    _check(records, name, first_offset, end_offset)
    for step in read_batches(
        name, -1, records, fetch_offset=first_offset, aborted_transactions=aborted, check_crcs=False
    ):
        next_offset = step.next_offset
        if step.batch is not None and step.batch.header.base_offset < end_offset:
            rows += [r for r in _records(step.batch, name) if first_offset <= r.offset < end_offset]
    return Columns(
        next_offset,
        number_array(np.array([row.offset for row in rows], np.int64), pa.int64()),
        number_array(np.array([row.timestamp for row in rows], np.int64), pa.int64()),
        number_array(np.array([row.timestamp_type for row in rows], np.int32), pa.int32()),
        _bytes([row.key for row in rows]),
        _bytes([row.value for row in rows]),
        pa.array([_headers(row.headers) for row in rows], HEADERS_TYPE) if headers else None,
    )


def _check(records: memoryview, name: str, first_offset: int, end_offset: int) -> None:
    """Everything that is wanted are whole batches with the right checksums."""
    try:
        found = list(batches(records))
    except KafkaError:
        raise damage.no_batches(name) from None
    for position, header in found:
        wanted = header.last_offset >= first_offset and header.base_offset < end_offset
        if wanted and not crc_matches(records, position, header.size):
            raise damage.wrong_checksum(name, header.base_offset)


def _records(batch: FetchedBatch, name: str) -> list[ConsumerRecord]:
    try:
        return list(batch.consumer_records())
    except KafkaError as error:
        if batch.header.compression:
            raise damage.cannot_decompress(name, batch.header.base_offset, error) from None
        raise damage.broken(name, batch.header.base_offset, batch.header.last_offset) from None


def _bytes(values: list[bytes | None]) -> pa.Array:
    edges = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(value or b"") for value in values], out=edges[1:])
    valid = np.packbits(np.array([value is not None for value in values], bool), bitorder="little")
    content = b"".join(value or b"" for value in values)
    return pa.Array.from_buffers(
        pa.binary(), len(values), [pa.py_buffer(valid), pa.py_buffer(edges), pa.py_buffer(content)]
    )


def _headers(pairs: Sequence[tuple[str, bytes | None]]) -> list[dict[str, object]] | None:
    return [{"key": name, "value": value} for name, value in pairs] or None
