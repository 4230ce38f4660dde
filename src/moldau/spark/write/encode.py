"""From rows to record batches, one for each partition.

Pure. A record's place in its partition is its place among the rows. Rows are looked at twice,
once to find how large each batch becomes and once to write it: they are neither sorted nor copied in
between.
"""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from moldau.base.buffer_pool import BufferPool
from moldau.client.producer.encoded_batch import RECORD_OVERHEAD, EncodedBatch
from moldau.client.producer.partitioner import partition_of
from moldau.protocol.compression import Compression
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.payload import encode_varint
from moldau.protocol.records import HEADER_SIZE
from moldau.spark.read.decoding import HAS_KERNELS
from moldau.spark.write.rows import Pieces, Rows

if HAS_KERNELS:
    from moldau.spark.kernels import records as kernels

Array: TypeAlias = Any


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


def encoded_batches(
    rows: Rows,
    chosen: Array,
    partitions: int,
    batch_bytes: int,
    max_record_bytes: int,
    compression: Compression,
    memory: BufferPool | None = None,
) -> list[EncodedBatch]:
    """Batches of at most ``batch_bytes`` before compression, unless one record alone is larger.

    They are in ``memory``, which is used again when they are gone.
    """
    if not rows.count:
        return []
    _check_sizes(rows, max_record_bytes)
    if HAS_KERNELS:
        made = _encode_fast(rows, chosen, partitions, batch_bytes, memory or BufferPool())
    else:
        made = _encode_plain(rows, chosen, batch_bytes)
    return [batch.compressed(compression) for batch in made] if compression else made


def _check_sizes(rows: Rows, max_record_bytes: int) -> None:
    parts = (rows.key.sizes, rows.value.sizes, rows.headers.sizes)
    if (
        RECORD_OVERHEAD + HEADER_SIZE + 1 + sum(max(int(sizes.max()), 0) for sizes in parts)
        <= max_record_bytes
    ):
        return  # even a record of the largest pieces is not too large
    sizes = RECORD_OVERHEAD + np.maximum(parts[0], 0) + np.maximum(parts[1], 0) + np.maximum(parts[2], 1)
    largest = int(sizes.max())
    if largest + HEADER_SIZE > max_record_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a record of about {largest} bytes is larger than "
            f"kafka.max.request.size={max_record_bytes}: raise it, and the topic's max.message.bytes with it",
        )


def _encode_fast(
    rows: Rows, chosen: Array, partitions: int, batch_bytes: int, memory: BufferPool
) -> list[EncodedBatch]:
    batch_of = np.empty(rows.count, np.int64)
    table = np.empty((rows.count, kernels.PLAN_COLUMNS), np.int64)
    parts = (rows.key, rows.value, rows.headers)
    plan: Any = kernels.plan_batches
    filling = np.empty(partitions, np.int64)
    count = plan(
        chosen, rows.timestamp, *(part.sizes for part in parts), batch_bytes, filling, batch_of, table
    )
    plans = table[:count]
    stops = np.cumsum(plans[:, kernels.BATCH_ROOM] + HEADER_SIZE)
    starts = np.concatenate(([0], stops[:-1]))
    ends = starts + HEADER_SIZE
    content = memory.take(int(stops[-1]))
    encode: Any = kernels.encode_batches
    arrays = [array for part in parts for array in (part.data, part.at, part.sizes)]
    encode(
        batch_of,
        plans,
        rows.timestamp,
        *arrays,
        np.zeros(count, np.int64),
        ends,
        np.frombuffer(content, np.uint8),
    )
    return [
        EncodedBatch(partition, records, first, last, Compression.NONE, content[start:end])
        for (partition, records, _, first, last), start, end in zip(
            plans.tolist(), starts.tolist(), ends.tolist(), strict=True
        )
    ]


def _encode_plain(rows: Rows, chosen: Array, batch_bytes: int) -> list[EncodedBatch]:
    key, value, headers = (part.data.tobytes() for part in (rows.key, rows.value, rows.headers))
    made: list[_PlainBatch] = []
    filling: dict[int, _PlainBatch] = {}
    for row, partition in enumerate(chosen.tolist()):
        timestamp = int(rows.timestamp[row])
        pieces = (
            _piece(key, rows.key, row),
            _piece(value, rows.value, row),
            _piece(headers, rows.headers, row),
        )
        size = RECORD_OVERHEAD + sum(len(content) for _, content in pieces[:2]) + max(len(pieces[2][1]), 1)
        batch = filling.get(partition)
        if batch is None or batch.size + size > batch_bytes:
            batch = filling[partition] = _PlainBatch(partition, timestamp, timestamp)
            made.append(batch)
        body = b"".join(
            (
                b"\x00",
                encode_varint(timestamp - batch.first),
                encode_varint(batch.count),
                *pieces[0],
                *pieces[1],
                pieces[2][1] or b"\x00",
            )
        )
        batch.records += encode_varint(len(body)) + body
        batch.size += size
        batch.count += 1
        batch.last = max(batch.last, timestamp)
    return [
        EncodedBatch(b.partition, b.count, b.first, b.last, Compression.NONE, memoryview(b.records))
        for b in made
    ]


@dataclass(slots=True)
class _PlainBatch:
    partition: int
    first: int
    last: int
    count: int = 0
    #: Bytes that the records take at most.
    size: int = 0
    records: bytearray = field(default_factory=lambda: bytearray(HEADER_SIZE))


def _piece(data: bytes, pieces: Pieces, row: int) -> tuple[bytes, bytes]:
    """The length as it is written, and the bytes."""
    at, size = int(pieces.at[row]), int(pieces.sizes[row])
    return encode_varint(size), data[at : at + max(size, 0)]
