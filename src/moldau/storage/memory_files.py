"""Files without a disk: for brokers that live inside a test, and with faults for the tests of this room.

Law: the contract of ``files.Files``, kept by the same test suite. Names (creation, renaming, removal) are
durable at once; contents only after ``flush``.
"""

import errno
from collections.abc import Callable

from moldau.storage.errors import DirectoryInUseError


class Faults:
    """What a test wants to go wrong in ``MemoryFiles``."""

    __slots__ = ("bytes_until_full", "flush_fails", "on_operation", "read_fails")

    def __init__(self) -> None:
        self.bytes_until_full: int | None = None
        self.read_fails = False
        self.flush_fails = False
        #: Called with the name of the operation and the path; may raise.
        self.on_operation: Callable[[str, str], None] | None = None


class MemoryFile:
    """A file of ``MemoryFiles``: the bytes, and how many of them a power cut would leave."""

    __slots__ = ("_content", "_faults", "_synced_size", "path", "size")

    def __init__(self, path: str, faults: Faults, content: bytearray) -> None:
        self.path = path
        self.size = len(content)
        self._content = content
        self._faults = faults
        self._synced_size = 0

    def append(self, data: bytes | bytearray | memoryview) -> None:
        faults = self._faults
        if faults.bytes_until_full is not None:
            if len(data) > faults.bytes_until_full:
                raise OSError(errno.ENOSPC, "No space left on device", self.path)
            faults.bytes_until_full -= len(data)
        if faults.on_operation is not None:
            faults.on_operation("append", self.path)
        self._content += data
        self.size = len(self._content)

    def read(self, position: int, size: int) -> bytes:
        if self._faults.read_fails:
            raise OSError(errno.EIO, "Input/output error", self.path)
        with memoryview(self._content) as view:
            return bytes(view[position : position + size])

    def truncate(self, size: int) -> None:
        del self._content[size:]
        self.size = len(self._content)
        self._synced_size = min(self._synced_size, self.size)

    def flush(self) -> None:
        if self._faults.flush_fails:
            raise OSError(errno.EIO, "Input/output error", self.path)
        if self._faults.on_operation is not None:
            self._faults.on_operation("flush", self.path)
        self._synced_size = len(self._content)

    def close(self) -> None:
        pass

    def survivor(self) -> bytearray:
        """What a power cut leaves."""
        return self._content[: self._synced_size]

    def content(self) -> bytes:
        return bytes(self._content)


class MemoryLock:
    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path
        if path in held:
            raise DirectoryInUseError(f"data directory {path.rpartition('/')[0]} is in use by this process")
        held.add(path)

    def release(self) -> None:
        self._held.discard(self._path)


class MemoryFiles:
    """A disk that is a dictionary."""

    def __init__(self) -> None:
        self.faults = Faults()
        self._files: dict[str, MemoryFile] = {}
        self._directories: set[str] = {"", "/"}
        self._locks: set[str] = set()
        self._unique = 0

    def power_cut(self) -> "MemoryFiles":
        """The disk as it is found after the power went: every file without its unflushed tail."""
        after = MemoryFiles()
        after._directories = set(self._directories)
        after._unique = self._unique + 1
        for path, file in self._files.items():
            content = file.survivor()
            after._add(path, content)._synced_size = len(content)
        return after

    def copy(self) -> "MemoryFiles":
        """The disk as another process would find it after this one was killed: nothing is lost."""
        after = MemoryFiles()
        after._directories = set(self._directories)
        after._unique = self._unique + 1
        for path, file in self._files.items():
            after._add(path, bytearray(file.content()))._synced_size = file._synced_size
        return after

    def _add(self, path: str, content: bytearray) -> MemoryFile:
        file = MemoryFile(path, self.faults, content)
        self._files[path] = file
        return file

    def _operation(self, name: str, path: str) -> None:
        if self.faults.on_operation is not None:
            self.faults.on_operation(name, path)

    def _need_directory_of(self, path: str) -> None:
        if path.rpartition("/")[0] not in self._directories:
            raise _missing(path)

    def open(self, path: str) -> MemoryFile:
        try:
            return self._files[path]
        except KeyError:
            raise _missing(path) from None

    def create(self, path: str) -> MemoryFile:
        self._need_directory_of(path)
        self._operation("create", path)
        return self._add(path, bytearray())

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._directories

    def size_of(self, path: str) -> int:
        return self.open(path).size

    def list_directory(self, path: str) -> list[str]:
        if path not in self._directories:
            raise _missing(path)
        start = len(path) + 1
        below = (name for known in (self._files, self._directories) for name in known)
        return sorted({name[start:].split("/")[0] for name in below if name.startswith(f"{path}/")})

    def list_sizes(self, path: str) -> dict[str, int]:
        names = self.list_directory(path)
        return {name: self._files[f"{path}/{name}"].size for name in names if f"{path}/{name}" in self._files}

    def is_directory(self, path: str) -> bool:
        return path in self._directories

    def make_directory(self, path: str) -> None:
        if path in self._files:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        self._operation("make_directory", path)
        while path not in self._directories:
            self._directories.add(path)
            path = path.rpartition("/")[0]

    def rename(self, source: str, target: str) -> None:
        self._operation("rename", source)
        if source in self._files:
            self._need_directory_of(target)
            file = self._files.pop(source)
            file.path = target
            self._files[target] = file
            return
        if source not in self._directories:
            raise _missing(source)
        self._directories = {_moved(path, source, target) for path in self._directories}
        self._files = {_moved(path, source, target): file for path, file in self._files.items()}

    def remove(self, path: str) -> None:
        self._operation("remove", path)
        self.open(path)
        del self._files[path]

    def remove_tree(self, path: str) -> None:
        self.list_directory(path)
        inside = f"{path}/"
        self._files = {name: file for name, file in self._files.items() if not name.startswith(inside)}
        self._directories = {
            name for name in self._directories if name != path and not name.startswith(inside)
        }

    def read_whole(self, path: str) -> bytes:
        file = self.open(path)
        return file.read(0, file.size)

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self._need_directory_of(path)
        self._operation("write_atomically", path)
        file = MemoryFile(path, self.faults, bytearray())
        file.append(data)
        if sync:
            file.flush()
        self._files[path] = file

    def flush_directory(self, path: str) -> None:
        if self.faults.flush_fails:
            raise OSError(errno.EIO, "Input/output error", path)

    def lock(self, path: str) -> MemoryLock:
        return MemoryLock(self._locks, path)

    def free_bytes(self, path: str) -> int:
        return 1 << 40 if self.faults.bytes_until_full is None else self.faults.bytes_until_full

    def total_bytes(self, path: str) -> int:
        return 1 << 40

    def unique_hex(self) -> str:
        self._unique += 1
        return f"{self._unique:032x}"


def _moved(path: str, source: str, target: str) -> str:
    if path == source or path.startswith(f"{source}/"):
        return target + path[len(source) :]
    return path


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "No such file or directory", path)
