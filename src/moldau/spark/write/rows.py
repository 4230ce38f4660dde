"""The rows of a DataFrame as a producer sees them: key, value, headers, topic, partition and timestamp.

Invariant: pure; Arrow in, arrays out. What a column must be is Spark's connector's rule: ``value`` is
there, bytes or text; ``key``, ``headers``, ``topic``, ``partition`` may be. ``timestamp`` is ours.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from moldau.protocol.payload import encode_headers
from moldau.spark.options import OptionError

Array: TypeAlias = Any

#: Read-only, as the bytes of any column: numba would compile the kernel again for writable memory.
_NOTHING: Array = np.frombuffer(b"", np.uint8)


@dataclass(frozen=True, slots=True)
class Pieces:
    """Byte strings in one buffer; a size of -1 is a null."""

    data: Array
    at: Array
    sizes: Array


@dataclass(frozen=True, slots=True)
class Rows:
    count: int
    key: Pieces
    value: Pieces
    #: The headers of each record as they stand in a batch, the count in front; size 0 for none.
    headers: Pieces
    #: None where the option ``topic`` says it.
    topic: pa.Array | None
    partition: Array | None
    #: Milliseconds.
    timestamp: Array


def rows_of(batch: pa.RecordBatch, now_ms: int) -> Rows:
    """The rows of one Arrow batch."""
    columns = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
    count = batch.num_rows
    timestamps = np.full(count, now_ms, np.int64)
    if "timestamp" in columns:
        given = columns["timestamp"].cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
        timestamps = given.fill_null(now_ms).to_numpy(zero_copy_only=False).astype(np.int64)
    partition = None
    if "partition" in columns:
        partition = columns["partition"].cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return Rows(
        count,
        pieces_of(columns["key"], "key") if "key" in columns else no_pieces(count, -1),
        pieces_of(columns["value"], "value"),
        header_pieces(columns["headers"]) if "headers" in columns else no_pieces(count, 0),
        columns.get("topic"),
        partition,
        timestamps,
    )


def pieces_of(array: Any, name: str) -> Pieces:
    """A column of bytes or text, in place."""
    kind = array.type
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        width: Any = np.int64
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        width = np.int32
    else:
        raise OptionError(f"column {name} is {kind}: a record holds bytes, so cast it to STRING or BINARY")
    valid, offsets, data = array.buffers()
    edges = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    sizes = np.diff(edges)
    if valid is not None and array.null_count:
        sizes[~np.asarray(array.is_valid().to_numpy(zero_copy_only=False), bool)] = -1
    content = np.frombuffer(data, np.uint8) if data is not None else _NOTHING
    content.flags.writeable = False
    return Pieces(content, edges[:-1], sizes)


def no_pieces(count: int, size: int) -> Pieces:
    """All of one size: -1 for nulls, 0 for nothing."""
    return Pieces(_NOTHING, np.zeros(count, np.int64), np.full(count, size, np.int64))


def header_pieces(array: Any) -> Pieces:
    """Headers are rare and small: they are encoded one by one."""
    out = bytearray()
    at = np.zeros(len(array), np.int64)
    sizes = np.zeros(len(array), np.int64)
    for index, pairs in enumerate(array.to_pylist()):
        if pairs:
            encoded = encode_headers([(pair["key"], pair["value"]) for pair in pairs])
            at[index], sizes[index] = len(out), len(encoded)
            out += encoded
    return Pieces(np.frombuffer(bytes(out), np.uint8), at, sizes)
