"""Files without a disk: for brokers that live inside a test, and with faults for the tests of this room.

Law: the contract of ``files.Files``, kept by the same test suite. Names (creation, renaming, removal) are
durable at once; contents only after ``flush``.
"""

import errno
from collections.abc import Callable

from moldau.storage.errors import DirectoryInUseError


class Faults:
    """What a test wants to go wrong."""

    __slots__ = ("bytes_until_full", "flush_fails", "on_operation", "read_fails")

    def __init__(self) -> None:
        #: How much may still be appended; a file is never left with half of an append.
        self.bytes_until_full: int | None = None
        self.read_fails = False
        self.flush_fails = False
        #: Called with the name of an operation and the path before it is done; may raise.
        self.on_operation: Callable[[str, str], None] | None = None


class MemoryFile:
    """The bytes, and how many of them a power cut would leave."""

    __slots__ = ("_content", "_faults", "_synced_size", "path", "size")

    def __init__(self, path: str, faults: Faults, content: bytearray, synced_size: int = 0) -> None:
        self.path = path
        self.size = len(content)
        self._content = content
        self._faults = faults
        self._synced_size = synced_size

    def append(self, data: bytes | bytearray | memoryview) -> None:
        faults = self._faults
        if faults.on_operation is not None:
            faults.on_operation("append", self.path)
        if faults.bytes_until_full is not None:
            if len(data) > faults.bytes_until_full:
                raise OSError(errno.ENOSPC, "No space left on device", self.path)
            faults.bytes_until_full -= len(data)
        self._content += data
        self.size = len(self._content)

    def read(self, position: int, size: int) -> bytes:
        if self._faults.read_fails:
            raise _input_output_error(self.path)
        with memoryview(self._content) as view:
            return bytes(view[position : position + size])

    def truncate(self, size: int) -> None:
        del self._content[size:]
        self.size = len(self._content)
        self._synced_size = min(self._synced_size, self.size)

    def flush(self) -> None:
        if self._faults.on_operation is not None:
            self._faults.on_operation("flush", self.path)
        if self._faults.flush_fails:
            raise _input_output_error(self.path)
        self._synced_size = len(self._content)

    def close(self) -> None:
        """Nothing to give back: the bytes go with the last reference."""

    def copy(self, faults: Faults, *, synced_only: bool) -> "MemoryFile":
        size = self._synced_size if synced_only else self.size
        return MemoryFile(self.path, faults, self._content[:size], self._synced_size)


class MemoryLock:
    def __init__(self, held: set[str], path: str) -> None:
        if path in held:
            directory = path.rpartition("/")[0]
            raise DirectoryInUseError(f"data directory {directory} is in use by this process")
        held.add(path)
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.discard(self._path)


class MemoryFiles:
    """A disk that is a dictionary of directories, each a dictionary of files."""

    def __init__(self) -> None:
        self.faults = Faults()
        self._directories: dict[str, dict[str, MemoryFile]] = {"": {}, "/": {}}
        self._locks: set[str] = set()
        self._unique = 0

    def after_power_cut(self) -> "MemoryFiles":
        """The disk as it is found after the power went: every file without its unflushed tail."""
        return self._copy(synced_only=True)

    def after_kill(self) -> "MemoryFiles":
        """The disk as it is found after the process was killed: what was written is there."""
        return self._copy(synced_only=False)

    def _copy(self, *, synced_only: bool) -> "MemoryFiles":
        after = MemoryFiles()
        after._unique = self._unique + 1
        for path, files in self._directories.items():
            after._directories[path] = {
                name: file.copy(after.faults, synced_only=synced_only) for name, file in files.items()
            }
        return after

    def _operation(self, name: str, path: str) -> None:
        if self.faults.on_operation is not None:
            self.faults.on_operation(name, path)

    def _split(self, path: str) -> tuple[dict[str, MemoryFile], str]:
        """The directory that a file is in or shall be in, and its name there."""
        parent, _, name = path.rpartition("/")
        try:
            return self._directories[parent], name
        except KeyError:
            raise _missing(path) from None

    def open(self, path: str) -> MemoryFile:
        files, name = self._split(path)
        try:
            return files[name]
        except KeyError:
            raise _missing(path) from None

    def create(self, path: str) -> MemoryFile:
        files, name = self._split(path)
        self._operation("create", path)
        file = files[name] = MemoryFile(path, self.faults, bytearray())
        return file

    def exists(self, path: str) -> bool:
        parent, _, name = path.rpartition("/")
        return path in self._directories or name in self._directories.get(parent, ())

    def size_of(self, path: str) -> int:
        return self.open(path).size

    def _children(self, path: str) -> list[str]:
        inside = f"{path}/"
        return [name for name in self._directories if name.startswith(inside)]

    def list_directory(self, path: str) -> list[str]:
        if path not in self._directories:
            raise _missing(path)
        start = len(path) + 1
        return sorted(
            {*self._directories[path], *(name[start:].split("/")[0] for name in self._children(path))}
        )

    def list_sizes(self, path: str) -> dict[str, int]:
        if path not in self._directories:
            raise _missing(path)
        return {name: file.size for name, file in sorted(self._directories[path].items())}

    def is_directory(self, path: str) -> bool:
        return path in self._directories

    def make_directory(self, path: str) -> None:
        if path not in self._directories and self.exists(path):
            raise FileExistsError(errno.EEXIST, "File exists", path)
        self._operation("make_directory", path)
        while path not in self._directories:
            self._directories[path] = {}
            path = path.rpartition("/")[0]

    def rename(self, source: str, target: str) -> None:
        self._operation("rename", source)
        if source in self._directories:
            for path in [source, *self._children(source)]:
                self._directories[target + path[len(source) :]] = self._directories.pop(path)
            return
        file = self.open(source)
        files, name = self._split(target)
        old_files, old_name = self._split(source)
        del old_files[old_name]
        file.path = target
        files[name] = file

    def remove(self, path: str) -> None:
        self._operation("remove", path)
        self.open(path)
        files, name = self._split(path)
        del files[name]

    def remove_tree(self, path: str) -> None:
        self._operation("remove_tree", path)
        if path not in self._directories:
            raise _missing(path)
        for name in [path, *self._children(path)]:
            del self._directories[name]

    def read_whole(self, path: str) -> bytes:
        file = self.open(path)
        return file.read(0, file.size)

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        files, name = self._split(path)
        self._operation("write_atomically", path)
        file = MemoryFile(path, self.faults, bytearray())
        file.append(data)
        if sync:
            file.flush()
        files[name] = file

    def flush_directory(self, path: str) -> None:
        self._operation("flush_directory", path)
        if path not in self._directories:
            raise _missing(path)
        if self.faults.flush_fails:
            raise _input_output_error(path)

    def lock(self, path: str) -> MemoryLock:
        return MemoryLock(self._locks, path)

    def free_bytes(self, path: str) -> int:
        return 1 << 40 if self.faults.bytes_until_full is None else self.faults.bytes_until_full

    def total_bytes(self, path: str) -> int:
        return 1 << 40

    def unique_hex(self) -> str:
        self._unique += 1
        return f"{self._unique:032x}"


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "No such file or directory", path)


def _input_output_error(path: str) -> OSError:
    return OSError(errno.EIO, "Input/output error", path)
