"""Reading a whole segment batch by batch and checking each one.

Law: trusts nothing in the file: every length is compared with what is there before it is used. It reports the
first place where no valid batch follows, and what to do about it is for others to decide.
"""

from collections.abc import Iterator
from typing import NamedTuple

from moldau.protocol.records import (
    HEADER_SIZE,
    MAGIC,
    MIN_BATCH_LENGTH,
    BatchHeader,
    crc_matches,
    read_header,
)
from moldau.storage.files import File

#: How far an offset may be from the base of its segment: the indexes have 32 bits for it.
MAX_RELATIVE_OFFSET = 0x7FFFFFFF

#: Bytes read at a time.
_CHUNK = 4 * 1024 * 1024


class Damage(NamedTuple):
    """The first place in a segment where no valid batch follows."""

    position: int
    #: The smallest offset that could have stood there.
    offset: int
    reason: str


def scan(file: File, base_offset: int) -> Iterator[tuple[int, BatchHeader] | Damage]:
    """Position and header of every batch, checksum and order checked; last a Damage if there is more."""
    expected = base_offset
    position = start = 0
    buffer = b""
    while position < file.size:
        at = position - start
        if len(buffer) - at < HEADER_SIZE:
            buffer, start, at = file.read(position, _CHUNK), position, 0
        if len(buffer) - at < HEADER_SIZE:
            yield Damage(position, expected, f"{len(buffer) - at} bytes are too few for a batch")
            return
        header = read_header(buffer, at)
        size = header.size
        reason = _reason(header, file.size - position, expected, base_offset)
        if reason is None:
            if len(buffer) - at < size:
                buffer, start, at = file.read(position, max(_CHUNK, size)), position, 0
            if not crc_matches(buffer, at, size):
                reason = "the checksum of a batch does not match"
        if reason is not None:
            yield Damage(position, expected, reason)
            return
        yield position, header
        expected = header.last_offset + 1
        position += size


def _reason(header: BatchHeader, left: int, expected: int, base_offset: int) -> str | None:
    """Why this is no header of the next batch; None when it makes sense."""
    if header.magic != MAGIC:
        return f"magic {header.magic} is not that of a batch"
    if header.batch_length < MIN_BATCH_LENGTH or header.size > left:
        return f"a batch of {header.size} bytes where {left} are left"
    if header.base_offset < expected:
        return f"offset {header.base_offset} after {expected - 1}"
    if header.last_offset_delta < 0:
        return f"last offset delta {header.last_offset_delta}"
    if header.last_offset - base_offset > MAX_RELATIVE_OFFSET:
        return f"offset {header.last_offset} is too far from {base_offset}"
    return None
