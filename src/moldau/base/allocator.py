"""How memory is used again: by the C library's allocator and by Python's garbage collector.

A fetch reads half a megabyte at a time into memory that it gives back a moment later. glibc maps fresh pages
for each such piece and returns them to the system at once, so the kernel has to clear every page again: about
half of the CPU time of a fetch (``benchmarks/request_path.py``). With the thresholds below freed pieces are
used again.
"""

import gc
import sys

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


def collect_rarely() -> None:
    """To be called once a service has started: what exists now stays, and need not be looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
