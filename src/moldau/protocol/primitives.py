"""Variable-length numbers, and the one error that malformed bytes raise.

Invariant: nothing here allocates from a length that was not compared with the bytes that are there.
"""

from typing import Any


class MalformedMessage(Exception):
    """Bytes that are not the message they claim to be. The connection that sent them is closed."""


def read_unsigned_varint(buffer: Any, position: int) -> tuple[int, int]:
    """Reads up to five bytes (a 32-bit number); returns the number and the position behind it."""
    value = buffer[position]
    if value < 0x80:
        return value, position + 1
    byte = buffer[position + 1]
    if byte < 0x80:  # written out, because the length of nearly every record batch has two bytes or three
        return value & 0x7F | byte << 7, position + 2
    value = value & 0x7F | (byte & 0x7F) << 7
    for size in (3, 4, 5):
        byte = buffer[position + size - 1]
        value |= (byte & 0x7F) << 7 * (size - 1)
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise MalformedMessage("a variable-length number does not fit 32 bits")
            return value, position + size
    raise MalformedMessage("a variable-length number is longer than five bytes")


def skip_tagged_fields(buffer: Any, position: int) -> int:
    """Passes over tagged fields, their count included; returns the position behind them."""
    count, position = read_unsigned_varint(buffer, position)
    end = len(buffer)
    for _ in range(count):  # every turn takes two bytes or ends
        _, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        position += size
        if position > end:
            raise MalformedMessage("a tagged field is cut")
    return position


def write_unsigned_varint(value: int, out: bytearray) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
