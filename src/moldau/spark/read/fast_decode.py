"""From the bytes of a fetch to columns, by kernels: arrays that Arrow takes as they are.

Invariant: checksums are checked, control batches and aborted transactions are left out, and only records of
the wanted range come through. A batch that cannot be read is a ``KafkaError`` that names its offset;
nothing is skipped in silence. ``plain_decode`` gives the same result, slowly.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from moldau.client.consumer.fetched import AbortFilter
from moldau.protocol.checksum import crc32c
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.fetch import AbortedTransaction
from moldau.protocol.records import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL_MASK,
    HEADER_SIZE,
    TIMESTAMP_TYPE_MASK,
)
from moldau.spark.jvm.column_memory import fresh_bytes, placed
from moldau.spark.kernels import records as kernels
from moldau.spark.read import damage
from moldau.spark.read.columns import HEADERS_TYPE, Columns, number_array
from moldau.spark.read.decompression import Decompressor

Array: TypeAlias = Any

#: What one batch may grow to when it is decompressed.
MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024


def decode(
    records: memoryview,
    *,
    name: str,
    first_offset: int,
    end_offset: int,
    aborted: Sequence[AbortedTransaction] | None,
    headers: bool = False,
    decompressor: Decompressor | None = None,
) -> Columns:
    """The records of [first, end) in the whole batches of ``records``; ``name`` is for messages only."""
    data = np.frombuffer(records, np.uint8)
    rows, last_offset = kernels.count_batches(data)
    if rows < 0:
        raise damage.no_batches(name)
    table = np.empty((rows, kernels.BATCH_COLUMNS), np.int64)
    kernels.scan_batches(data, table)
    next_offset = max(first_offset, int(last_offset) + 1)
    wanted = table[
        (table[:, kernels.LAST_OFFSET] >= first_offset) & (table[:, kernels.BASE_OFFSET] < end_offset)
    ]
    _check_crcs(records, wanted, name)
    shown = wanted[_shown(records, wanted, aborted)]
    payload = _payloads(records, data, shown, name, decompressor or Decompressor())
    return _columns(payload, shown, name, first_offset, end_offset, next_offset, headers)


def next_offset_of(records: memoryview, first_offset: int) -> int:
    """Where the next fetch begins, from the headers of the batches alone."""
    data = np.frombuffer(records, np.uint8)
    _, last_offset = kernels.count_batches(data)
    return max(first_offset, int(last_offset) + 1)


def _check_crcs(records: memoryview, table: Array, name: str) -> None:
    for position, size, base_offset, crc in table[
        :, [kernels.POSITION, kernels.SIZE, kernels.BASE_OFFSET, kernels.CRC]
    ].tolist():
        if crc32c(records[position + ATTRIBUTES_AT : position + size]) != crc:
            raise damage.wrong_checksum(name, base_offset)


def _shown(records: memoryview, table: Array, aborted: Sequence[AbortedTransaction] | None) -> Array:
    """Which batches a reader may see."""
    attributes = table[:, kernels.ATTRIBUTES]
    shown = (attributes & CONTROL_MASK) == 0
    if not aborted:
        return shown
    hides = AbortFilter(aborted).hides
    columns = table[
        :, [kernels.POSITION, kernels.ATTRIBUTES, kernels.PRODUCER_ID, kernels.LAST_OFFSET]
    ].tolist()
    return np.array([not hides(records, *row) for row in columns], bool)


def _payloads(
    records: memoryview, data: Array, table: Array, name: str, decompressor: Decompressor
) -> tuple[Array, Array, Array]:
    """The bytes of the records, decompressed where need be, and where each batch begins and ends in them."""
    starts = table[:, kernels.POSITION] + HEADER_SIZE
    ends = table[:, kernels.POSITION] + table[:, kernels.SIZE]
    codecs = table[:, kernels.ATTRIBUTES] & COMPRESSION_MASK
    if not codecs.any():
        return data, starts, ends
    sizes: list[int] = []
    decompressor.begin(records)
    for start, end, codec, base_offset in zip(
        starts.tolist(), ends.tolist(), codecs.tolist(), table[:, kernels.BASE_OFFSET].tolist(), strict=True
    ):
        try:
            sizes.append(decompressor.add(codec, start, end, MAX_DECOMPRESSED_BYTES))
        except KafkaError as error:
            raise damage.cannot_decompress(name, base_offset, error) from None
    ends = np.cumsum(np.array(sizes, np.int64))
    # Writable memory, as that of a fetch is: numba would compile the kernel again for read-only memory.
    return np.frombuffer(decompressor.end(), np.uint8), ends - sizes, ends


def _columns(
    decompressed: tuple[Array, Array, Array],
    table: Array,
    name: str,
    first_offset: int,
    end_offset: int,
    next_offset: int,
    with_headers: bool,
) -> Columns:
    payload, starts, ends = decompressed
    counts = table[:, kernels.COUNT]
    # A record takes seven bytes at least: a count that claims more than that is found out by the kernel.
    capacity = int(np.minimum(np.maximum(counts, 0), (ends - starts) // 7).sum()) if len(table) else 0
    places = np.empty((8, capacity), np.int64)
    own_time = (table[:, kernels.ATTRIBUTES] & TIMESTAMP_TYPE_MASK) == 0
    append_times = np.where(own_time, np.int64(-1), table[:, kernels.MAX_TIMESTAMP])
    if (counts > (ends - starts) // 7).any() or (counts < 0).any():
        raise _broken(name, table)
    found = kernels.find_records(
        payload,
        starts,
        ends,
        np.ascontiguousarray(table[:, kernels.BASE_OFFSET]),
        np.ascontiguousarray(table[:, kernels.BASE_TIMESTAMP]),
        append_times,
        np.ascontiguousarray(counts),
        first_offset,
        end_offset,
        places,
    )
    if found < 0:
        raise _broken(name, table)
    offsets, timestamps, key_at, key_size, value_at, value_size, headers_at, headers_count = places[:, :found]
    kind = np.zeros(found, np.int32)
    if not own_time.all():
        appended = np.searchsorted(table[:, kernels.LAST_OFFSET], offsets)
        kind[:] = ~own_time[appended]
    return Columns(
        next_offset,
        number_array(offsets, pa.int64()),
        number_array(timestamps, pa.int64()),
        number_array(kind, pa.int32()),
        _pieces(payload, key_at, key_size),
        _pieces(payload, value_at, value_size),
        _headers(payload, headers_at, headers_count, name, table) if with_headers else None,
    )


def _pieces(data: Array, at: Array, sizes: Array) -> pa.Array:
    column = placed(data, at, sizes)
    return binary_array(data, at, sizes) if column is None else column


def binary_array(data: Array, at: Array, sizes: Array, kind: pa.DataType | None = None) -> pa.Array:
    """An Arrow array of pieces of ``data``; a size below 0 is a null."""
    rows = len(at)
    out = fresh_bytes(int(np.maximum(sizes, 0).sum()))
    offsets = np.empty(rows + 1, np.int32)
    valid = np.zeros((rows + 7) // 8, np.uint8)
    kernels.gather(data, at, sizes, out, offsets, valid)
    buffers = [pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(kind or pa.binary(), rows, buffers)


def _headers(payload: Array, headers_at: Array, counts: Array, name: str, table: Array) -> pa.Array:
    total = int(counts.sum())
    if total > len(payload):
        raise _broken(name, table)
    places = np.empty((4, total), np.int64)
    if kernels.find_headers(payload, headers_at, counts, len(payload), *places) < 0:
        raise _broken(name, table)
    names = binary_array(payload, places[0], places[1], pa.string())
    values = binary_array(payload, places[2], places[3])
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        raise _broken(name, table, "a header's name is not UTF-8") from None
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS_TYPE.value_type))
    # Spark's connector gives null, not an empty list, for a record without headers.
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, mask=pa.array(counts == 0))


def _broken(name: str, table: Array, reason: str = "its records do not fill it") -> KafkaError:
    first = int(table[0, kernels.BASE_OFFSET]) if len(table) else -1
    last = int(table[-1, kernels.LAST_OFFSET]) if len(table) else -1
    return damage.broken(name, first, last, reason)
