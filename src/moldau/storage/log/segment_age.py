"""The largest timestamp of a sealed segment, found with a few small reads.

Invariant: nothing is loaded or kept: retention asks this of segments that nobody reads. The last entry of
the time index is believed only when the batch that it names says the same and the end of the segment has no
larger timestamp; data must not go because one byte of an index has rotted.
"""

import struct
from typing import TYPE_CHECKING

from moldau.storage.errors import CorruptLogError
from moldau.storage.file_names import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from moldau.storage.files import File
from moldau.storage.log import offset_index, time_index

if TYPE_CHECKING:
    from moldau.storage.log.segment import Segment

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


def probe(segment: "Segment") -> tuple[int, int] | None:
    """Largest timestamp and the last offset of its batch; None when the indexes do not tell."""
    try:
        times = segment.files.open(segment.path(TIME_INDEX_SUFFIX))
        index = segment.files.open(segment.path(OFFSET_INDEX_SUFFIX))
        if times.size < time_index.ENTRY_SIZE or times.size % time_index.ENTRY_SIZE:
            return None
        timestamp, relative = _TIME_ENTRY.unpack(times.read(times.size - time_index.ENTRY_SIZE, 12))
        entries = index.size // offset_index.ENTRY_SIZE
        if timestamp < 0 or relative < 0 or index.size % offset_index.ENTRY_SIZE:
            return None
        offset = segment.base_offset + relative
        if _timestamp_at(segment, offset, _position(index, entries, relative)) != timestamp:
            return None
        tail = _OFFSET_ENTRY.unpack(index.read(index.size - 8, 8))[1] if entries else 0
        if tail < 0 or any(header.max_timestamp > timestamp for _, header in segment.headers(tail)):
            return None
    except (FileNotFoundError, CorruptLogError):
        return None
    return timestamp, offset


def _position(index: File, entries: int, relative: int) -> int:
    """Where the batch begins of the last entry that is not beyond an offset; 0 without one."""
    low, high, position = 0, entries, 0
    while low < high:
        middle = (low + high) // 2
        entry_offset, entry_position = _OFFSET_ENTRY.unpack(index.read(middle * 8, 8))
        if entry_offset <= relative:
            low, position = middle + 1, entry_position
        else:
            high = middle
    return max(position, 0)


def _timestamp_at(segment: "Segment", offset: int, position: int) -> int | None:
    """The largest timestamp of the batch that ends with ``offset``; None if there is none such."""
    for _, header in segment.headers(position):
        if header.last_offset >= offset:
            return header.max_timestamp if header.last_offset == offset else None
    return None
