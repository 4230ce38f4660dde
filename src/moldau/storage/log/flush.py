"""Bringing what was appended onto the device without stopping the loop: decide, do elsewhere, take note.

Invariant: a job is made and taken note of by the thread that owns the log, and run by any thread. An error
of ``fsync`` is final: the pages that could not be written may be marked clean, so asking again would report
success for lost data.
"""

import contextlib
import errno
from concurrent.futures import ThreadPoolExecutor

from moldau.storage.files import File, Files

#: The disk is full, for now; everything else that a write can report means that the disk is broken.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

_FEW = 4
_THREADS = 16


class FlushJob:
    """Everything that has to be on the device before the recovery point may move to ``offset``."""

    __slots__ = ("_contents", "_directories", "_files", "_logs", "_paths", "error", "full", "offset")

    def __init__(
        self,
        files: Files,
        offset: int,
        logs: list[File],
        paths: list[str],
        contents: dict[str, bytes],
        directories: list[str],
    ) -> None:
        self.offset = offset
        self.error: OSError | None = None
        #: The records are on the device, but there was no room for a small file that belongs to them.
        self.full = False
        self._files = files
        self._logs = logs
        self._paths = paths
        self._contents = contents
        self._directories = directories

    def run(self) -> None:
        """Blocks for as long as the device takes; the outcome is in ``error``."""
        try:
            for file in self._logs:
                file.flush()
            for path in self._paths:
                # An index or snapshot that is gone by now went with its segment.
                with contextlib.suppress(FileNotFoundError):
                    self._files.open(path).flush()
            self._write_contents()
            for path in self._directories:
                with contextlib.suppress(FileNotFoundError):
                    self._files.flush_directory(path)
        except OSError as error:
            self.error = error

    def _write_contents(self) -> None:
        try:
            for path, content in self._contents.items():
                self._files.write_atomically(path, content)
        except OSError as error:
            if error.errno not in FULL:
                raise
            self.full = True


class FlushState:
    """What of a log is not on the device yet."""

    __slots__ = ("directories", "job", "paths", "recovery_point", "since_ms", "wanted")

    def __init__(self, recovery_point: int) -> None:
        #: Everything below is on the device.
        self.recovery_point = recovery_point
        #: When the first append came that is not; -1: none.
        self.since_ms = -1
        #: Files other than segments, and directories with new names, that go to the device with the next job.
        self.paths: list[str] = []
        self.directories: list[str] = []
        #: A flush should begin soon, whatever the topic's settings say.
        self.wanted = False
        self.job: FlushJob | None = None

    def begin(
        self, files: Files, log_end_offset: int, logs: list[File], contents: dict[str, bytes]
    ) -> FlushJob:
        self.job = FlushJob(files, log_end_offset, logs, self.paths, contents, self.directories)
        self.paths = []
        self.directories = []
        self.wanted = False
        self.since_ms = -1
        return self.job

    def finish(self, job: FlushJob, log_end_offset: int) -> None:
        if job is self.job:
            self.job = None
        if job.error is None and not job.full:
            # The log may have been cut while the job ran.
            self.recovery_point = max(self.recovery_point, min(job.offset, log_end_offset))


def run_in_parallel(jobs: list[FlushJob]) -> None:
    """Runs jobs side by side: a file system brings many files to the device in little more time than one."""
    if len(jobs) < _FEW:
        for job in jobs:
            job.run()
        return
    with ThreadPoolExecutor(_THREADS, "moldau-flush") as pool:
        list(pool.map(FlushJob.run, jobs))
