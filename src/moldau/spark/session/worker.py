"""Makes Spark's Python workers quicker between tasks.

Spark's daemon collects all garbage of a worker after each task and each plan. With Arrow, numba and pandas
loaded that takes a tenth of a second every time, longer than a small micro-batch takes otherwise, and
nothing of it is garbage. Workers also invalidate all import caches before each task, because files may have
been added; PySpark itself is a zip file on their path, and Python then reads its whole directory again: 17
ms, several times for each query.

Invariant: only for processes that Spark has started; a user's own program is never touched. A zip file is
known by its size and modification time, and read again when either changes or cannot be looked at.
"""

import gc
import os
from weakref import WeakKeyDictionary
from zipimport import zipimporter

_read_directory = zipimporter.invalidate_caches
#: The size and modification time that a zip file had when its directory was last read.
_known: WeakKeyDictionary[zipimporter, tuple[int, int]] = WeakKeyDictionary()


def prepare_worker() -> None:
    """To be called at the beginning of a task or a plan, when what it needs is imported."""
    gc.freeze()  # everything that exists has just survived a collection
    zipimporter.invalidate_caches = _read_directory_if_changed  # type: ignore[method-assign, assignment]


def attempt_number() -> int:
    """Which attempt at its task this is: 0 is the first; others follow a failure, or run beside another."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


def _read_directory_if_changed(archive: zipimporter) -> None:
    try:
        found = os.stat(archive.archive)
    except OSError:
        _known.pop(archive, None)
        _read_directory(archive)
        return
    now = found.st_size, found.st_mtime_ns
    if _known.get(archive) != now:
        _read_directory(archive)
        _known[archive] = now
