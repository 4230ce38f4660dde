"""Avro's numbers and texts: what compiled encoders and decoders call where their inline code does not apply.

Pure, and fast: these run for every field of every record. What does not fit raises; which field
it was is found out afterwards (``check``), so that the good values do not pay for it.
"""

import operator
import struct
from collections.abc import Mapping
from typing import Any

#: Numbers below this are written by one look into ``SHORT``.
SHORT_LIMIT = 8192
#: Counts of items that take no bytes are bounded by this: nothing else would bound them.
MAX_EMPTY_ITEMS = 100_000

pack_double = struct.Struct("<d").pack
pack_float = struct.Struct("<f").pack
unpack_double = struct.Struct("<d").unpack_from
unpack_float = struct.Struct("<f").unpack_from
StructError = struct.error


class Misfit(Exception):
    """A value that does not fit, or data that does not make sense."""


def _ends(number: int) -> bytes:
    return bytes((number,)) if number < 128 else bytes((number & 127 | 128, number >> 7))


#: Fourteen bits of a number at a time: the last of them, and those with more to come.
SHORT = [_ends(number) for number in range(1 << 14)]
_MORE = [bytes((number & 127 | 128, number >> 7 | 128)) for number in range(1 << 14)]


def varint(number: int) -> bytes:
    """A long in zigzag form."""
    if not -0x8000000000000000 <= number <= 0x7FFFFFFFFFFFFFFF:
        raise Misfit
    rest = (number << 1) ^ (number >> 63)
    if rest < 0x4000:
        return SHORT[rest]
    if rest < 0x10000000:
        return _MORE[rest & 0x3FFF] + SHORT[rest >> 14]
    if rest < 0x40000000000:
        return _MORE[rest & 0x3FFF] + _MORE[rest >> 14 & 0x3FFF] + SHORT[rest >> 28]
    found = _MORE[rest & 0x3FFF] + _MORE[rest >> 14 & 0x3FFF] + _MORE[rest >> 28 & 0x3FFF]
    rest >>= 42
    return found + SHORT[rest] if rest < 0x4000 else found + _MORE[rest & 0x3FFF] + SHORT[rest >> 14]


def varint_int(number: int) -> bytes:
    """An int: a long that fits into 32 bits."""
    if not -0x80000000 <= number <= 0x7FFFFFFF:
        raise Misfit
    return varint(number)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    rest = byte & 127
    shift = 7
    while byte > 127:
        position += 1
        byte = data[position]
        rest |= (byte & 127) << shift
        shift += 7
        if shift > 70:
            raise Misfit("a number has too many bytes")
    return (rest >> 1) ^ -(rest & 1), position + 1


def read_length(data: bytes, position: int) -> tuple[int, int]:
    """A length that is not below 0 and does not lead out of the data."""
    length, position = read_varint(data, position)
    if length < 0:
        raise Misfit("a length is below 0")
    if length > len(data):
        raise IndexError
    return length, position


def read_count(data: bytes, position: int) -> tuple[int, int]:
    """How many items a block has; a block may say its size too, which is of no use here."""
    count, position = read_varint(data, position)
    if count < 0:
        _, position = read_varint(data, position)
        count = -count
    return count, position


def as_integer(value: Any) -> int:
    """Whole numbers of other kinds, those of numpy among them; truth values are none."""
    if isinstance(value, bool):
        raise Misfit
    return operator.index(value)


def as_float(value: Any) -> float:
    if isinstance(value, bool | str | bytes):
        raise Misfit
    return float(value)


def as_boolean(value: Any) -> bytes:
    """numpy's truth values; numbers are none."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise Misfit
    return b"\x01" if value else b"\x00"


def as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise Misfit
    return str.__str__(value)


def as_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise Misfit
    return bytes(value)


def as_list(value: Any) -> Any:
    if isinstance(value, str | bytes | bytearray | Mapping) or not hasattr(value, "__len__"):
        raise Misfit
    return value


def as_mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Misfit
    return value
