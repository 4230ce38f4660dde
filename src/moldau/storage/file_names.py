"""The names of the files in a partition's directory.

Kafka's names: the base offset in twenty digits, and a suffix that tells the kind of file. A second suffix
marks a file that is not, or not yet, part of the log.
"""

from collections.abc import Iterable

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
#: The state of producers as of an offset.
SNAPSHOT_SUFFIX = ".snapshot"
INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

#: A segment that was deleted from the log; its files are removed after file.delete.delay.ms.
DELETED_SUFFIX = ".deleted"
#: A compacted segment that is still being written.
CLEANED_SUFFIX = ".cleaned"
#: A compacted segment that is complete and about to replace the segments that it was made from.
SWAP_SUFFIX = ".swap"
#: A small file that is being written, before it is renamed over the old one.
TEMPORARY_SUFFIX = ".tmp"
#: Data that recovery moved aside because it cannot follow what was truncated; kept for a person to look at.
STRAY_FILE_SUFFIX = ".stray"

_OFFSET_DIGITS = 20


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:0{_OFFSET_DIGITS}d}{suffix}"


def offset_of(name: str) -> int | None:
    """The offset at the beginning of a file's name; None when there is none."""
    number = name.split(".", 1)[0]
    return int(number) if len(number) == _OFFSET_DIGITS and number.isdecimal() else None


def snapshot_path(directory: str, offset: int) -> str:
    """The file with the state of producers as of ``offset``."""
    return f"{directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """The offsets of the snapshots among these file names."""
    offsets = (name.removesuffix(SNAPSHOT_SUFFIX) for name in names if name.endswith(SNAPSHOT_SUFFIX))
    return [int(offset) for offset in offsets if offset.isdecimal()]
