"""Work on files that another thread can do: checkpoints, and the removal of files.

The thread that owns the logs makes a job and takes its result; ``run`` may be called in any thread.
Flushing is in ``log/flush``.

Invariant: ``run`` touches files and the job itself, never a log. What went wrong is in ``error``.
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
    """Writes checkpoint files of one data directory. Of two jobs at a time, the one made later wins."""

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
    """Removes the directory of a deleted partition."""

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
    """Removes the files of deleted segments, after file.delete.delay.ms."""

    __slots__ = ("_files", "paths")

    def __init__(self, files: Files, paths: list[str]) -> None:
        self.paths = paths
        self._files = files

    def run(self) -> None:
        for path in self.paths:
            try:
                # A file that is gone was removed with its partition.
                with contextlib.suppress(FileNotFoundError):
                    self._files.remove(path)
            except OSError as error:
                logger.error("%s cannot be removed: %s", path, error)


class DropJob:
    """Renames the files of segments that were deleted from a log, oldest first; they are removed later.

    Because of the order and of the flush of the directory, a power cut leaves no gap in the log.
    """

    __slots__ = ("_directory", "_files", "_first_offset", "error", "left", "paths")

    def __init__(self, files: Files, directory: str, segments: list[Segment], first_offset: int) -> None:
        #: Segments still to be renamed, the oldest last.
        self.left = segments[::-1]
        #: Files to be removed later.
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
