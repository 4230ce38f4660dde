"""The log file of a service.

Invariant: never the reason why a service ends. What cannot be written (a full disk) is left out, ``problem``
says why, and the next line is tried again.
"""

from pathlib import Path
from typing import BinaryIO

#: A log file of this size is renamed to NAME.log.1, and a new one is started.
MAX_LOG_BYTES = 16 * 1024 * 1024


class LogFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._size = 0
        #: Why the last line was not written; None when it was.
        self.problem: str | None = None
        try:
            self._open()
        except OSError as error:
            self.problem = error.strerror

    def _open(self) -> BinaryIO:
        self._file = self.path.open("wb", buffering=0)
        self._size = 0
        return self._file

    def write(self, line: bytes) -> None:
        try:
            file = self._file or self._open()
            file.write(line)
            self._size += len(line)
            if self._size >= MAX_LOG_BYTES:
                self.close()
                self.path.replace(self.path.with_name(self.path.name + ".1"))
        except OSError as error:
            self.problem = error.strerror
        else:
            self.problem = None

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
