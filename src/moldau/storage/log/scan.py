"""Reading a segment batch by batch up to the first fault, each batch checked.

Invariant: no length in the file is used before it was compared with the size of the file. The fault is
reported; what to do about it is decided by the caller.
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

#: The largest distance of an offset from the base offset: the indexes have 32 bits for it.
MAX_RELATIVE_OFFSET = 0x7FFFFFFF

#: Bytes read at a time.
_CHUNK = 4 * 1024 * 1024


class Damage(NamedTuple):
    """The first place in a segment where no valid batch follows."""

    position: int
    #: The smallest offset that a batch there could have had.
    offset: int
    reason: str


def scan(
    file: File, base_offset: int, next_base_offset: int | None = None
) -> Iterator[tuple[int, BatchHeader] | Damage]:
    """Position and header of every batch, checksum and order checked; a Damage at the first fault.

    Offsets from ``next_base_offset`` on belong to the next segment. The checksum does not cover the base
    offset of a batch: after a gap it is believed only if the next batch does not contradict it.
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
            following = _contradicting_offset(file, position + batch_size, expected, first + delta)
            if following is not None:
                yield Damage(position, expected, f"offset {first} cannot be true, as {following} follows")
                return
        yield position, header
        expected = first + delta + 1
        position += batch_size


def _contradicting_offset(file: File, position: int, expected: int, last_offset: int) -> int | None:
    """The base offset of the valid batch there, if the batch before it claims this offset or a later one."""
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
    """Why this cannot be the header of the next batch."""
    if header.magic != MAGIC:
        return f"magic {header.magic} is not that of a batch"
    if header.batch_length < MIN_BATCH_LENGTH or header.size > left:
        return f"a batch of {header.size} bytes where {left} are left"
    if header.base_offset < expected:
        return f"offset {header.base_offset} after {expected - 1}"
    if header.last_offset_delta < 0:
        return f"last offset delta {header.last_offset_delta}"
    return f"offset {header.last_offset} is not below {limit}, where the segment must end"
