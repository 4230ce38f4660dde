"""From rows to record batches, one partition after the other.

Law: pure; a record's place in its partition is its place among the rows.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from moldau.client.partitioner import partition_of
from moldau.protocol.compression import Compression, compress
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.payload import encode_varint
from moldau.protocol.records import HEADER_SIZE
from moldau.spark.batch_payload import Payload
from moldau.spark.decoding import HAS_KERNELS
from moldau.spark.rows import Pieces, Rows

if HAS_KERNELS:
    from moldau.spark import kernels

Array: TypeAlias = Any
_SHORT = 1 << 16


def choose_partitions(rows: Rows, partitions: int, sticky: int) -> Array:
    """The partition of each row: its own column's, its key's, or the one for rows without a key."""
    if HAS_KERNELS:
        chosen = np.empty(rows.count, np.int64)
        kernels.murmur2_partitions(rows.key.data, rows.key.at, rows.key.sizes, partitions, chosen)
    else:
        data = rows.key.data.tobytes()
        chosen = np.array(
            [
                -1 if size < 0 else partition_of(data[at : at + size], partitions)
                for at, size in zip(rows.key.at.tolist(), rows.key.sizes.tolist(), strict=True)
            ],
            np.int64,
        )
    chosen[chosen < 0] = sticky
    if rows.partition is not None:
        chosen = np.where(rows.partition >= 0, rows.partition, chosen)
        if rows.count and int(chosen.max()) >= partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"column partition says {int(chosen.max())}, "
                f"and the topic has partitions 0 to {partitions - 1}",
            )
    return chosen


def payloads(
    rows: Rows, chosen: Array, batch_bytes: int, max_record_bytes: int, compression: Compression
) -> Iterator[Payload]:
    """Batches of at most ``batch_bytes`` before compression, unless one record alone is larger."""
    sizes = (
        31
        + np.maximum(rows.key.sizes, 0)
        + np.maximum(rows.value.sizes, 0)
        + np.maximum(rows.headers.sizes, 1)
    )
    if rows.count and int(sizes.max()) + HEADER_SIZE > max_record_bytes:
        worst = int(sizes.argmax())
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a record of about {int(sizes[worst])} bytes is larger than "
            f"kafka.max.request.size={max_record_bytes}: raise it, and the topic's max.message.bytes with it",
        )
    # Numbers of two bytes are sorted by their digits, in a fraction of the time.
    few = bool(rows.count) and int(chosen.max()) < _SHORT
    order = np.argsort(chosen.astype(np.uint16) if few else chosen, kind="stable")
    edges = np.flatnonzero(np.diff(chosen[order])) + 1
    for group in np.split(order, edges) if rows.count else ():
        ends = np.cumsum(sizes[group])
        start = 0
        while start < len(group):
            before = int(ends[start - 1]) if start else 0
            stop = max(int(np.searchsorted(ends, before + batch_bytes, side="right")), start + 1)
            yield _payload(rows, int(chosen[group[0]]), group[start:stop], compression)
            start = stop


def _payload(rows: Rows, partition: int, which: Array, compression: Compression) -> Payload:
    timestamps = rows.timestamp[which]
    base_timestamp = int(timestamps[0])
    records = _encode_fast(rows, which, base_timestamp) if HAS_KERNELS else _encode_plain(rows, which)
    if compression:
        records = compress(compression, records)
    return Payload(partition, len(which), base_timestamp, int(timestamps.max()), compression, records)


def _encode_fast(rows: Rows, which: Array, base_timestamp: int) -> bytes:
    parts = (rows.key, rows.value, rows.headers)
    room = sum(int(np.maximum(part.sizes[which], 0).sum()) for part in parts) + 32 * len(which)
    out = np.empty(room, np.uint8)
    arrays = [array for part in parts for array in (part.data, part.at, part.sizes)]
    encode: Any = kernels.encode_records
    size = encode(which, rows.timestamp, *arrays, base_timestamp, out)
    return out[:size].tobytes()


def _encode_plain(rows: Rows, which: Array) -> bytes:
    key, value, headers = (part.data.tobytes() for part in (rows.key, rows.value, rows.headers))
    out: list[bytes] = []
    first = int(rows.timestamp[which[0]])
    for delta, row in enumerate(which.tolist()):
        body = b"".join(
            (
                b"\x00",
                encode_varint(int(rows.timestamp[row]) - first),
                encode_varint(delta),
                *_piece(key, rows.key, row),
                *_piece(value, rows.value, row),
                _piece(headers, rows.headers, row)[1] or b"\x00",
            )
        )
        out += (encode_varint(len(body)), body)
    return b"".join(out)


def _piece(data: bytes, pieces: Pieces, row: int) -> tuple[bytes, bytes]:
    """The length as it is written, and the bytes."""
    at, size = int(pieces.at[row]), int(pieces.sizes[row])
    return encode_varint(size), data[at : at + max(size, 0)]
