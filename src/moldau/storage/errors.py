"""Faults of data directories, for the person who runs the broker.

Each message names its file or directory, so that one line of the log is enough to act on.

Invariant: clients never get these errors, only ``KafkaError``.
"""


def repair_steps(directory: str) -> str:
    """What to do about a damaged partition directory or data directory."""
    return (
        f"stop the broker, then 'moldau log verify {directory}' tells what is damaged and "
        f"'moldau log repair {directory} --dry-run' what can be mended"
    )


class StorageError(Exception):
    """Something on disk is not as it should be."""


class DirectoryInUseError(StorageError):
    """Another process, or another broker in this process, has locked the data directory."""


class IdentityError(StorageError):
    """A data directory belongs to another cluster or another node."""


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
