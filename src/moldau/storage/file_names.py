"""What the files of a partition are called.

Invariant: Kafka's names: twenty digits of the first offset and a suffix that tells the kind.
"""

from collections.abc import Iterable

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def snapshot_path(directory: str, offset: int) -> str:
    """The file with the producer state as of ``offset``."""
    return f"{directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """The offsets of the snapshots among the names of files."""
    offsets = (name.removesuffix(SNAPSHOT_SUFFIX) for name in names if name.endswith(SNAPSHOT_SUFFIX))
    return [int(offset) for offset in offsets if offset.isdecimal()]
