"""The only door to the disk: files, directories, and slices of files that wait to be sent.

Law: nothing else in this room imports ``os``. A file knows its size without asking the system, an append is
all or nothing, and a descriptor stays open for as long as anyone holds its ``File``: a slice on its way to a
consumer outlives the deletion of its segment. Paths are plain strings with ``/``.
"""

import contextlib
import errno
import fcntl
import os
from typing import Protocol, TypeAlias

from moldau.storage.errors import DirectoryInUseError
from moldau.storage.memory_files import Faults as Faults
from moldau.storage.memory_files import MemoryFiles as MemoryFiles

#: What an append takes.
Data: TypeAlias = bytes | bytearray | memoryview


class File(Protocol):
    """A file that grows at its end."""

    size: int

    def append(self, data: Data) -> None:
        """All of ``data`` at the end, or OSError and the file as it was."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes; fewer only where the file ends."""
        ...

    def truncate(self, size: int) -> None: ...

    def flush(self) -> None:
        """Returns once the content is on the device. An error is final: never ask a second time."""
        ...

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Files(Protocol):
    """The seam between a log and the disk."""

    def open(self, path: str) -> File:
        """An existing file; FileNotFoundError when there is none."""
        ...

    def create(self, path: str) -> File:
        """A new, empty file in place of whatever had this name."""
        ...

    def exists(self, path: str) -> bool: ...

    def size_of(self, path: str) -> int: ...

    def list_directory(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def list_sizes(self, path: str) -> dict[str, int]:
        """The plain files of a directory with their sizes."""
        ...

    def is_directory(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """With its parents; nothing happens when it is there already."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def read_whole(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """The old content or the new one, never both. Without ``sync`` a power cut may lose the new one."""
        ...

    def flush_directory(self, path: str) -> None:
        """Returns once the names in the directory are on the device."""
        ...

    def lock(self, path: str) -> Lock:
        """DirectoryInUseError when someone else holds it."""
        ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int: ...

    def unique_hex(self) -> str:
        """Thirty-two hexadecimal digits that nobody had before."""
        ...


class Slice:
    """A piece of a file that is read when there is room to send it."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: File, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def read(self) -> bytes:
        return self.file.read(self.position, self.size)

    def read_part(self, start: int, size: int) -> bytes:
        """``size`` bytes from ``start`` on, counted from the beginning of the slice, never beyond its end."""
        return self.file.read(self.position + start, min(size, self.size - start))

    def rest(self, start: int) -> "Slice":
        """What is left of the slice from ``start`` on."""
        return Slice(self.file, self.position + start, self.size - start)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"Slice(position={self.position}, size={self.size})"


# Looked up once: it is on the path of every append.
_pwrite = os.pwrite


class OsFile:
    """A file of the operating system.

    Writes go to the position that this object counts, not to wherever the system sees the end: should the cut
    after a failed append fail as well, the next append covers what is left of it.
    """

    __slots__ = ("_descriptor", "_tail_is_dirty", "path", "size")

    def __init__(self, path: str, descriptor: int, size: int) -> None:
        self.path = path
        self.size = size
        self._descriptor = descriptor
        self._tail_is_dirty = False

    def append(self, data: Data) -> None:
        position = self.size
        try:
            written = _pwrite(self._descriptor, data, position)
            size = len(data)
            if written != size:
                self._append_rest(memoryview(data), written)
        except OSError:
            self._cut_back()
            raise
        self.size = position + size

    def _append_rest(self, data: memoryview, written: int) -> None:
        while written < len(data):
            count = _pwrite(self._descriptor, data[written:], self.size + written)
            if count == 0:
                raise OSError(errno.EIO, "the system took no bytes", self.path)
            written += count

    def _cut_back(self) -> None:
        self._tail_is_dirty = True
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, self.size)
            self._tail_is_dirty = False

    def read(self, position: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or position + len(data) >= self.size:
            return data
        parts = [data]
        done = len(data)
        while done < size and data:
            data = os.pread(self._descriptor, size - done, position + done)
            parts.append(data)
            done += len(data)
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        if size < self.size or self._tail_is_dirty:
            os.ftruncate(self._descriptor, min(size, self.size))
            self.size = min(size, self.size)
            self._tail_is_dirty = False

    def flush(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            if self._tail_is_dirty:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, self.size)
            os.close(descriptor)

    def __del__(self) -> None:
        # The last holder is gone, be it the segment or a slice that was still being sent.
        self.close()


class OsLock:
    """A held lock on a file; the system drops it when the process dies."""

    #: A POSIX lock does not keep out a second node of the same process, so the process keeps its own list.
    _held: set[str] = set()  # noqa: RUF012 -- shared on purpose

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        if self._path in OsLock._held:
            raise _in_use(path, "this process")
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise _in_use(path, "another process") from None
        OsLock._held.add(self._path)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            OsLock._held.discard(self._path)


def _in_use(path: str, holder: str) -> DirectoryInUseError:
    directory = os.path.dirname(path)
    return DirectoryInUseError(f"data directory {directory} is in use by {holder}: {path} is locked")


class OsFiles:
    """The disk itself."""

    def open(self, path: str) -> OsFile:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        return OsFile(path, descriptor, os.fstat(descriptor).st_size)

    def create(self, path: str) -> OsFile:
        return OsFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644), 0)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size_of(self, path: str) -> int:
        return os.stat(path).st_size

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def list_sizes(self, path: str) -> dict[str, int]:
        with os.scandir(path) as entries:
            found = {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        return dict(sorted(found.items()))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_directory(self, path: str) -> None:
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        except FileNotFoundError:
            os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        for parent, directories, names in os.walk(path, topdown=False):
            for name in names:
                os.remove(os.path.join(parent, name))
            for name in directories:
                os.rmdir(os.path.join(parent, name))
        os.rmdir(path)

    def read_whole(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = f"{path}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
        if sync:
            self.flush_directory(os.path.dirname(path))

    def flush_directory(self, path: str) -> None:
        descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> OsLock:
        return OsLock(path)

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def unique_hex(self) -> str:
        return os.urandom(16).hex()
