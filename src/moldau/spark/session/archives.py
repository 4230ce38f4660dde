"""Archives on the path of modules are read again only when they have changed.

Spark's workers forget what they know of modules before each task and each plan, as files may have been added.
PySpark itself is a zip on their path, and Python then reads its whole directory again: 17 ms, several times
for each query, and longer than all else that a small task does.

Invariant: only for processes that Spark has started. An archive is known by its size and its time of
change; what cannot be looked at is read as ever.
"""

import os
from weakref import WeakKeyDictionary
from zipimport import zipimporter

_read_all = zipimporter.invalidate_caches
#: The size and the time of change that an archive had when it was last read.
_known: WeakKeyDictionary[zipimporter, tuple[int, int]] = WeakKeyDictionary()


def know_archives() -> None:
    """From now on; the next time, everything is read once more."""
    zipimporter.invalidate_caches = _read_if_changed  # type: ignore[method-assign, assignment]


def _read_if_changed(archive: zipimporter) -> None:
    try:
        found = os.stat(archive.archive)
    except OSError:
        _known.pop(archive, None)
        _read_all(archive)
        return
    now = found.st_size, found.st_mtime_ns
    if _known.get(archive) != now:
        _read_all(archive)
        _known[archive] = now
