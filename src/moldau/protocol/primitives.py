"""Variable-length numbers, and the one error that malformed bytes raise.

Law: nothing here allocates from a length that was not compared with the bytes that are there.
"""

from typing import Any


class MalformedMessage(Exception):
    """Bytes that are not the message they claim to be. The connection that sent them is closed."""


def read_unsigned_varint(buffer: Any, position: int) -> tuple[int, int]:
    """Reads up to five bytes (a 32-bit number); returns the number and the position behind it."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise MalformedMessage("a variable-length number does not fit 32 bits")
            return value, position
        shift += 7
        if shift > 28:
            raise MalformedMessage("a variable-length number is longer than five bytes")


def write_unsigned_varint(value: int, out: bytearray) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
