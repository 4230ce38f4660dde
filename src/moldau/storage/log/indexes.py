"""The offset index and the time index of a segment: sparse, in memory, and in Kafka's files.

An index is a cache of the log: its file may lag behind, be deleted and be rebuilt at any time, and every
reader compares what it finds there with the batch that it points to.
"""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import lt

from moldau.storage.errors import CorruptFileError
from moldau.storage.files import Files

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12

#: Entries that may wait in memory before they are appended to the file; one small write per 2 MB of log.
WRITE_BATCH = 512

_SWAP = sys.byteorder == "little"
_TIME_ENTRY = struct.Struct(">qi")


def _increases(numbers: "array[int]") -> bool:
    """A full segment has hundreds of thousands, which a reader waits for: sorting them took half a second."""
    return all(map(lt, numbers, numbers[1:]))


class _Index:
    """What both have: relative offsets, and a file that follows what is in memory."""

    __slots__ = ("_files", "_offsets", "_written", "base_offset", "path")

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._files = files
        self._offsets = array("i")
        #: Entries that the file has; -1: there may be no file, or one with other entries.
        self._written = -1

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def unwritten(self) -> int:
        return len(self._offsets) - max(self._written, 0)

    def write(self) -> None:
        """Brings the file up to date; after an OSError it can be called again."""
        count = len(self._offsets)
        if self._written == count:
            return
        if self._written < 0:
            file = self._files.create(self.path)
            self._written = 0
        else:
            file = self._files.open(self.path)
        if self._written < count:
            file.append(self.encode(self._written))
            self._written = count

    def encode(self, start: int = 0) -> bytes:
        """The entries from ``start`` on, as they are in the file."""
        raise NotImplementedError


