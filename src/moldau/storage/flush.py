"""Bringing what was appended onto the device without stopping the loop: decide, do elsewhere, take note.

Law: a job is made and taken note of by the loop thread and run by any thread. An error of ``fsync`` is final:
the pages that could not be written may be marked clean, so asking again would report success for lost data.
"""

import contextlib

from moldau.storage.files import File, Files


class FlushJob:
    """Everything that has to be on the device before the recovery point may move to ``offset``."""

    __slots__ = ("_directory", "_files", "_logs", "_paths", "error", "offset")

    def __init__(self, files: Files, directory: str, offset: int, logs: list[File], paths: list[str]) -> None:
        self.offset = offset
        self.error: OSError | None = None
        self._files = files
        self._directory = directory
        self._logs = logs
        self._paths = paths

    def run(self) -> None:
        """Blocks for as long as the device takes; the outcome is in ``error``."""
        try:
            for file in self._logs:
                file.flush()
            for path in self._paths:
                # An index or snapshot that is gone by now went with its segment.
                with contextlib.suppress(FileNotFoundError):
                    self._files.open(path).flush()
            if self._paths:
                with contextlib.suppress(FileNotFoundError):
                    self._files.flush_directory(self._directory)
        except OSError as error:
            self.error = error
