"""The usual records of a batch, without headers, in columns: written and read without an object for each.

Invariant: to the byte what ``payload`` writes and to the value what it reads, for less time. What is unusual
is read there: the answer here is None then, and what is malformed is unusual too.
"""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import cast

from moldau.protocol.payload import encode_varint

#: Lengths and places of records up to here have their varints ready; their first 64 have one byte.
_READY = 1024
_SHORT = 64
_VARINTS = tuple(map(encode_varint, range(_READY + 16)))
_NULL = encode_varint(-1)
#: Attributes, time and offset of the first records of a batch, where all have the same time.
_HEADS = tuple(b"\x00\x00" + each for each in _VARINTS[:_READY])
#: The same up to the length of the value, where there is no key.
_KEYLESS_HEADS = tuple(head + _NULL for head in _HEADS)
_END = (b"\x00",)


def _lengths(head_size: int) -> tuple[bytes, ...]:
    """The length of a record without a key, by the size of its value and of what stands before."""
    return tuple(_VARINTS[head_size + len(_VARINTS[size]) + size + len(_END[0])] for size in range(_READY))


_KEYLESS_LENGTHS = tuple(_lengths(len(_KEYLESS_HEADS[index])) for index in (0, _SHORT))
#: The same without attributes and time.
_PLACES = tuple(head[2:] for head in _KEYLESS_HEADS)


def encode_plain_records(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None) -> bytes:
    """Records one behind another, all of the same time and without headers; ``keys`` None: without keys."""
    if keys is None and len(values) <= _READY:
        try:
            return _encode_values(values)
        except (IndexError, TypeError):
            pass  # a value is large, or is none
    return _encode(values, keys)


def _encode_values(values: Sequence[bytes | None]) -> bytes:
    """IndexError where a value is too large for the tables, TypeError where there is no value."""
    given, count = cast("Sequence[bytes]", values), len(values)
    sizes = list(map(len, given))
    short, long = _KEYLESS_LENGTHS
    parts: list[bytes] = [b""] * (5 * count)
    parts[0::5] = [*map(short.__getitem__, sizes[:_SHORT]), *map(long.__getitem__, sizes[_SHORT:])]
    parts[1::5] = _KEYLESS_HEADS[:count]
    parts[2::5] = map(_VARINTS.__getitem__, sizes)
    parts[3::5] = given
    parts[4::5] = _END * count
    return b"".join(parts)


def _encode(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None) -> bytes:
    heads: Iterable[bytes] = _HEADS
    if len(values) > _READY:
        heads = (b"\x00\x00" + encode_varint(index) for index in range(len(values)))
    parts: list[bytes] = []
    lengths, limit, null = _VARINTS, _READY, _NULL
    for head, value, key in zip(heads, values, repeat(None) if keys is None else keys, strict=False):
        key_bytes, key_length = b"", null
        if key is not None:
            size, key_bytes = len(key), key
            key_length = lengths[size] if size < limit else encode_varint(size)
        value_bytes, value_length = b"", null
        if value is not None:
            size, value_bytes = len(value), value
            value_length = lengths[size] if size < limit else encode_varint(size)
        size = len(head) + len(key_length) + len(key_bytes) + len(value_length) + len(value_bytes) + 1
        length = lengths[size] if size < limit else encode_varint(size)
        parts += (length, head, key_length, key_bytes, value_length, value_bytes, b"\x00")
    return b"".join(parts)


def decode_values(data: bytes, count: int) -> list[bytes] | None:
    """The values of the ``count`` records that fill ``data``, where none has a key or headers.

    Their offsets are consecutive, and their times no more than 8 s away from that of the batch.
    """
    if not 0 < count <= _READY:
        return None
    values: list[bytes] = []
    append, starts = values.append, data.startswith
    at = 0
    try:
        for index, head in enumerate(_KEYLESS_HEADS[:count]):
            if (length := data[at]) < 128:
                at += 1
                end = at + (length >> 1)
            else:
                if (second := data[at + 1]) > 127:
                    return None
                at += 2
                end = at + (length >> 1 & 63 | second << 6)
            at = at + len(head) if starts(head, at) else _behind_head(data, at, index)
            if (size := data[at]) < 128:
                last = at + 1 + (size >> 1)
                at += 1
            else:
                if (second := data[at + 1]) > 127:
                    return None
                at += 2
                last = at + (size >> 1 & 63 | second << 6)
            # Both lengths are even, as negative ones are not; the last byte is the number of headers.
            if (length | size) & 1 or last + 1 != end or data[last]:
                return None
            append(data[at:last])
            at = end
    except IndexError:
        return None
    return values if at == len(data) else None


def _behind_head(data: bytes, at: int, index: int) -> int:
    """Where the length of the value is in a record of another time; IndexError where the head is unusual."""
    at += 2  # the attributes, which are unused, and the time
    if data[at - 1] > 127:
        at += 1
    place = _PLACES[index]
    if data[at - 1] > 127 or not data.startswith(place, at):
        raise IndexError
    return at + len(place)
