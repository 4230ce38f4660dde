"""Some bytes of the disk that are kept for the metadata: where it is full, topics can still be deleted.

A broker that starts has to write a little (that it is the controller, and that it is there), and so has one
that is to delete something. The bytes are in a file of their own, which gives them back for as long as a
write takes, and takes what is left of them again.

Invariant: nothing depends on the reserve. Where it cannot be had, or is used up, the write fails as it would
without one.
"""

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

_logger = logging.getLogger(__name__)

FILE_NAME = "moldau-reserved-space"
#: A few hundred changes of metadata, and the files that SQLite needs beside its database.
_SIZE = 4 * 1024 * 1024
#: On a small disk it is this part; a smaller reserve would be of no use.
_PART_OF_DISK = 64
_LEAST = 256 * 1024
_BLOCK = 4096
_STEP = 8 * _BLOCK


class SpaceReserve:
    """Used by one thread of a process; of several processes each takes what it can."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / FILE_NAME
        self._is_full = False

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """While the disk is full the bytes are free inside of this; else the reserve is seen to."""
        try:
            wanted, free = self._wanted_and_free()
            kept = self._path.stat().st_size if self._path.exists() else 0
        except OSError:  # no directory yet
            yield
            return
        if free >= wanted or not kept:
            yield
            if self._is_full and free >= wanted:
                self._is_full = False
                _logger.warning("%s: the disk has room again", self._directory)
            if kept < wanted <= free // 2:
                self._take(wanted)
            return
        if not self._is_full:
            self._is_full = True
            message = (
                "%s: the disk is full: metadata uses %d bytes that were kept for this. Next: make room; "
            )
            message += "topics can be deleted"
            _logger.error(message, self._directory, kept)
        with contextlib.suppress(OSError):
            os.truncate(self._path, 0)
        try:
            yield
        finally:
            self._take(kept)

    def _wanted_and_free(self) -> tuple[int, int]:
        status = os.statvfs(self._directory)
        wanted = min(_SIZE, status.f_blocks * status.f_frsize // _PART_OF_DISK) // _BLOCK * _BLOCK
        free = status.f_bavail * status.f_frsize
        return (wanted if wanted >= _LEAST else 0), free

    def _take(self, size: int) -> None:
        """As much of this as the disk has."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                size = min(size, self._wanted_and_free()[1] // _BLOCK * _BLOCK)
                while size > 0 and not _allocate(descriptor, size):
                    size -= _STEP
            finally:
                os.close(descriptor)


def _allocate(descriptor: int, size: int) -> bool:
    """Whether the file has so many bytes of the disk now."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.pwrite(descriptor, bytes(size), 0)
    except OSError:
        return False
    return True
