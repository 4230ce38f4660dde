"""A disk in memory, for brokers in tests, with faults that a test can inject.

Invariant: the same contract as ``files.Files``, checked by the same tests. Content survives a power cut
only after ``flush``, and names of files only after ``flush_directory`` (if the test asks for the loss of
names). Names of directories always survive.
"""

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from moldau.base.clock import SystemClock
from moldau.storage.errors import DirectoryInUseError

if TYPE_CHECKING:
    from moldau.storage.files import File

_CLOCK = SystemClock()

#: What a power cut leaves of a file, given its content and how much of it was flushed.
Remains: TypeAlias = Callable[[bytes, int], bytes]


class Faults:
    """What shall fail."""

    __slots__ = ("bytes_until_full", "flush_fails", "on_operation", "read_fails")

    def __init__(self) -> None:
        #: How much can still be appended; an append that is larger fails as a whole.
        self.bytes_until_full: int | None = None
        self.read_fails = False
        self.flush_fails = False
        #: Called with the name of an operation and the path before it is done; may raise.
        self.on_operation: Callable[[str, str], None] | None = None


class MemoryFile:
    """The content, and how much of it was flushed."""

    __slots__ = ("_content", "_faults", "_shared", "_synced_size", "modified_ms", "path", "size")

    def __init__(self, path: str, faults: Faults, content: bytearray, synced_size: int = 0) -> None:
        self.path = path
        self.size = len(content)
        self.modified_ms = _CLOCK.now_ms()
        #: The content has, or had, a second name, and must not be changed in place.
        self._shared = False
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
        if self._shared:
            self.unshare()
        self._content += data
        self.size = len(self._content)
        self.modified_ms = _CLOCK.now_ms()

    def read(self, position: int, size: int) -> bytes:
        if self._faults.read_fails:
            raise _input_output_error(self.path)
        with memoryview(self._content) as view:
            return bytes(view[position : position + size])

    def truncate(self, size: int) -> None:
        if self._shared and size < self.size:
            self.unshare()
        del self._content[size:]
        self.size = len(self._content)
        self._synced_size = min(self._synced_size, self.size)

    def unshare(self) -> None:
        if self._shared:
            self._content = bytearray(self._content)
            self._shared = False

    def link(self, path: str) -> "MemoryFile":
        self._shared = True
        linked = MemoryFile(path, self._faults, self._content, self._synced_size)
        linked._shared = True
        return linked

    def first_bytes(self, size: int) -> bytearray:
        """Atomic under the interpreter's lock: another thread may be appending."""
        return self._content[:size]

    def flush(self) -> None:
        if self._faults.on_operation is not None:
            self._faults.on_operation("flush", self.path)
        if self._faults.flush_fails:
            raise _input_output_error(self.path)
        self._synced_size = len(self._content)

    def close(self) -> None:
        """Nothing to do: the memory is freed with the last reference."""

    def copy(self, faults: Faults, left: "Remains") -> "MemoryFile":
        content = left(bytes(self._content), self._synced_size)
        return MemoryFile(self.path, faults, bytearray(content), self._synced_size)


class MemoryLock:
    def __init__(self, locked: set[str], path: str) -> None:
        if path in locked:
            directory = path.rpartition("/")[0]
            raise DirectoryInUseError(f"data directory {directory} is in use by this process")
        locked.add(path)
        self._locked = locked
        self._path = path

    def release(self) -> None:
        self._locked.discard(self._path)


