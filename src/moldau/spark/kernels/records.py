"""The loops over single records, compiled by numba: from record batches to columns, and back.

Invariant: arrays in, arrays out; no Python object is touched, so every kernel runs without the
interpreter's lock. Every length is a claim until the bytes bear it out: a kernel returns a negative number
instead of reading or writing out of bounds. ``plain_decode`` does the same in plain Python, and the tests
compare the two.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call"
from typing import Any, TypeAlias

import numpy as np
from numba import njit, uint64

from moldau.client.producer.encoded_batch import RECORD_OVERHEAD

Array: TypeAlias = Any

#: What a kernel returns in place of a count.
CUT_OFF = -1
NO_BATCH = -2
BROKEN_RECORD = -3

#: Columns of the table that ``scan_batches`` fills, one row for each batch.
(
    POSITION,
    SIZE,
    BASE_OFFSET,
    LAST_OFFSET,
    ATTRIBUTES,
    BASE_TIMESTAMP,
    MAX_TIMESTAMP,
    PRODUCER_ID,
    COUNT,
    CRC,
) = range(10)
BATCH_COLUMNS = 10

#: Columns of the table that ``plan_batches`` fills, one row for each batch.
BATCH_PARTITION, BATCH_COUNT, BATCH_ROOM, FIRST_TIMESTAMP, LARGEST_TIMESTAMP = range(5)
PLAN_COLUMNS = 5

_HEADER_SIZE = 61
_LOG_OVERHEAD = 12
_MAGIC = 2


@njit(cache=True, nogil=True, inline="always")
def _big_endian(data: Array, at: int, size: int) -> Any:
    value = np.int64(0)
    for index in range(at, at + size):
        value = (value << 8) | np.int64(data[index])
    return value


@njit(cache=True, nogil=True, inline="always")
def _int32(data: Array, at: int) -> Any:
    value = _big_endian(data, at, 4)
    return value - (np.int64(1) << 32) if value >> 31 else value


@njit(cache=True, nogil=True)
def count_batches(data: Array) -> Any:
    """How many whole batches ``data`` holds and the offset of the last record; NO_BATCH where it is none.

    A batch that is cut off at the end is left out, as a fetch may end in the middle of one.
    """
    position, rows, size, last_offset = 0, 0, len(data), np.int64(-1)
    while position + _HEADER_SIZE <= size:
        length = _int32(data, position + 8)
        if length < _HEADER_SIZE - _LOG_OVERHEAD or data[position + 16] != _MAGIC:
            return NO_BATCH, last_offset
        if position + _LOG_OVERHEAD + length > size:
            break
        last_offset = _big_endian(data, position, 8) + _int32(data, position + 23)
        rows += 1
        position += _LOG_OVERHEAD + length
    return rows, last_offset


@njit(cache=True, nogil=True)
def scan_batches(data: Array, table: Array) -> None:
    """Fills ``table``, which has a row for each of the batches that ``count_batches`` has found."""
    position = 0
    for rows in range(len(table)):
        length = _int32(data, position + 8)
        base_offset = _big_endian(data, position, 8)
        row = table[rows]
        row[0] = position
        row[1] = _LOG_OVERHEAD + length
        row[2] = base_offset
        row[3] = base_offset + _int32(data, position + 23)
        row[4] = _big_endian(data, position + 21, 2)
        row[5] = _big_endian(data, position + 27, 8)
        row[6] = _big_endian(data, position + 35, 8)
        row[7] = _big_endian(data, position + 43, 8)
        row[8] = _int32(data, position + 57)
        row[9] = _big_endian(data, position + 17, 4)
        position += _LOG_OVERHEAD + length


@njit(cache=True, nogil=True, inline="always")
def _varint(data: Array, at: int, end: int) -> Any:
    """The number at ``at`` and the position behind it; a position of CUT_OFF where it does not end."""
    result = uint64(0)
    shift = uint64(0)
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        result |= uint64(byte & 0x7F) << shift
        if byte < 128:
            return np.int64(result >> uint64(1)) ^ -np.int64(result & uint64(1)), at
        shift += uint64(7)
    return np.int64(0), CUT_OFF


@njit(cache=True, nogil=True)
def _behind_headers(data: Array, at: int, stop: int, count: int) -> Any:
    """The position behind ``count`` headers; CUT_OFF where they do not fit."""
    for _ in range(count):
        size, at = _varint(data, at, stop)
        if at < 0 or size < 0 or size > stop - at:
            return CUT_OFF
        size, at = _varint(data, at + size, stop)
        if at < 0 or size > stop - at:
            return CUT_OFF
        at += max(size, 0)
    return at


@njit(cache=True, nogil=True)
def find_records(
    data: Array,
    starts: Array,
    ends: Array,
    base_offsets: Array,
    base_timestamps: Array,
    append_times: Array,
    counts: Array,
    first_offset: int,
    end_offset: int,
    places: Array,
) -> Any:
    """Where each record's parts are, of those with an offset in [first, end); how many, or BROKEN_RECORD.

    The rows of ``places``: offset, timestamp, then where key and value begin and their sizes (-1 is a null),
    where the headers begin and how many. An append time of -1 leaves records their own timestamps.
    """
    found = 0
    for batch in range(len(starts)):
        at, end = starts[batch], ends[batch]
        for _ in range(counts[batch]):
            size, at = _varint(data, at, end)
            stop = at + size
            if at < 0 or size < 6 or stop > end:
                return BROKEN_RECORD
            delta, at = _varint(data, at + 1, stop)
            if at < 0:
                return BROKEN_RECORD
            timestamp = base_timestamps[batch] + delta
            delta, at = _varint(data, at, stop)
            if at < 0:
                return BROKEN_RECORD
            offset = base_offsets[batch] + delta
            key_length, at = _varint(data, at, stop)
            if at < 0 or key_length > stop - at:
                return BROKEN_RECORD
            key_start = at
            at += max(key_length, 0)
            value_length, at = _varint(data, at, stop)
            if at < 0 or value_length > stop - at:
                return BROKEN_RECORD
            value_start = at
            at += max(value_length, 0)
            header_count, at = _varint(data, at, stop)
            if at < 0 or header_count < 0 or _behind_headers(data, at, stop, header_count) != stop:
                return BROKEN_RECORD
            if first_offset <= offset < end_offset:
                append_time = append_times[batch]
                places[0, found] = offset
                places[1, found] = timestamp if append_time < 0 else append_time
                places[2, found], places[3, found] = key_start, max(key_length, -1)
                places[4, found], places[5, found] = value_start, max(value_length, -1)
                places[6, found], places[7, found] = at, header_count
                found += 1
            at = stop
        if at != end:
            return BROKEN_RECORD
    return found


@njit(cache=True, nogil=True, inline="always")
def _copy(data: Array, start: int, size: int, out: Array, at: int) -> None:
    # Two slices of one length are what the compiler makes wide copies of: many times as fast as indexes.
    source, target = data[start : start + size], out[at : at + size]
    for byte in range(len(target)):
        target[byte] = source[byte]


@njit(cache=True, nogil=True)
def gather(data: Array, at: Array, sizes: Array, out: Array, offsets: Array, valid: Array) -> None:
    """Copies pieces of ``data`` one behind the other; Arrow's offsets and validity bits beside them."""
    end = 0
    for index in range(len(at)):
        offsets[index] = end
        size = sizes[index]
        if size >= 0:
            valid[index >> 3] |= np.uint8(1 << (index & 7))
            _copy(data, at[index], size, out, end)
            end += size
    offsets[len(at)] = end


