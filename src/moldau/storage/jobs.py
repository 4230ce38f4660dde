"""Work on files that may take its time: decided by the thread that owns the logs, run by any other.

Invariant: a job is given all it needs when it is made; running it touches files and the job itself, never a
log. What went wrong stands in ``error`` afterwards, for the owner to judge. Flushing has its own file.
"""

import contextlib
import logging

from moldau.base.names import TopicPartition
from moldau.storage.directory.log_directory import LogDirectory
from moldau.storage.file_names import DELETED_SUFFIX, snapshot_offsets, snapshot_path
from moldau.storage.files import Files
from moldau.storage.log.segment import Segment

logger = logging.getLogger("moldau.storage")


class CheckpointJob:
    """Checkpoint files of one directory. Of two jobs that meet, the one that was made later wins."""

    __slots__ = ("_contents", "_number", "directory", "error")

    def __init__(self, directory: LogDirectory, contents: dict[str, dict[TopicPartition, int]]) -> None:
        self.directory = directory
        self.error: OSError | None = None
        self._contents = contents
        self._number = directory.next_checkpoint()

    def run(self) -> None:
        try:
            for name, offsets in self._contents.items():
                self.directory.write_checkpoint(name, offsets, self._number)
        except OSError as error:
            self.error = error


class RemovalJob:
    """The files of one deleted partition."""

    __slots__ = ("_files", "path")

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self._files = files

    def run(self) -> None:
        try:
            self._files.remove_tree(self.path)
            logger.info("%s removed", self.path)
        except OSError as error:
            logger.error("%s cannot be removed: %s", self.path, error)


class FileRemovalJob:
    """Files of segments that were dropped, once nobody can be reading them by name any more."""

    __slots__ = ("_files", "paths")

    def __init__(self, files: Files, paths: list[str]) -> None:
        self.paths = paths
        self._files = files

    def run(self) -> None:
        for path in self.paths:
            try:
                # What is gone went with its partition.
                with contextlib.suppress(FileNotFoundError):
                    self._files.remove(path)
            except OSError as error:
                logger.error("%s cannot be removed: %s", path, error)


class DropJob:
    """Segments that a log has let go: their files are renamed, oldest first, and are removed later.

    The order and the sync of the directory make sure that a power cut leaves no hole in the log.
    """

    __slots__ = ("_directory", "_files", "_first_offset", "error", "left", "paths")

    def __init__(self, files: Files, directory: str, segments: list[Segment], first_offset: int) -> None:
        #: What is still to be renamed, the oldest last.
        self.left = segments[::-1]
        #: What is to be removed.
        self.paths: list[str] = []
        self.error: OSError | None = None
        self._files = files
        self._directory = directory
        self._first_offset = first_offset

    def run(self) -> None:
        try:
            while self.left:
                self.paths += self.left[-1].rename_to(DELETED_SUFFIX)
                self.left.pop()
            known = snapshot_offsets(self._files.list_directory(self._directory))
            old = (offset for offset in known if offset < self._first_offset)
            self.paths += (snapshot_path(self._directory, offset) for offset in old)
            self._files.flush_directory(self._directory)
        except FileNotFoundError:
            self.left = []  # the partition was deleted meanwhile
        except OSError as error:
            self.error = error