class MemoryFiles:
    """A disk that is a dictionary of directories, each a dictionary of files."""

    def __init__(self) -> None:
        self.faults = Faults()
        self._directories: dict[str, dict[str, MemoryFile]] = {"": {}, "/": {}}
        self._durable_names: dict[str, dict[str, MemoryFile]] = {}
        self._changes: dict[str, list[tuple[str, MemoryFile | None, str]]] = {}
        self._locks: set[str] = set()
        self._unique = 0

    def after_power_cut(
        self,
        left: Remains = lambda content, synced: content[:synced],
        *,
        lose_name: Callable[[], bool] = lambda: False,
    ) -> "MemoryFiles":
        """The disk after a power cut: every file without its unflushed tail, or with what ``left`` leaves of
        it.

        ``lose_name`` is called for each change of a name since its directory was flushed.
        """
        return self._copy(left, lose_name)

    def after_kill(self) -> "MemoryFiles":
        """The disk after the process was killed: everything that was written is there."""
        return self._copy(lambda content, synced: content, lambda: False)

    def _copy(self, left: Remains, lose_name: Callable[[], bool]) -> "MemoryFiles":
        after = MemoryFiles()
        after._unique = self._unique + 1
        for path in self._directories:
            names = dict(self._durable_names.get(path, {}))
            for change in self._changes.get(path, ()):
                if not lose_name():
                    _change_name(names, *change)
            copies = {name: file.copy(after.faults, left) for name, file in names.items()}
            after._directories[path] = copies
            after._durable_names[path] = dict(copies)
        return after

    def _name(self, path: str, file: MemoryFile | None, old_path: str = "") -> None:
        """Changes a name: gives it to a file, possibly instead of an old name, or removes it."""
        parent, _, name = path.rpartition("/")
        change = name, file, old_path.rpartition("/")[2]
        _change_name(self._directories[parent], *change)
        self._changes.setdefault(parent, []).append(change)

    def _names_are_durable(self, path: str) -> None:
        self._durable_names[path] = dict(self._directories[path])
        self._changes.pop(path, None)

    def _operation(self, name: str, path: str) -> None:
        if self.faults.on_operation is not None:
            self.faults.on_operation(name, path)

    def _split(self, path: str) -> tuple[dict[str, MemoryFile], str]:
        """The files of a path's directory, and the name of the path in it."""
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
        self._split(path)
        self._operation("create", path)
        file = MemoryFile(path, self.faults, bytearray())
        self._name(path, file)
        return file

    def exists(self, path: str) -> bool:
        parent, _, name = path.rpartition("/")
        return path in self._directories or name in self._directories.get(parent, ())

    def size_of(self, path: str) -> int:
        return self.open(path).size

    def _children(self, path: str) -> list[str]:
        inside = f"{path}/"
        return [
            name for name in list(self._directories) if name.startswith(inside)
        ]  # another thread may be adding

    def modified_ms(self, path: str) -> int:
        return self.open(path).modified_ms

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
                moved = target + path[len(source) :]
                self._directories[moved] = self._directories.pop(path)
                self._durable_names[moved] = self._durable_names.pop(path, {})
                self._changes[moved] = self._changes.pop(path, [])
            return
        file = self.open(source)
        self._split(target)
        file.path = target
        if source.rpartition("/")[0] == target.rpartition("/")[0]:
            self._name(target, file, source)
        else:
            self._name(source, None)
            self._name(target, file)

    def link(self, source: str, target: str) -> None:
        file = self.open(source)
        self._operation("link", target)
        files, name = self._split(target)
        if name in files:
            raise FileExistsError(errno.EEXIST, "File exists", target)
        self._name(target, file.link(target))

    def copy(self, source: "File", size: int, target: str) -> None:
        assert isinstance(source, MemoryFile)
        files, name = self._split(target)
        if name in files:
            raise FileExistsError(errno.EEXIST, "File exists", target)
        self.create(target).append(source.first_bytes(size))

    def remove(self, path: str) -> None:
        self._operation("remove", path)
        self.open(path)
        self._name(path, None)

    def remove_tree(self, path: str) -> None:
        self._operation("remove_tree", path)
        if path not in self._directories:
            raise _missing(path)
        for name in [path, *self._children(path)]:
            del self._directories[name]
            self._durable_names.pop(name, None)
            self._changes.pop(name, None)

    def read_whole(self, path: str) -> bytes:
        file = self.open(path)
        return file.read(0, file.size)

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self._split(path)
        self._operation("write_atomically", path)
        file = MemoryFile(path, self.faults, bytearray())
        file.append(data)
        if sync:
            file.flush()
        self._name(path, file)
        if sync:
            self._names_are_durable(path.rpartition("/")[0])

    def flush_directory(self, path: str) -> None:
        self._operation("flush_directory", path)
        if path not in self._directories:
            raise _missing(path)
        if self.faults.flush_fails:
            raise _input_output_error(path)
        self._names_are_durable(path)

    def lock(self, path: str) -> MemoryLock:
        return MemoryLock(self._locks, path)

    def free_bytes(self, path: str) -> int:
        return 1 << 40 if self.faults.bytes_until_full is None else self.faults.bytes_until_full

    def total_bytes(self, path: str) -> int:
        return 1 << 40

    def unique_hex(self) -> str:
        self._unique += 1
        return f"{self._unique:032x}"


def _change_name(names: dict[str, MemoryFile], name: str, file: MemoryFile | None, old_name: str) -> None:
    """Applies one change of a name in one directory, which is atomic."""
    if file is None:
        names.pop(name, None)
    elif not old_name:
        names[name] = file
    elif old_name in names:
        names[name] = names.pop(old_name)


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "No such file or directory", path)


def _input_output_error(path: str) -> OSError:
    return OSError(errno.EIO, "Input/output error", path)
