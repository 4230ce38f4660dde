"""From an offset to the place in the log file where its batch can be found: sparse, eight bytes an entry.

Invariant: an entry is (last offset of a batch - base offset, position where that batch starts), as Kafka
writes it. The index is a cache of the log: it may lag on disk, be thrown away and be built again at any
time, and every reader of it checks what it finds there.
"""

import sys
from array import array
from bisect import bisect_right

from moldau.storage.errors import CorruptFileError
from moldau.storage.files import Files

ENTRY_SIZE = 8

#: Entries that may wait in memory before they are appended to the file; one small write per 2 MB of log.
WRITE_BATCH = 512

_SWAP = sys.byteorder == "little"


class OffsetIndex:
    __slots__ = ("_files", "_offsets", "_positions", "_written", "base_offset", "path")

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._files = files
        self._offsets = array("i")
        self._positions = array("i")
        self._written = -1  # entries that the file holds; -1: there may be an old file, or none

    @classmethod
    def load(cls, files: Files, path: str, base_offset: int, log_size: int) -> "OffsetIndex":
        """The index as it stands on disk; CorruptFileError when it cannot belong to such a log."""
        data = files.read_whole(path)
        if len(data) % ENTRY_SIZE:
            raise CorruptFileError(path, f"{len(data)} bytes are not a whole number of entries")
        index = cls(files, path, base_offset)
        numbers = array("i", data)
        if _SWAP:
            numbers.byteswap()
        index._offsets, index._positions = numbers[0::2], numbers[1::2]
        index._written = len(index._offsets)
        index._check(log_size)
        return index

    def _check(self, log_size: int) -> None:
        if not self._offsets:
            return
        for numbers, what in ((self._offsets, "offsets"), (self._positions, "positions")):
            values = numbers.tolist()
            if sorted(set(values)) != values:
                raise CorruptFileError(self.path, f"{what} do not increase")
        if self._offsets[0] < 0 or self._positions[0] <= 0 or self._positions[-1] >= log_size:
            raise CorruptFileError(self.path, "entries point outside of the log")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def size(self) -> int:
        """Bytes that the file has once everything is written."""
        return len(self._offsets) * ENTRY_SIZE

    def append(self, offset: int, position: int) -> None:
        self._offsets.append(offset - self.base_offset)
        self._positions.append(position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """The last entry that does not lie beyond ``offset`` as (offset, position), or (-1, 0)."""
        at = bisect_right(self._offsets, offset - self.base_offset) - 1
        if at < 0:
            return -1, 0
        return self._offsets[at] + self.base_offset, self._positions[at]

    def last(self) -> tuple[int, int]:
        """The last entry as (offset, position), or (-1, 0)."""
        if not self._offsets:
            return -1, 0
        return self._offsets[-1] + self.base_offset, self._positions[-1]

    def entries(self) -> list[tuple[int, int]]:
        return [
            (offset + self.base_offset, position)
            for offset, position in zip(self._offsets, self._positions, strict=True)
        ]

    def truncate(self, log_size: int) -> None:
        """Forgets the entries of batches that start at or behind ``log_size``."""
        while self._positions and self._positions[-1] >= log_size:
            self._positions.pop()
            self._offsets.pop()
            self._written = -1

    @property
    def unwritten(self) -> int:
        return len(self._offsets) - max(self._written, 0)

    def write(self) -> None:
        """Brings the file up to date; on OSError it can simply be called again."""
        count = len(self._offsets)
        if self._written == count:
            return
        if self._written < 0:
            file = self._files.create(self.path)
            self._written = 0
        else:
            file = self._files.open(self.path)
        if self._written < count:
            numbers = array("i", bytes((count - self._written) * ENTRY_SIZE))
            numbers[0::2] = self._offsets[self._written :]
            numbers[1::2] = self._positions[self._written :]
            if _SWAP:
                numbers.byteswap()
            file.append(numbers.tobytes())
            self._written = count
