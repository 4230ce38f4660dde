"""The aborted transactions of one segment, so that read_committed consumers can skip their records.

Kafka's file of thirty-four bytes an entry, which exists only where a transaction was aborted. An entry is
in the segment that has the abort marker.
"""

import logging
import struct
from bisect import bisect_left
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from moldau.storage.errors import CorruptFileError
from moldau.storage.files import Files

logger = logging.getLogger("moldau.storage")

ENTRY_SIZE = 34
_ENTRY = struct.Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    #: Offset of the abort marker.
    last_offset: int
    #: The last stable offset after the marker was written.
    last_stable_offset: int


_last_offset = attrgetter("last_offset")


class TxnIndex:
    __slots__ = ("_files", "_written", "entries", "path")

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self.entries: list[AbortedTransaction] = []
        self._files = files
        self._written = 0

    @classmethod
    def load(cls, files: Files, path: str) -> "TxnIndex":
        """Reads the file; an empty index where there is none, CorruptFileError for impossible entries."""
        index = cls(files, path)
        try:
            data = files.read_whole(path)
        except FileNotFoundError:
            return index
        if len(data) % ENTRY_SIZE:
            raise CorruptFileError(path, f"{len(data)} bytes are not a whole number of entries")
        for version, *fields in _ENTRY.iter_unpack(data):
            entry = AbortedTransaction._make(fields)
            before = index.entries[-1].last_offset if index.entries else -1
            if version != 0 or not 0 <= entry.first_offset < entry.last_offset or entry.last_offset <= before:
                raise CorruptFileError(path, f"impossible entry {entry}")
            index.entries.append(entry)
        index._written = len(index.entries)
        return index

    def append(self, entry: AbortedTransaction) -> None:
        """Adds an entry and tries to write it; ``write`` tells whether the file has all entries."""
        self.entries.append(entry)
        self.write()

    def write(self) -> bool:
        """Brings the file up to date; False when the disk refuses."""
        if self._written == len(self.entries):
            return True
        data = b"".join(_ENTRY.pack(0, *entry) for entry in self.entries[self._written :])
        try:
            exists = self._files.exists(self.path)
            file = self._files.open(self.path) if exists else self._files.create(self.path)
            file.append(data)
        except OSError as error:
            logger.warning("%s cannot be written: %s", self.path, error)
            return False
        self._written = len(self.entries)
        return True

    def truncate(self, offset: int) -> None:
        """Removes what was aborted at or after ``offset``."""
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        if len(kept) != len(self.entries):
            self.entries = kept
            self.rewrite()

    def rewrite(self) -> None:
        """Writes the whole file again; without entries there is no file."""
        if self.entries:
            self._files.write_atomically(
                self.path, b"".join(_ENTRY.pack(0, *entry) for entry in self.entries)
            )
        elif self._files.exists(self.path):
            self._files.remove(self.path)
        self._written = len(self.entries)

    def collect(self, start_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions with records in [start, end), and whether later segments have none."""
        found = []
        first = bisect_left(self.entries, start_offset, key=_last_offset)
        for entry in islice(self.entries, first, None):
            if entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return found, True
        return found, False