@njit(cache=True, nogil=True)
def find_headers(
    data: Array,
    headers_at: Array,
    headers_count: Array,
    limit: int,
    name_at: Array,
    name_size: Array,
    value_at: Array,
    value_size: Array,
) -> Any:
    """The headers of all records, flat; how many, or BROKEN_RECORD. ``limit`` is where ``data`` ends."""
    found = 0
    for record in range(len(headers_at)):
        at = headers_at[record]
        for _ in range(headers_count[record]):
            size, at = _varint(data, at, limit)
            if at < 0 or size < 0 or size > limit - at:
                return BROKEN_RECORD
            name_at[found], name_size[found] = at, size
            size, at = _varint(data, at + size, limit)
            if at < 0 or size > limit - at:
                return BROKEN_RECORD
            value_at[found], value_size[found] = at, max(size, -1)
            at += max(size, 0)
            found += 1
    return found


# From columns to batches ------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def murmur2_partitions(data: Array, offsets: Array, sizes: Array, partitions: int, out: Array) -> None:
    """The partition that Kafka's own producers choose for each key; -1 for a null key (a size below 0)."""
    m = np.uint32(0x5BD1E995)
    for index in range(len(sizes)):
        size = sizes[index]
        if size < 0:
            out[index] = -1
            continue
        start = offsets[index]
        h = np.uint32(0x9747B28C) ^ np.uint32(size)
        whole = size & ~3
        for at in range(start, start + whole, 4):
            k = (
                np.uint32(data[at])
                | np.uint32(data[at + 1]) << np.uint32(8)
                | np.uint32(data[at + 2]) << np.uint32(16)
                | np.uint32(data[at + 3]) << np.uint32(24)
            )
            k = np.uint32(k * m)
            k ^= k >> np.uint32(24)
            k = np.uint32(k * m)
            h = np.uint32(h * m) ^ k
        rest = size & 3
        at = start + whole
        if rest == 3:
            h ^= np.uint32(data[at + 2]) << np.uint32(16)
        if rest >= 2:
            h ^= np.uint32(data[at + 1]) << np.uint32(8)
        if rest >= 1:
            h ^= np.uint32(data[at])
            h = np.uint32(h * m)
        h ^= h >> np.uint32(13)
        h = np.uint32(h * m)
        h ^= h >> np.uint32(15)
        out[index] = np.int64(h & np.uint32(0x7FFFFFFF)) % partitions


