"""Reading a whole segment batch by batch and checking each one.

Invariant: trusts nothing in the file: every length is compared with what is there before it is used. It
reports the first place where no valid batch follows, and what to do about it is for others to decide.
"""

from collections.abc import Iterator
from typing import NamedTuple

from moldau.protocol.checksum import crc32c
from moldau.protocol.records import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_BATCH_LENGTH,
    BatchHeader,
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


def scan(
    file: File, base_offset: int, next_base_offset: int | None = None
) -> Iterator[tuple[int, BatchHeader] | Damage]:
    """Position and header of every batch, checksum and order checked; last a Damage if there is more.

    Offsets from ``next_base_offset`` on stand in the segment behind this one. No checksum covers the offset
    of a batch: one behind a hole is believed only if those that follow go on from there.
    """
    limit = base_offset + MAX_RELATIVE_OFFSET + 1
    if next_base_offset is not None:
        limit = min(limit, next_base_offset)
    expected = base_offset
    position = start = 0
    size = file.size
    view = memoryview(b"")
    while position < size:
        at = position - start
        if len(view) - at < HEADER_SIZE:
            view, start, at = memoryview(file.read(position, _CHUNK)), position, 0
        if len(view) - at < HEADER_SIZE:
            yield Damage(position, expected, f"{len(view) - at} bytes are too few for a batch")
            return
        header = read_header(view, at)
        first, length, _, magic, crc, _, delta, *_ = header
        batch_size = LOG_OVERHEAD + length
        if (
            magic != MAGIC
            or length < MIN_BATCH_LENGTH
            or batch_size > size - position
            or first < expected
            or not 0 <= delta < limit - first
        ):
            yield Damage(position, expected, _reason(header, size - position, expected, limit))
            return
        if len(view) - at < batch_size:
            view, start, at = memoryview(file.read(position, max(_CHUNK, batch_size))), position, 0
        if crc32c(view[at + ATTRIBUTES_AT : at + batch_size]) != crc:
            yield Damage(position, expected, "the checksum of a batch does not match")
            return
        if first > expected:
            following = _going_back(file, position + batch_size, expected, first + delta)
            if following is not None:
                yield Damage(position, expected, f"offset {first} cannot be true, as {following} follows")
                return
        yield position, header
        expected = first + delta + 1
        position += batch_size


def _going_back(file: File, position: int, expected: int, last_offset: int) -> int | None:
    """The offset of the batch there, if it is whole and says that the one before it cannot be so late."""
    head = file.read(position, HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        return None
    header = read_header(head)
    if header.magic != MAGIC or not expected <= header.base_offset <= last_offset:
        return None
    if not MIN_BATCH_LENGTH <= header.batch_length <= file.size - position - LOG_OVERHEAD:
        return None
    whole = memoryview(file.read(position, header.size))
    return header.base_offset if crc32c(whole[ATTRIBUTES_AT:]) == header.crc else None


def _reason(header: BatchHeader, left: int, expected: int, limit: int) -> str:
    """Why this is no header of the next batch."""
    if header.magic != MAGIC:
        return f"magic {header.magic} is not that of a batch"
    if header.batch_length < MIN_BATCH_LENGTH or header.size > left:
        return f"a batch of {header.size} bytes where {left} are left"
    if header.base_offset < expected:
        return f"offset {header.base_offset} after {expected - 1}"
    if header.last_offset_delta < 0:
        return f"last offset delta {header.last_offset_delta}"
    return f"offset {header.last_offset} is not below {limit}, where the segment must end"
