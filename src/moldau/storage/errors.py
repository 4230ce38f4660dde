"""What can be wrong with a data directory, told to the person who runs the node.

Invariant: clients never see these; towards them a log answers ``KafkaError`` only. Each message names the
file or directory that it is about, so that a log line is enough to act on.
"""


def repair_steps(directory: str) -> str:
    """What a person does about damage in a partition's directory, or in a whole data directory."""
    return (
        f"stop the broker, then 'moldau log verify {directory}' tells what is damaged and "
        f"'moldau log repair {directory} --dry-run' what can be mended"
    )


class StorageError(Exception):
    """Something on disk is not as it should be."""


class DirectoryInUseError(StorageError):
    """Another process, or another node of this process, holds the data directory."""


class IdentityError(StorageError):
    """A data directory belongs to another cluster or another node."""


class CorruptFileError(StorageError):
    """A small file (checkpoint, metadata, snapshot) does not hold what its name promises."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class CorruptLogError(StorageError):
    """Data that was safely on disk cannot be read any more; the partition must not be served."""

    def __init__(self, path: str, position: int, offset: int, reason: str) -> None:
        super().__init__(f"{path}: {reason} at position {position}, offset {offset}")
        self.path = path
        self.position = position
        self.offset = offset
        self.reason = reason