class OffsetIndex(_Index):
    """From an offset to a position in the log. An entry is eight bytes: the last offset of a batch, relative
    to the base offset, and the position where the batch begins.
    """

    __slots__ = ("_positions",)

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        super().__init__(files, path, base_offset)
        self._positions = array("i")

    @classmethod
    def load(cls, files: Files, path: str, base_offset: int, log_size: int) -> "OffsetIndex":
        """Reads the file; CorruptFileError when it cannot belong to a log of this size."""
        data = files.read_whole(path)
        if len(data) % OFFSET_ENTRY_SIZE:
            raise CorruptFileError(path, f"{len(data)} bytes are not a whole number of entries")
        index = cls(files, path, base_offset)
        numbers = array("i", data)
        if _SWAP:
            numbers.byteswap()
        index._offsets, index._positions = numbers[0::2], numbers[1::2]
        index._written = len(index._offsets)
        index._check(log_size)
        return index

    @staticmethod
    def position_in(entry: bytes) -> int:
        """The position in the log that one entry of the file has."""
        return int.from_bytes(entry[4:], "big", signed=True)

    def _check(self, log_size: int) -> None:
        if not self._offsets:
            return
        for numbers, what in ((self._offsets, "offsets"), (self._positions, "positions")):
            if not _increases(numbers):
                raise CorruptFileError(self.path, f"{what} do not increase")
        if self._offsets[0] < 0 or self._positions[0] <= 0 or self._positions[-1] >= log_size:
            raise CorruptFileError(self.path, "entries point outside of the log")

    def append(self, offset: int, position: int) -> None:
        self._offsets.append(offset - self.base_offset)
        self._positions.append(position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """(offset, position) of the last entry whose offset is not above ``offset``, or (-1, 0)."""
        at = bisect_right(self._offsets, offset - self.base_offset) - 1
        if at < 0:
            return -1, 0
        return self._offsets[at] + self.base_offset, self._positions[at]

    def offset_behind(self, position: int) -> int | None:
        """The offset of the first entry that points there or behind; None without one."""
        at = bisect_left(self._positions, position)
        return self._offsets[at] + self.base_offset if at < len(self._offsets) else None

    def last(self) -> tuple[int, int]:
        """(offset, position) of the last entry, or (-1, 0)."""
        if not self._offsets:
            return -1, 0
        return self._offsets[-1] + self.base_offset, self._positions[-1]

    def entries(self) -> list[tuple[int, int]]:
        return [
            (offset + self.base_offset, position)
            for offset, position in zip(self._offsets, self._positions, strict=True)
        ]

    def truncate(self, log_size: int) -> None:
        """Removes the entries of batches that begin at or after ``log_size``."""
        while self._positions and self._positions[-1] >= log_size:
            self._positions.pop()
            self._offsets.pop()
            self._written = -1

    def encode(self, start: int = 0) -> bytes:
        numbers = array("i", bytes((len(self._offsets) - start) * OFFSET_ENTRY_SIZE))
        numbers[0::2] = self._offsets[start:]
        numbers[1::2] = self._positions[start:]
        if _SWAP:
            numbers.byteswap()
        return numbers.tobytes()


class TimeIndex(_Index):
    """From a timestamp to the offset where a search for it may begin. An entry is twelve bytes: the largest
    timestamp so far, and the last offset, relative to the base offset, of the batch that has it.
    """

    __slots__ = ("_timestamps",)

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        super().__init__(files, path, base_offset)
        self._timestamps = array("q")

    @classmethod
    def load(cls, files: Files, path: str, base_offset: int) -> "TimeIndex":
        """Reads the file; CorruptFileError when timestamps or offsets do not increase."""
        data = files.read_whole(path)
        if len(data) % TIME_ENTRY_SIZE:
            raise CorruptFileError(path, f"{len(data)} bytes are not a whole number of entries")
        index = cls(files, path, base_offset)
        if data:
            words = array("I", data)  # of an entry two for the timestamp and one for the offset
            halves = array("I", bytes(len(words) // 3 * 8))
            halves[0::2], halves[1::2] = words[0::3], words[1::3]
            timestamps, offsets = array("q", halves.tobytes()), array("i", words[2::3].tobytes())
            if _SWAP:
                timestamps.byteswap()
                offsets.byteswap()
            index._timestamps, index._offsets = timestamps, offsets
            if not _increases(timestamps) or not _increases(offsets):
                raise CorruptFileError(path, "timestamps or offsets do not increase")
            if timestamps[0] < 0 or offsets[0] < 0:
                raise CorruptFileError(path, "negative timestamp or offset")
        index._written = len(index._timestamps)
        return index

    def append(self, timestamp: int, offset: int) -> None:
        """Adds an entry if the timestamp is above all before it."""
        timestamps = self._timestamps
        if timestamp > (timestamps[-1] if timestamps else -1):
            timestamps.append(timestamp)
            self._offsets.append(offset - self.base_offset)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """(timestamp, offset) of the last entry that is not above ``timestamp``, or (-1, base offset)."""
        at = bisect_right(self._timestamps, timestamp) - 1
        if at < 0:
            return -1, self.base_offset
        return self._timestamps[at], self._offsets[at] + self.base_offset

    def last(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry, or (-1, base offset)."""
        if not self._timestamps:
            return -1, self.base_offset
        return self._timestamps[-1], self._offsets[-1] + self.base_offset

    def entries(self) -> list[tuple[int, int]]:
        return [
            (timestamp, offset + self.base_offset)
            for timestamp, offset in zip(self._timestamps, self._offsets, strict=True)
        ]

    def truncate(self, offset: int) -> None:
        """Removes the entries from ``offset`` on."""
        while self._offsets and self._offsets[-1] + self.base_offset >= offset:
            self._offsets.pop()
            self._timestamps.pop()
            self._written = -1

    def encode(self, start: int = 0) -> bytes:
        entries = zip(self._timestamps[start:], self._offsets[start:], strict=True)
        return b"".join(_TIME_ENTRY.pack(timestamp, offset) for timestamp, offset in entries)
