"""The only access to the disk: files, directories, locks, and slices of files that wait to be sent.

A file knows its size without a system call. It has a descriptor while it is used, as ``open_files`` finds
room for it, and at most as long as anybody refers to its ``File``: a slice that is being sent outlives the
deletion of its segment. Paths are strings with ``/``.

Invariant: nothing else in this package imports ``os`` (except ``open_files`` and the cleaner's process). An
append is all or nothing.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable
from typing import Protocol, TypeAlias

from moldau.storage.errors import DirectoryInUseError
from moldau.storage.memory_files import Faults as Faults
from moldau.storage.memory_files import MemoryFiles as MemoryFiles
from moldau.storage.open_files import NO_DESCRIPTOR, OPEN_FILES, OpenFiles

#: What an append takes.
Data: TypeAlias = bytes | bytearray | memoryview


class File(Protocol):
    """A file that is appended to."""

    #: Where it is; whoever renames an open file says so here.
    path: str
    size: int

    def append(self, data: Data) -> None:
        """Appends all of ``data``; after an OSError the file is as it was."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes; fewer only at the end of the file."""
        ...

    def truncate(self, size: int) -> None: ...

    def unshare(self) -> None:
        """Replaces a file that has several hard links by a copy; called before a sealed file is appended to.

        ``truncate`` does so by itself, and so does an append to a file that had several links when it was
        opened.
        """
        ...

    def flush(self) -> None:
        """Returns once the content is on the device. An error is final: never try again."""
        ...

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Files(Protocol):
    """The interface between the logs and the disk."""

    def open(self, path: str) -> File:
        """An existing file; FileNotFoundError when there is none."""
        ...

    def create(self, path: str) -> File:
        """A new, empty file, instead of an existing one of this name."""
        ...

    def exists(self, path: str) -> bool: ...

    def size_of(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """When the content was last modified."""
        ...

    def list_directory(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def list_sizes(self, path: str) -> dict[str, int]:
        """The regular files of a directory with their sizes."""
        ...

    def is_directory(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """With its parents; does nothing if it exists."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def link(self, source: str, target: str) -> None:
        """A hard link, or a copy where the file system has none.

        A write through one of the names never shows under the other (see ``File.unshare``).
        """
        ...

    def copy(self, source: File, size: int, target: str) -> None:
        """A new file with the first ``size`` bytes of one that another thread may be appending to."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def read_whole(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Replaces the content atomically. Without ``sync`` a power cut may lose the new content."""
        ...

    def flush_directory(self, path: str) -> None:
        """Returns once the names in the directory are on the device."""
        ...

    def lock(self, path: str) -> Lock:
        """DirectoryInUseError when it is locked already."""
        ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int: ...

    def unique_hex(self) -> str:
        """Thirty-two random hexadecimal digits."""
        ...


class Slice:
    """A part of a file, which is read when the socket can take it."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: File, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def read(self) -> bytes:
        return self.file.read(self.position, self.size)

    def read_part(self, start: int, size: int) -> bytes:
        """``size`` bytes from ``start`` on, relative to the slice, never beyond its end."""
        return self.file.read(self.position + start, min(size, self.size - start))

    def rest(self, start: int) -> "Slice":
        """The slice from ``start`` on."""
        return Slice(self.file, self.position + start, self.size - start)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"Slice(position={self.position}, size={self.size})"


# Looked up once: it is on the path of every append.
_pwrite = os.pwrite
#: macOS has no ``fdatasync``.
_sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)

#: Errors of ``link`` after which a copy is made instead.
_NO_LINK = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES}
)
_COPY_CHUNK = 8 * 1024 * 1024


class OsFile:
    """A file of the operating system.

    Writes go to the position that this object counts, not to the end that the system sees: if a failed append
    cannot be truncated, the next append overwrites what is left of it.

    The descriptor may be taken away between any two calls. A call without one fails with EBADF, is noticed,
    and made again with a new one, so that the usual case has nothing to check. What is not flushed when a
    descriptor is taken away is flushed through the next one: that is the same file to the system.
    """

    __slots__ = (
        "__weakref__",
        "_descriptor",
        "_identity",
        "_open_files",
        "_shared",
        "_tail_is_dirty",
        "path",
        "recently_used",
        "size",
    )

    def __init__(self, path: str, flags: int = 0, open_files: OpenFiles = OPEN_FILES) -> None:
        self.path = path
        self.recently_used = True
        self._descriptor: int = NO_DESCRIPTOR
        self._open_files = open_files
        self._tail_is_dirty = False
        #: Device and inode: a file that has taken the path meanwhile is another one. None: closed for good.
        self._identity: tuple[int, int] | None = None
        #: The file had several hard links when it was opened.
        self._shared = False
        self.size = self._open(flags).st_size

    def _open(self, flags: int = 0) -> os.stat_result:
        descriptor = self._open_files.open(self.path, os.O_RDWR | flags)
        status = os.fstat(descriptor)
        identity = status.st_dev, status.st_ino
        if self._identity not in (None, identity):
            raise FileNotFoundError(errno.ENOENT, "another file has taken this name", self.path)
        self._identity = identity
        self._shared = status.st_nlink > 1
        self._descriptor = descriptor
        self._open_files.admit(self)
        return status

    def release_descriptor(self) -> None:
        self._descriptor = NO_DESCRIPTOR

    def descriptor(self) -> int:
        """The descriptor, open as long as the caller refers to it."""
        descriptor = self._descriptor
        while descriptor == NO_DESCRIPTOR:
            if self._identity is None:
                raise OSError(errno.EBADF, "the file is closed", self.path)
            self._open()
            descriptor = self._descriptor
        self.recently_used = True
        return descriptor

    def append(self, data: Data) -> None:
        if self._shared:
            self.unshare()
        position = self.size
        descriptor = self._descriptor
        try:
            written = _pwrite(descriptor, data, position)
            size = len(data)
            if written != size:
                self._append_rest(descriptor, memoryview(data), written)
        except OSError:
            if descriptor == NO_DESCRIPTOR:
                self.descriptor()
                self.append(data)
                return
            self._cut_back(descriptor)
            raise
        self.size = position + size
        self.recently_used = True

    def _append_rest(self, descriptor: int, data: memoryview, written: int) -> None:
        while written < len(data):
            count = _pwrite(descriptor, data[written:], self.size + written)
            if count == 0:
                raise OSError(errno.EIO, "the system took no bytes", self.path)
            written += count

    def _cut_back(self, descriptor: int) -> None:
        self._tail_is_dirty = True
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, self.size)
            self._tail_is_dirty = False

    def read(self, position: int, size: int) -> bytes:
        descriptor = self._descriptor
        if descriptor == NO_DESCRIPTOR:
            descriptor = self.descriptor()
        self.recently_used = True
        data = os.pread(descriptor, size, position)
        if len(data) == size or position + len(data) >= self.size:
            return data
        parts = [data]
        done = len(data)
        while done < size and data:
            data = os.pread(descriptor, size - done, position + done)
            parts.append(data)
            done += len(data)
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        if size < self.size or self._tail_is_dirty:
            self.unshare()
            os.ftruncate(self.descriptor(), min(size, self.size))
            self.size = min(size, self.size)
            self._tail_is_dirty = False

    def unshare(self) -> None:
        descriptor = self.descriptor()
        status = os.fstat(descriptor)
        self._shared = False
        if status.st_nlink <= 1:
            return
        here = os.stat(self.path)
        if (here.st_dev, here.st_ino) != (status.st_dev, status.st_ino):
            raise OSError(errno.ESTALE, "another file has taken this name", self.path)
        temporary = f"{self.path}.tmp"
        try:
            own = self._open_files.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            _copy_bytes(descriptor, own, self.size)
            # The content may have been acknowledged: the copy must be on the device before it replaces it.
            os.fsync(own)
            os.rename(temporary, self.path)
            self._open_files.attempt(_flush_directory, os.path.dirname(self.path))
        except OSError:
            self._shared = True
            raise
        # Reads and flushes that other threads have begun end on the old file, whose content is the same.
        copied = os.fstat(own)
        self._identity = copied.st_dev, copied.st_ino
        self._descriptor = own
        self._open_files.admit(self)

    def flush(self) -> None:
        _sync_data(self.descriptor())

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, NO_DESCRIPTOR
        if self._identity is None:
            return
        self._identity = None
        self._open_files.forget(self)
        if self._tail_is_dirty:
            with contextlib.suppress(OSError):
                if descriptor == NO_DESCRIPTOR:
                    os.truncate(self.path, self.size)
                else:
                    os.ftruncate(descriptor, self.size)

    def __del__(self) -> None:
        # The last reference is gone, of the segment or of a slice that was being sent.
        self.close()


class OsLock:
    """A lock on a file; the system releases it when the process ends."""

    #: A POSIX lock does not exclude a second broker in the same process, so the process has its own list.
    _locked: set[str] = set()  # noqa: RUF012 -- shared on purpose

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        if self._path in OsLock._locked:
            raise _in_use(path, "this process")
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise _in_use(path, "another process") from None
        OsLock._locked.add(self._path)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            OsLock._locked.discard(self._path)


def _in_use(path: str, holder: str) -> DirectoryInUseError:
    directory = os.path.dirname(path)
    return DirectoryInUseError(f"data directory {directory} is in use by {holder}: {path} is locked")


class OsFiles:
    """The disk itself."""

    def __init__(self, open_files: OpenFiles = OPEN_FILES) -> None:
        self._open_files = open_files

    def open(self, path: str) -> OsFile:
        return OsFile(path, 0, self._open_files)

    def create(self, path: str) -> OsFile:
        flags = os.O_CREAT | os.O_EXCL
        try:
            return OsFile(path, flags, self._open_files)
        except FileExistsError:
            # Replaced, not truncated: the old file may have other hard links, or readers.
            os.remove(path)
            return OsFile(path, flags, self._open_files)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size_of(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list_directory(self, path: str) -> list[str]:
        return sorted(self._open_files.attempt(os.listdir, path))

    def list_sizes(self, path: str) -> dict[str, int]:
        with self._open_files.attempt(os.scandir, path) as entries:
            found = {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        return dict(sorted(found.items()))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_directory(self, path: str) -> None:
        try:
            os.mkdir(path, 0o700)  # for this user alone
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        except FileNotFoundError:
            os.makedirs(path, mode=0o700, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def link(self, source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            file = self.open(source)
            self.copy(file, file.size, target)

    def copy(self, source: File, size: int, target: str) -> None:
        assert isinstance(source, OsFile)
        descriptor = self._open_files.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        _copy_bytes(source.descriptor(), descriptor, size)

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
        with self._open_files.attempt(open, path, "rb") as file:
            return file.read()

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = f"{path}.tmp"
        descriptor = self._open_files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            if sync:
                os.fsync(descriptor)
        except OSError:
            os.remove(temporary)  # a full disk has no room for what is of no use
            raise
        os.rename(temporary, path)
        if sync:
            self.flush_directory(os.path.dirname(path))

    def flush_directory(self, path: str) -> None:
        self._open_files.attempt(_flush_directory, path)

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


def _flush_directory(path: str) -> None:
    descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_bytes(source: int, target: int, size: int) -> None:
    """Copies the first ``size`` bytes; in the kernel, where some file systems only share blocks."""
    done = _copy_in_kernel(source, target, size)
    while done < size:
        data = os.pread(source, min(_COPY_CHUNK, size - done), done)
        if not data:
            raise OSError(errno.EIO, f"the file ends at {done}, and {size} bytes were to be copied")
        view = memoryview(data)
        while view:
            count = os.pwrite(target, view, done)
            view = view[count:]
            done += count


def _copy_in_kernel(source: int, target: int, size: int) -> int:
    """Returns how many bytes could be copied that way."""
    done = 0
    if hasattr(os, "copy_file_range"):
        with contextlib.suppress(OSError):  # not between these file systems, or not on this system
            while done < size:
                count = os.copy_file_range(source, target, size - done, done, done)
                if count == 0:
                    break
                done += count
    return done
