"""How much memory this machine has for the demo, and what that means for Spark.

Spark's JVM needs some 600 MB beside its heap, and the other processes about as much together.
"""

import os
from pathlib import Path

_GIB = 1 << 30
#: From this much on the demo runs as it is meant to.
COMFORTABLE_BYTES = 3 * _GIB
#: With less than this the kernel is likely to end one of the processes.
LEAST_BYTES = 3 * _GIB // 2
#: The largest amount of memory of the container that this process is in: cgroup 2, then 1.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def memory_bytes(limits: tuple[Path, ...] = _LIMITS) -> int | None:
    """The memory of the machine, or of the container if that is less; None where it is not known."""
    known = []
    try:
        known.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return None
    for path in limits:
        try:
            known.append(int(path.read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return min(known)


def spark_heap(memory: int | None) -> str:
    """The heap of Spark's JVM."""
    return "1g" if memory is None or memory >= COMFORTABLE_BYTES else "512m"


def memory_note(memory: int | None) -> str | None:
    """What to tell whoever starts the demo on a small machine; None where there is memory enough."""
    if memory is None or memory >= COMFORTABLE_BYTES:
        return None
    found = f"This machine has {memory / _GIB:.1f} GiB of memory"
    if memory < LEAST_BYTES:
        return (
            f"{found}, and the demo needs about 2: it may be ended by the system. Without Spark "
            "'moldau up' needs 200 MB"
        )
    return f"{found}: Spark gets a heap of 512 MB, and its first results take longer"
