"""The records behind a batch's header, once they are not compressed: hop over them, decode them, write them.

Law: nothing here knows of batches, and rooms other than this one take its names from ``records``. Every length is
a claim until the bytes bear it out; bytes that make no sense are CORRUPT_MESSAGE (``records_error`` says it in
words instead), never another exception.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from moldau.protocol.compression import Buffer
from moldau.protocol.errors import ErrorCode, KafkaError

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


class Record(NamedTuple):
    """One record. A header's name that is not UTF-8 keeps its bytes as surrogate escapes."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


# Varints ----------------------------------------------------------------------------------------------------

_VARINT_BYTES = 5  # of a number of 32 bits
_VARLONG_BYTES = 10  # of a number of 64 bits
_INT64_LIMIT = 1 << 63

#: The numbers that a varint of one byte stands for.
_SMALL = tuple(byte >> 1 ^ -(byte & 1) for byte in range(128))


def _read_varint(data: bytes, at: int, most: int = _VARINT_BYTES) -> tuple[int, int]:
    """The number there and the position behind it; IndexError where the data ends before the varint does.

    Callers deal with one byte themselves, so two are the common case here.
    """
    number, byte = data[at], data[at + 1] if data[at] > 127 else 0
    if byte < 128:
        ...
    return number, at


def _varint(number: int) -> bytes:
    """The zigzag varint of ``number``."""
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    result = bytearray()
    while rest > 127:
        result.append(rest & 127 | 128)
        rest >>= 7
    result.append(rest)
    return bytes(result)


#: The varints of the first numbers, ready to be written.
_VARINTS = tuple(_varint(number) for number in range(1024))
_READY = len(_VARINTS)