@njit(cache=True, nogil=True, inline="always")
def _varint_size(value: Any) -> Any:
    rest = uint64((value << 1) ^ (value >> 63))
    size = 1
    while rest > 127:
        rest >>= uint64(7)
        size += 1
    return size


@njit(cache=True, nogil=True, inline="always")
def _write_varint(out: Array, at: int, value: Any) -> Any:
    rest = uint64((value << 1) ^ (value >> 63))
    while rest > 127:
        out[at] = np.uint8(rest & uint64(127)) | np.uint8(128)
        rest >>= uint64(7)
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@njit(cache=True, nogil=True)
def plan_batches(
    chosen: Array,
    timestamps: Array,
    key_size: Array,
    value_size: Array,
    header_size: Array,
    batch_bytes: int,
    filling: Array,
    batch_of: Array,
    table: Array,
) -> Any:
    """The batch of each row, and what each batch will hold; how many batches.

    ``filling`` has one number for each partition, ``table`` one row for each batch.
    """
    filling[:] = -1
    batches = 0
    for row in range(len(chosen)):
        partition = chosen[row]
        size = RECORD_OVERHEAD + max(key_size[row], 0) + max(value_size[row], 0) + max(header_size[row], 1)
        batch = filling[partition]
        if batch < 0 or table[batch, BATCH_ROOM] + size > batch_bytes:
            batch, filling[partition] = batches, batches
            batches += 1
            table[batch, BATCH_PARTITION] = partition
            table[batch, BATCH_COUNT] = 0
            table[batch, BATCH_ROOM] = 0
            table[batch, FIRST_TIMESTAMP] = timestamps[row]
            table[batch, LARGEST_TIMESTAMP] = timestamps[row]
        batch_of[row] = batch
        table[batch, BATCH_COUNT] += 1
        table[batch, BATCH_ROOM] += size
        table[batch, LARGEST_TIMESTAMP] = max(table[batch, LARGEST_TIMESTAMP], timestamps[row])
    return batches


@njit(cache=True, nogil=True)
def encode_batches(
    batch_of: Array,
    table: Array,
    timestamps: Array,
    key_data: Array,
    key_at: Array,
    key_size: Array,
    value_data: Array,
    value_at: Array,
    value_size: Array,
    header_data: Array,
    header_at: Array,
    header_size: Array,
    counts: Array,
    ends: Array,
    out: Array,
) -> None:
    """Writes each row behind the one before it in its batch, which ends at ``ends`` then.

    ``header_data`` holds the headers of each record as they stand in a batch, their count in front; a size of
    0 stands for none. ``counts`` begins with zeros, ``ends`` with the places where batches begin.
    """
    for row in range(len(batch_of)):
        batch = batch_of[row]
        delta, at = counts[batch], ends[batch]
        timestamp_delta = timestamps[row] - table[batch, FIRST_TIMESTAMP]
        key_length, value_length, headers_length = key_size[row], value_size[row], header_size[row]
        body = (
            1
            + _varint_size(timestamp_delta)
            + _varint_size(delta)
            + _varint_size(key_length)
            + max(key_length, 0)
            + _varint_size(value_length)
            + max(value_length, 0)
            + max(headers_length, 1)
        )
        at = _write_varint(out, at, body)
        out[at] = 0
        at = _write_varint(out, at + 1, timestamp_delta)
        at = _write_varint(out, at, delta)
        at = _write_varint(out, at, key_length)
        _copy(key_data, key_at[row], max(key_length, 0), out, at)
        at = _write_varint(out, at + max(key_length, 0), value_length)
        _copy(value_data, value_at[row], max(value_length, 0), out, at)
        at += max(value_length, 0)
        if headers_length == 0:
            out[at] = 0
            at += 1
        else:
            _copy(header_data, header_at[row], headers_length, out, at)
            at += headers_length
        counts[batch] = delta + 1
        ends[batch] = at
