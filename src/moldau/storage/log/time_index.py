"""From a timestamp to the offset where looking for it may begin: sparse, twelve bytes an entry.

Invariant: an entry is (largest timestamp so far, last offset of the batch that brought it - base offset),
as Kafka writes it; timestamps and offsets only grow. Like the offset index it is a cache of the log.
"""

import struct
from array import array
from bisect import bisect_right

from moldau.storage.errors import CorruptFileError
from moldau.storage.files import Files

ENTRY_SIZE = 12
_ENTRY = struct.Struct(">qi")


class TimeIndex:
    __slots__ = ("_files", "_offsets", "_timestamps", "_written", "base_offset", "path")

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._files = files
        self._timestamps = array("q")
        self._offsets = array("i")
        self._written = -1  # as in OffsetIndex

    @classmethod
    def load(cls, files: Files, path: str, base_offset: int) -> "TimeIndex":
        """The index as it stands on disk; CorruptFileError when it makes no sense."""
        data = files.read_whole(path)
        if len(data) % ENTRY_SIZE:
            raise CorruptFileError(path, f"{len(data)} bytes are not a whole number of entries")
        index = cls(files, path, base_offset)
        if data:
            timestamps, offsets = zip(*_ENTRY.iter_unpack(data), strict=True)
            index._timestamps = array("q", timestamps)
            index._offsets = array("i", offsets)
            if list(timestamps) != sorted(set(timestamps)) or list(offsets) != sorted(set(offsets)):
                raise CorruptFileError(path, "timestamps or offsets do not increase")
            if timestamps[0] < 0 or offsets[0] < 0:
                raise CorruptFileError(path, "negative timestamp or offset")
        index._written = len(index._timestamps)
        return index

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def size(self) -> int:
        return len(self._timestamps) * ENTRY_SIZE

    def append(self, timestamp: int, offset: int) -> None:
        """Only a timestamp above all before it makes an entry."""
        timestamps = self._timestamps
        if timestamp > (timestamps[-1] if timestamps else -1):
            timestamps.append(timestamp)
            self._offsets.append(offset - self.base_offset)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry with a timestamp not above this one as (timestamp, offset), or (-1, base offset)."""
        at = bisect_right(self._timestamps, timestamp) - 1
        if at < 0:
            return -1, self.base_offset
        return self._timestamps[at], self._offsets[at] + self.base_offset

    def last(self) -> tuple[int, int]:
        """The last entry as (timestamp, offset), or (-1, base offset)."""
        if not self._timestamps:
            return -1, self.base_offset
        return self._timestamps[-1], self._offsets[-1] + self.base_offset

    def entries(self) -> list[tuple[int, int]]:
        return [
            (time, offset + self.base_offset)
            for time, offset in zip(self._timestamps, self._offsets, strict=True)
        ]

    def truncate(self, offset: int) -> None:
        """Forgets the entries from ``offset`` on."""
        while self._offsets and self._offsets[-1] + self.base_offset >= offset:
            self._offsets.pop()
            self._timestamps.pop()
            self._written = -1

    def write(self) -> None:
        """Brings the file up to date; on OSError it can simply be called again."""
        count = len(self._timestamps)
        if self._written == count:
            return
        if self._written < 0:
            file = self._files.create(self.path)
            self._written = 0
        else:
            file = self._files.open(self.path)
        if self._written < count:
            start = self._written
            pairs = zip(self._timestamps[start:], self._offsets[start:], strict=True)
            file.append(b"".join(_ENTRY.pack(timestamp, offset) for timestamp, offset in pairs))
            self._written = count
