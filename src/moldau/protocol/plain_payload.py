"""The usual records of a batch, without headers, in columns: written and read without an object for each.

Invariant: to the byte what ``payload`` writes and to the value what it reads, for less time. What is unusual
is read there: the answer here is None then, and what is malformed is unusual too.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, repeat
from typing import TypeVar, cast

from moldau.protocol.payload import encode_varint

_T = TypeVar("_T")

#: Lengths and places of records up to here have their varints ready; their first 64 have one byte.
_READY = 1024
_SHORT = 64
_VARINTS = tuple(map(encode_varint, range(_READY + 16)))
_NULL = encode_varint(-1)
#: Attributes, time and offset of the first records of a batch, where all have the same time.
_HEADS = tuple(b"\x00\x00" + each for each in _VARINTS[:_READY])
#: The same up to the length of the value, where there is no key.
_KEYLESS_HEADS = tuple(head + _NULL for head in _HEADS)
#: No headers: what ends a record.
_END = b"\x00"
#: An index of no table.
_NO_SIZE = 2 * _READY
#: How much a key or a value takes with its length.
_SIZES = tuple(size + len(_VARINTS[size]) for size in range(_READY))


def _starts(head_size: int) -> tuple[bytes, ...]:
    """The end of the record before and the length of a record, by the size of what follows its head."""
    return tuple(_END + _VARINTS[head_size + size + len(_END)] for size in range(_READY))


def _keyless(starts: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The same by the size of the value, where there is no key."""
    return tuple(starts[len(_NULL) + size] for size in _SIZES if len(_NULL) + size < _READY)


def _sizes_by_length(head_size: int) -> tuple[int, ...]:
    """The size of the value by twice the length of its record, which is how a length is written.

    There is no key. What is the length of none has no size.
    """
    found = {2 * (head_size + size + len(_END)): value_size for value_size, size in enumerate(_SIZES)}
    return tuple(found.get(length, _NO_SIZE) for length in range(2 * _READY))


_STARTS = tuple(_starts(len(_HEADS[index])) for index in (0, _SHORT))
_KEYLESS_STARTS = tuple(map(_keyless, _STARTS))
_KEYLESS_SIZES = tuple(_sizes_by_length(len(_KEYLESS_HEADS[index])) for index in (0, _SHORT))
#: The same without attributes and time.
_PLACES = tuple(head[2:] for head in _KEYLESS_HEADS)


def encode_plain_records(
    values: Sequence[bytes | None], keys: Sequence[bytes | None] | None, front: bytes = b""
) -> bytearray:
    """Records one behind another, all of the same time and without headers; ``keys`` None: without keys.

    ``front`` is what stands before them.
    """
    parts: list[bytes] = []
    if 0 < len(values) <= _READY:
        with suppress(IndexError, TypeError):  # a value is large, or is none
            parts = _value_parts(values) if keys is None else _pair_parts(values, keys)
    parts = parts or _any_parts(values, keys)
    parts.insert(0, front)
    return bytearray().join(parts)


# The ways with tables raise IndexError where something is too large for these, TypeError where there is none.
# What ends a record stands before the next one.


def _value_parts(values: Sequence[bytes | None]) -> list[bytes]:
    parts: list[bytes] = []
    varints, given = _VARINTS, cast("Sequence[bytes]", values)
    for starts, head, value in zip(_by_place(_KEYLESS_STARTS), _KEYLESS_HEADS, given, strict=False):
        size = len(value)
        parts += (starts[size], head, varints[size], value)
    return _ended(parts)


def _pair_parts(values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> list[bytes]:
    parts: list[bytes] = []
    varints, sizes = _VARINTS, _SIZES
    given_keys, given = cast("Sequence[bytes]", keys), cast("Sequence[bytes]", values)
    for starts, head, key, value in zip(_by_place(_STARTS), _HEADS, given_keys, given, strict=False):
        key_size, size = len(key), len(value)
        parts += (starts[sizes[key_size] + sizes[size]], head, varints[key_size], key, varints[size], value)
    return _ended(parts)


def _by_place(tables: tuple[tuple[_T, ...], ...]) -> Iterator[tuple[_T, ...]]:
    """The table for each record: the places of the first ones have one byte."""
    short, long = tables
    return chain(repeat(short, _SHORT), repeat(long))


def _ended(parts: list[bytes]) -> list[bytes]:
    parts[0] = parts[0][len(_END) :]
    parts.append(_END)
    return parts


def _any_parts(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None) -> list[bytes]:
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
        parts += (length, head, key_length, key_bytes, value_length, value_bytes, _END)
    return parts


def decode_values(data: bytes, count: int) -> list[bytes] | None:
    """The values of the ``count`` records that fill ``data``, where none has a key or headers.

    Their offsets are consecutive, and their times no more than 8 s away from that of the batch.
    """
    if not 0 < count <= _READY:
        return None
    for way in (_decode_small, _decode):
        with suppress(IndexError):
            if (found := way(data, count)) is not None:
                return found
    return None


def _decode_small(data: bytes, count: int) -> list[bytes] | None:
    """Values for which there are tables, of records with the time of the batch; None where one is another.

    The length of such a record says where its value is, and what stands before it can be written in one way.
    """
    values: list[bytes] = []
    append, varints, limit = values.append, _VARINTS, 2 * _READY
    at = 0
    for sizes, head in zip(_by_place(_KEYLESS_SIZES), _KEYLESS_HEADS[:count], strict=False):
        if (length := data[at]) < 128:
            at += 1
        else:
            length = length & 127 | data[at + 1] << 7
            at += 2
            if length >= limit:
                return None
        size = sizes[length]
        last = at + (length >> 1) - 1
        start = last - size
        if data[at:start] != head + varints[size] or data[last]:
            return None
        append(data[start:last])
        at = last + 1
    return values if at == len(data) else None


def _decode(data: bytes, count: int) -> list[bytes] | None:
    values: list[bytes] = []
    append, starts = values.append, data.startswith
    at = 0
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
