"""A file that others write to, read line by line as it grows.

Line feeds, carriage returns and both together end a line; what has no end yet waits. A file that became
shorter is read from its beginning, and so is one that took the place of another, after the rest of the old
one.

Invariant: ``position`` counts bytes of whole lines and is always the beginning of a line.
"""

import os
import re
from pathlib import Path
from typing import BinaryIO, NamedTuple

CHUNK_BYTES = 64 * 1024
_END = re.compile(rb"\r\n|\n|\r(?=[^\n])")


class Line(NamedTuple):
    text: str
    #: Where the next line begins.
    position: int


class GrowingFile:
    def __init__(self, path: Path, position: int = 0) -> None:
        self._path = path
        self._position = position
        self._pending = b""
        self._file: BinaryIO | None = None
        self._inode = 0

    def read(self, limit: int) -> list[Line]:
        """The next whole lines, at most ``limit``; none if the file is not there or has no more."""
        if self._file is None and not self._open():
            return []
        lines = self._split(limit)
        while len(lines) < limit and self._fill():
            lines += self._split(limit - len(lines))
        if not lines:
            self._follow()
        return lines

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> bool:
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return False
        found = os.fstat(file.fileno())
        if found.st_size < self._position:
            self._position = 0
        file.seek(self._position)
        self._file, self._inode, self._pending = file, found.st_ino, b""
        return True

    def _fill(self) -> bool:
        assert self._file is not None
        chunk = self._file.read(CHUNK_BYTES)
        self._pending += chunk
        return bool(chunk)

    def _split(self, limit: int) -> list[Line]:
        lines: list[Line] = []
        start = 0
        for end in _END.finditer(self._pending):
            if len(lines) == limit:
                break
            raw = self._pending[start : end.start()]
            start = end.end()
            lines.append(Line(raw.decode("utf-8", "replace"), self._position + start))
        self._pending = self._pending[start:]
        self._position += start
        return lines

    def _follow(self) -> None:
        """Begins anew if the file was cut or replaced; what was read of it is read no more."""
        assert self._file is not None
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return
        replaced = there.st_ino != self._inode
        if replaced or there.st_size < self._position + len(self._pending):
            self.close()
            self._position = 0
