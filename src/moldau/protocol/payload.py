"""The uncompressed records of a batch: check their lengths, decode them, encode them.

Invariant: nothing here knows batch headers. No length is trusted before it was compared with the bytes.
Malformed bytes raise CORRUPT_MESSAGE (``records_error`` returns a sentence instead), never another
exception.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from moldau.protocol.compression import Buffer
from moldau.protocol.errors import ErrorCode, KafkaError

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record. A header name that is not UTF-8 keeps its bytes as surrogate escapes."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


# Varints ----------------------------------------------------------------------------------------------------

VARINT_BYTES = 5  # for 32 bits
VARLONG_BYTES = 10  # for 64 bits
_INT64_LIMIT = 1 << 63

#: The values of varints of one byte.
_SMALL = tuple(byte >> 1 ^ -(byte & 1) for byte in range(128))


def read_varint(data: Buffer, at: int, most: int = VARINT_BYTES) -> tuple[int, int]:
    """The number there and the position after it; IndexError where the data ends before the varint does."""
    byte = data[at]
    if byte < 128:
        return _SMALL[byte], at + 1
    second = data[at + 1]
    if second < 128:
        number = byte & 127 | second << 7
        return number >> 1 ^ -(number & 1), at + 2
    third = data[at + 2]
    if third < 128:
        number = byte & 127 | (second & 127) << 7 | third << 14
        return number >> 1 ^ -(number & 1), at + 3
    return _read_long_varint(data, at, most)


def _read_long_varint(data: Buffer, at: int, most: int) -> tuple[int, int]:
    number = shift = 0
    for index in range(at, at + most):
        byte = data[index]
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            if number >> (32 if most == VARINT_BYTES else 64):
                break
            return number >> 1 ^ -(number & 1), index + 1
    raise _corrupt("a varint is longer than its number can be")


def encode_varint(number: int) -> bytes:
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    result = bytearray()
    while rest > 127:
        result.append(rest & 127 | 128)
        rest >>= 7
    result.append(rest)
    return bytes(result)


#: The encoded varints of the first numbers.
_VARINTS = tuple(encode_varint(number) for number in range(1024))
_VARINT_COUNT = len(_VARINTS)
_NULL = encode_varint(-1)


# Lengths ----------------------------------------------------------------------------------------------------

# The distance from a record to the next, by the first and the second byte of its length. A length that is
# negative, has a third byte or an unnecessary second one, or is too short for a record gets a distance out of
# every batch, so that the fast loop needs no further checks: it ends at a wrong position or with an
# IndexError.
_FAR = 1 << 40
#: Attributes, two deltas, two lengths and the number of headers.
_SHORTEST_RECORD = 6
_HOP_FIRST = tuple(
    _FAR
    if byte & 1 or byte < 2 * _SHORTEST_RECORD
    else (byte >> 1) + 1
    if byte < 128
    else (byte - 128 >> 1) + 2
    for byte in range(256)
)
_HOP_SECOND = tuple(byte << 6 if 0 < byte < 128 else _FAR for byte in range(256))

_SHORTEST_RUN = 8
_FIRST_WINDOW = 64
_MAX_HOPS_BETWEEN_LOOKS = 256
#: The search for runs needs a copy of the bytes, which is worth it up to this mean record size.
_MAX_MEAN_SIZE_FOR_RUNS = 512


def records_error(payload: Buffer, count: int) -> str | None:
    """What is wrong with the lengths of the ``count`` records in ``payload``; None if nothing is.

    Keys and values are not read. Produced batches get the full check of ``record_checks``.
    """
    try:
        if count <= _SHORTEST_RUN or len(payload) > count * _MAX_MEAN_SIZE_FOR_RUNS:
            end = _hop(payload, 0, count)
        else:
            end = _hop_in_runs(bytes(payload), count)
        if end == len(payload) and count >= 0:
            return None
    except IndexError:
        pass
    return _describe_records_error(payload, count)


def _hop(data: Buffer, position: int, count: int) -> int:
    """Where ``count`` records end if each length has one or two bytes; else IndexError or any number."""
    first, second = _HOP_FIRST, _HOP_SECOND
    for _ in range(count):
        byte = data[position]
        if byte > 127:
            position += second[data[position + 1]]
        position += first[byte]
    return position


def _hop_in_runs(data: bytes, count: int) -> int:
    """Like ``_hop``, faster for many records.

    Producers often send records of one size. A slice with a step finds a run of them at a tenth of the cost
    of single hops, so runs are looked for first; where there are none, less and less often.
    """
    position = 0
    window, hops_between_looks = _FIRST_WINDOW, _SHORTEST_RUN
    while count > 0:
        most = min(window, count)
        run, step = _equal_lengths(data, position, most)
        position += run * step
        count -= run
        # The window grows only while all of it is used, so that a look never costs more than a few hops.
        window = window * 4 if run == most else _FIRST_WINDOW
        if run < _SHORTEST_RUN:
            hops = min(hops_between_looks, count)
            position = _hop(data, position, hops)
            count -= hops
            hops_between_looks = min(hops_between_looks * 2, _MAX_HOPS_BETWEEN_LOOKS)
        else:
            hops_between_looks = _SHORTEST_RUN
    return position


def _equal_lengths(data: bytes, position: int, most: int) -> tuple[int, int]:
    """How many of the next ``most`` records have the same length, and how far apart they start."""
    byte = data[position]
    step = _HOP_FIRST[byte]
    if byte > 127:
        step += _HOP_SECOND[data[position + 1]]
    end = position + most * step
    firsts = data[position:end:step]
    run = len(firsts) - len(firsts.lstrip(firsts[:1]))
    if byte > 127 and run > 1:
        seconds = data[position + 1 : end : step]
        run = min(run, len(seconds) - len(seconds.lstrip(seconds[:1])))
    return run, step


def _describe_records_error(data: Buffer, count: int) -> str | None:
    """``records_error`` for lengths of any size, with the reason."""
    if count < 0:
        return f"a count of {count} records"
    position = 0
    for index in range(count):
        if position == len(data):
            return f"{index} records where {count} are counted"
        try:
            length, start = read_varint(data, position)
        except IndexError:
            return f"the bytes end inside the length of record {index}"
        except KafkaError:
            return f"the length of record {index} takes more than {VARINT_BYTES} bytes"
        if length < _SHORTEST_RECORD:
            return f"record {index} has the length {length}"
        position = start + length
        if position > len(data):
            return f"record {index} has the length {length} where {len(data) - start} bytes are left"
    if position < len(data):
        return f"{len(data) - position} bytes are left behind the {count} records that are counted"
    return None


def has_null_key(payload: Buffer, count: int) -> int | None:
    """The index of the first record without a key, None when all have one."""
    data = payload if isinstance(payload, bytes) else bytes(payload)
    position = 0
    try:
        for index in range(count):
            length, at = read_varint(data, position)
            position = at + length
            at += 1  # attributes
            at = at + 1 if data[at] < 128 else read_varint(data, at, VARLONG_BYTES)[1]  # timestamp
            at = at + 1 if data[at] < 128 else read_varint(data, at)[1]  # offset
            key_length, at = read_varint(data, at)
            if key_length < 0:
                return index
            if at + key_length > position:
                raise _corrupt(f"the key of record {index} runs past the record's end")
    except IndexError:
        raise _corrupt("the records end in the middle") from None
    return None


# Decoding ---------------------------------------------------------------------------------------------------


#: Records that are decoded at a time where not all of them are wanted together.
_PIECE = 1000


def decode_payload(
    data: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> list[Record]:
    """The ``count`` records that fill ``data``; ``append_time`` replaces their own timestamps."""
    records, end = _decode(data, 0, range(count), base_offset, base_timestamp, append_time)
    if end != len(data):
        raise _corrupt(f"{len(data) - end} bytes are left behind the {count} records that are counted")
    return records


def iterate_payload(data: bytes, count: int, base_offset: int, base_timestamp: int) -> Iterator[Record]:
    """The ``count`` records in ``data``, a few of which exist at a time: as objects they are a hundred times
    as large as the smallest records are in a batch.
    """
    at = 0
    for start in range(0, count, _PIECE):
        indexes = range(start, min(start + _PIECE, count))
        records, at = _decode(data, at, indexes, base_offset, base_timestamp, None)
        yield from records


def _decode(
    data: bytes, at: int, indexes: range, base_offset: int, base_timestamp: int, append_time: int | None
) -> tuple[list[Record], int]:
    """The records from ``at`` on, and where they end. A call for each field would double the time."""
    records: list[Record] = []
    append, new, small = records.append, tuple.__new__, _SMALL
    try:
        for index in indexes:
            if (byte := data[at]) < 128:
                end = at + 1 + small[byte]
                at += 2  # the attributes of a record are unused
            elif (second := data[at + 1]) < 128 and not byte & 1:
                end = at + 2 + (byte >> 1 & 63 | second << 6)
                at += 3
            else:
                length, at = read_varint(data, at)
                end = at + length
                at += 1
            if (byte := data[at]) < 128:
                delta, at = small[byte], at + 1
            else:
                delta, at = read_varint(data, at, VARLONG_BYTES)
            timestamp = base_timestamp + delta if append_time is None else append_time
            if (byte := data[at]) < 128:
                delta, at = small[byte], at + 1
            else:
                delta, at = read_varint(data, at)
            if (byte := data[at]) < 128:
                length, at = small[byte], at + 1
            else:
                length, at = read_varint(data, at)
            key = None
            if length >= 0:
                key = data[at : at + length]
                at += length
            if (byte := data[at]) < 128:
                length, at = small[byte], at + 1
            elif (second := data[at + 1]) < 128 and not byte & 1:
                length, at = byte >> 1 & 63 | second << 6, at + 2
            else:
                length, at = read_varint(data, at)
            value = None
            if length >= 0:
                value = data[at : at + length]
                at += length
            headers: Headers = ()
            if data[at]:
                headers, at = _decode_headers(data, at)
            else:
                at += 1
            if at != end:
                raise _corrupt(f"record {index} does not end where its length says")
            if not -_INT64_LIMIT <= timestamp < _INT64_LIMIT:
                raise _corrupt(f"the timestamp of record {index} is out of range")
            append(new(Record, (base_offset + delta, timestamp, key, value, headers)))
    except IndexError:
        raise _corrupt("the records end in the middle") from None
    return records, at


def _decode_headers(data: bytes, at: int) -> tuple[Headers, int]:
    """The headers whose count is at ``at``, and the position after them."""
    count, at = read_varint(data, at)
    if count < 0:
        raise _corrupt(f"a count of {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, at = read_varint(data, at)
        if length < 0:
            raise _corrupt(f"the name of a header has the length {length}")
        name = data[at : at + length].decode("utf-8", "surrogateescape")
        length, at = read_varint(data, at + length)
        value = None
        if length >= 0:
            value = data[at : at + length]
            at += length
        headers.append((name, value))
    return tuple(headers), at


# Writing ----------------------------------------------------------------------------------------------------


def append_record(
    buffer: bytearray,
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> None:
    """Appends one record to ``buffer``."""
    varints, limit = _VARINTS, _VARINT_COUNT
    if key is None:
        key, key_length = b"", _NULL
    else:
        size = len(key)
        key_length = varints[size] if size < limit else encode_varint(size)
    if value is None:
        value, value_length = b"", _NULL
    else:
        size = len(value)
        value_length = varints[size] if size < limit else encode_varint(size)
    body = b"".join(
        (
            b"\x00",
            varints[timestamp_delta] if 0 <= timestamp_delta < limit else encode_varint(timestamp_delta),
            varints[offset_delta] if 0 <= offset_delta < limit else encode_varint(offset_delta),
            key_length,
            key,
            value_length,
            value,
            encode_headers(headers) if headers else b"\x00",
        )
    )
    size = len(body)
    buffer += varints[size] if size < limit else encode_varint(size)
    buffer += body


def encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        parts += (encode_varint(len(encoded)), encoded)
        parts += (_NULL,) if value is None else (encode_varint(len(value)), value)
    return b"".join(parts)


def _corrupt(message: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)
