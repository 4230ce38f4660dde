"""Faults of data directories, for the person who runs the broker.

Each message names its file or directory, so that one line of the log is enough to act on.

Invariant: clients never get these errors, only ``KafkaError``.
"""

from moldau.base.descriptors import OUT_OF_DESCRIPTORS

#: What to do about a full disk.
MAKE_ROOM = "make room: delete topics or records, lower retention.ms, or remove other files"
#: The setting that accepts what is lost, for one start.
ACCEPT_LOST_FILES = "moldau.accept.lost.files"


def repair_steps(directory: str) -> str:
    """What to do about a damaged partition directory or data directory."""
    return (
        f"stop the broker, then 'moldau log verify {directory}' tells what is damaged and "
        f"'moldau log repair {directory} --dry-run' what can be mended"
    )


def next_step(error: Exception) -> str:
    """What to do about an error of the system that may pass."""
    if isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS:
        return "close connections, or raise the limit of open files (ulimit -n)"
    return MAKE_ROOM


class StorageError(Exception):
    """Something on disk is not as it should be."""


class DirectoryInUseError(StorageError):
    """Another process, or another broker in this process, has locked the data directory."""


class IdentityError(StorageError):
    """A data directory belongs to another cluster or another node."""


class LostFileError(StorageError):
    """A file is gone that others tell of; the message says what there is to do."""


class CorruptFileError(StorageError):
    """A small file (checkpoint, metadata, snapshot, index) has invalid content."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class CorruptLogError(StorageError):
    """Data that was flushed cannot be read any more; the partition must not be served."""

    def __init__(self, path: str, position: int, offset: int, reason: str) -> None:
        super().__init__(f"{path}: {reason} at position {position}, offset {offset}")
        self.path = path
        self.position = position
        self.offset = offset
        self.reason = reason
