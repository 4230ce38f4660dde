"""Unsigned varints, tagged fields, and the errors for malformed messages.

Invariant: what a few bytes claim costs neither time nor memory before the bytes are there.
"""

from typing import Any, NoReturn


class MalformedMessage(Exception):
    """Bytes that cannot be decoded as the message they should be. The connection is closed then."""


class TooManyElements(MalformedMessage):
    """A message whose arrays have more elements together than its reader was told to take."""


#: No structure declares more than a handful of tagged fields; a thousand are nobody's extension.
MOST_TAGGED_FIELDS = 128
#: Kafka's limit for a string, whatever its length could say.
LONGEST_STRING = 32767


class TextTooLong(ValueError):
    """A text that no message may have: whoever gets it would close the connection, which others use too."""


def refuse_text(length: int) -> NoReturn:
    raise TextTooLong(f"a text of {length} bytes, where {LONGEST_STRING} are the most")


def read_unsigned_varint(buffer: Any, position: int) -> tuple[int, int]:
    """Reads up to five bytes (a 32-bit number); returns the number and the position after it."""
    value = buffer[position]
    if value < 0x80:
        return value, position + 1
    byte = buffer[position + 1]
    if byte < 0x80:  # unrolled, because the length of nearly every record batch has two or three bytes
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


def read_tag_count(buffer: Any, position: int) -> tuple[int, int]:
    """Reads how many tagged fields follow; returns it and the position after it."""
    count, position = read_unsigned_varint(buffer, position)
    if count > MOST_TAGGED_FIELDS:
        raise MalformedMessage(f"{count} tagged fields in one structure")
    return count, position


def read_string_length(buffer: Any, position: int) -> tuple[int, int]:
    """Reads the length of a string plus one, 0 standing for null; returns it and the position after it."""
    length, position = read_unsigned_varint(buffer, position)
    if length > LONGEST_STRING + 1:
        raise MalformedMessage(f"a string of {length - 1} bytes")
    return length, position


def skip_tagged_fields(buffer: Any, position: int) -> int:
    """Skips tagged fields, including their count; returns the position after them."""
    count, position = read_tag_count(buffer, position)
    end = len(buffer)
    for _ in range(count):
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
