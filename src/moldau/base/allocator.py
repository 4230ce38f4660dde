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
#: How often we ask how many old ones there are.
_LOOK_SECONDS = 1.0
#: So many are worth a pass, of about two milliseconds; fewer wait for the next minute.
_WORTH_A_PASS = 20_000
_LOOKS_BETWEEN_PASSES = 60
#: A pass over more takes longer than a loop may be kept: they get a minute to go by themselves. Already to
#: count them takes a while.
_MOST_IN_A_PASS = 200_000
_LOOKS_BETWEEN_POSTPONED = 10
_MOST_POSTPONED = 6
#: A pass over everything takes a third of a microsecond for each object: it is worth it where so many were
#: set aside since the last one, and so many pieces of memory, some 50 MB, are in use that were not then.
_SET_ASIDE_AT_LEAST = 200_000
_GROWN_AT_LEAST = 500_000
#: In use all the time through so many looks: what large requests need while they are worked on is no growth.
_LOOKS_OF_GROWTH = 60


def collect_rarely() -> None:
    """To be called once a service has started: what exists now stays, and need not be looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


class ShortCollections:
    """Garbage is collected in passes of bounded length: an event loop waits for each of them.

    Python looks at young objects by itself, a few at a time, and we look at the old ones as soon as they are
    many. What survived that is set aside, so that the next pass is about newer ones only: it is freed when
    nobody refers to it, as always, but a cycle among it is not found any more. When as many were set aside as
    survived the last pass over everything, and twice as much memory has been in use for a minute, there is
    another: most of what was set aside is freed without one, and the event loop waits for each.
    """

    __slots__ = (
        "_blocks",
        "_fewest",
        "_looks",
        "_postponed",
        "_set_aside",
        "_since_pass",
        "_survivors",
    )

    def __init__(self) -> None:
        self._looks = 0
        #: Looks since the last pass, and those that found too many for one.
        self._since_pass = 0
        self._postponed = 0
        #: How many survived the last pass over everything, and how many were set aside since.
        self._survivors = 0
        self._set_aside = 0
        #: Pieces of memory in use after the last pass over everything.
        self._blocks = 0
        #: The fewest that were in use since the window of looks began, and in the window before.
        self._fewest = (0, 0)

    def start(self, every: Callable[[float, Callable[[], None]], object]) -> None:
        """Once the service has started: what exists now stays; ``every`` calls a function periodically."""
        gc.set_threshold(_YOUNG_AT_ONCE, _YOUNG_TIMES, _NEVER)
        self._pass_over_everything()
        every(_LOOK_SECONDS, self.look)

    def look(self) -> None:
        self._looks += 1
        self._since_pass += 1
        self._note_use()
        is_due = self._since_pass >= _LOOKS_BETWEEN_PASSES
        if not is_due and gc.get_count()[2] == 0:  # none has become old
            return
        if self._postponed and self._looks % _LOOKS_BETWEEN_POSTPONED:
            return
        old = len(gc.get_objects(generation=2))
        if old > _MOST_IN_A_PASS:
            self._postponed += 1
            if self._postponed > _MOST_POSTPONED:
                self._set_old_aside(old)
        elif is_due or old >= _WORTH_A_PASS:
            if self._set_aside + old > max(_SET_ASIDE_AT_LEAST, self._survivors) and self._has_grown():
                self._pass_over_everything()
            else:
                freed = gc.collect()
                self._set_old_aside(max(0, old - freed))

    def _note_use(self) -> None:
        used, (now, before) = sys.getallocatedblocks(), self._fewest
        self._fewest = (used, now) if self._looks % _LOOKS_OF_GROWTH == 0 else (min(used, now), before)

    def _has_grown(self) -> bool:
        return min(self._fewest) - self._blocks > max(_GROWN_AT_LEAST, self._blocks)

    def _set_old_aside(self, count: int) -> None:
        gc.freeze()
        self._set_aside += count
        self._since_pass = self._postponed = 0

    def _pass_over_everything(self) -> None:
        gc.unfreeze()
        gc.collect()
        self._set_old_aside(0)
        self._survivors, self._set_aside = gc.get_freeze_count(), 0
        self._blocks = sys.getallocatedblocks()
        self._fewest = (self._blocks, self._blocks)
