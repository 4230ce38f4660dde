"""How memory is used again: by the C library's allocator and by Python's garbage collector.

A fetch reads half a megabyte at a time into memory that it gives back a moment later. glibc maps fresh pages
for each such piece and returns them to the system at once, so the kernel has to clear every page again: about
half of the CPU time of a fetch (``benchmarks/request_path.py``). With the thresholds below freed pieces are
used again.
"""

import gc
import sys
from collections.abc import Callable

#: Of glibc's <malloc.h>.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3

#: Pieces up to this size come from memory that was freed before.
_REUSED_BYTES = 8 * 1024 * 1024
#: More than this at the end of the heap goes back to the system.
_KEPT_BYTES = 4 * 1024 * 1024


def reuse_freed_memory() -> bool:
    """Tells the allocator, where it is glibc's; False elsewhere, which costs only time."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    except (ImportError, OSError):  # not even a file descriptor is left for the import
        return False
    if mallopt is None:  # another C library
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _REUSED_BYTES) and mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES))


#: Survivors of young generations are at most so many: a look at them takes milliseconds.
_YOUNG_AT_ONCE = 5_000
_YOUNG_TIMES = 5
#: Python itself never looks at the old ones: how long that takes depends on how many there are.
_NEVER = 1_000_000_000
#: A look at so many old objects takes no longer than one at the young ones.
_OLD_AT_ONCE = 30_000
#: How often we look at the old ones.
_OLD_SECONDS = 60.0
#: Old objects that were too many so often belong to what is there for good.
_POSTPONED_MOST = 60


def collect_rarely() -> None:
    """To be called once a service has started: what exists now stays, and need not be looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


class ShortCollections:
    """Garbage is collected in passes of bounded length: an event loop waits for each of them.

    Python looks at young objects by itself, a few at a time; we look at the old ones every minute. While
    there are many, that is postponed, and after an hour of it they are taken to be there for good: they are
    freed like all others when nobody refers to them, but a cycle among them is not found any more.
    """

    __slots__ = ("_old_at_once", "_postponed")

    def __init__(self, old_at_once: int = _OLD_AT_ONCE) -> None:
        self._old_at_once = old_at_once
        self._postponed = 0

    def start(self, every: Callable[[float, Callable[[], None]], object]) -> None:
        """Once the service has started: what exists now stays; ``every`` calls a function periodically."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(_YOUNG_AT_ONCE, _YOUNG_TIMES, _NEVER)
        every(_OLD_SECONDS, self.look_at_old)

    def look_at_old(self) -> None:
        if len(gc.get_objects(generation=2)) <= self._old_at_once:
            gc.collect()
            self._postponed = 0
            return
        self._postponed += 1
        if self._postponed >= _POSTPONED_MOST:
            gc.freeze()
            self._postponed = 0
