"""Which files of logs have a descriptor at the moment: as many as there is room for, the others none.

A file that is out of room loses its descriptor and opens itself again when it is next used; which one, is
decided by a clock hand that spares those that were used since it last came by. So the number of partitions
does not depend on the number of descriptors, and a log that is in use keeps its file open.

Invariant: a descriptor is closed with the last reference to it. A thread that passes one to the system has
such a reference until the call returns, so no descriptor is closed, and its number given to another file,
under a call that another thread is making.
"""

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from moldau.base.descriptors import OUT_OF_DESCRIPTORS, descriptor_limit, share_descriptors

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: What a file without a descriptor has instead of one.
NO_DESCRIPTOR = -1

#: At least so many files make room when the system has no descriptor left.
_CLOSED_AT_ONCE = 8


class Descriptor(int):
    """The number of an open file, which is closed with the last reference."""

    __slots__ = ()

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self)


class ReopenableFile(Protocol):
    """A file that can do without its descriptor for a while."""

    #: Set whenever the file is used.
    recently_used: bool

    def release_descriptor(self) -> None: ...


class OpenFiles:
    """The files that have a descriptor, those that got it last at the end; may be used by any thread."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._files: OrderedDict[int, weakref.ref[ReopenableFile]] = OrderedDict()
        # Taken again by the same thread where the end of a file is noticed in the middle of something.
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._files)

    def open(self, path: str, flags: int) -> Descriptor:
        return Descriptor(self.attempt(os.open, path, flags | os.O_CLOEXEC, 0o644))

    def attempt(self, call: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs) -> _T:
        """Calls something that needs a descriptor; when there is none left, files of logs make room."""
        while True:
            try:
                return call(*arguments, **named)
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS or not self.make_room():
                    raise

    def admit(self, file: ReopenableFile) -> None:
        """The file has got a descriptor; another one loses its own where there are too many."""
        file.recently_used = True
        with self._lock:
            self._files[id(file)] = weakref.ref(file)
            while len(self._files) > max(self.capacity, 1):
                self._turn_hand()

    def forget(self, file: ReopenableFile) -> None:
        """The file has given its descriptor back."""
        with self._lock:
            self._files.pop(id(file), None)

    def make_room(self) -> int:
        """Takes the descriptors of the files that were opened first; returns of how many."""
        with self._lock:
            count = min(max(_CLOSED_AT_ONCE, len(self._files) // 4), len(self._files))
            for _ in range(count):
                _, reference = self._files.popitem(last=False)
                if (file := reference()) is not None:
                    file.release_descriptor()
            return count

    def _turn_hand(self) -> None:
        key, reference = self._files.popitem(last=False)
        file = reference()
        if file is None:
            return
        if file.recently_used:
            file.recently_used = False
            self._files[key] = reference
        else:
            file.release_descriptor()


#: One for the process, as the limit is one for the process.
OPEN_FILES = OpenFiles(share_descriptors(descriptor_limit()).log_files)
