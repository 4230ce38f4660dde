"""Flushing a log: what has to be flushed, and a job that does it in another thread.

Invariant: the thread that owns the log makes a job and takes its result; ``run`` may be called in any
thread. An error of ``fsync`` is final: the kernel may have marked the lost pages as clean, so that a second
attempt would report success for data that is gone.
"""

import contextlib
import errno
from concurrent.futures import ThreadPoolExecutor

from moldau.base.descriptors import OUT_OF_DESCRIPTORS
from moldau.storage.files import File, Files

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
#: Errors that may pass; any other error of a write means that the disk is broken.
MAY_PASS = DISK_FULL | OUT_OF_DESCRIPTORS

#: Fewer jobs are not worth a pool of threads.
_MIN_PARALLEL_JOBS = 4
_THREADS = 16


class FlushJob:
    """Everything that has to be flushed before the recovery point may advance to ``offset``."""

    __slots__ = (
        "_contents",
        "_files",
        "_logs",
        "abandoned",
        "directories",
        "disk_full",
        "error",
        "offset",
        "paths",
    )

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
        #: The records are flushed, but the disk is too full for a small file that belongs to them.
        self.disk_full = False
        #: The log is out of use: its directory may be another's by now, with a topic of the same name.
        self.abandoned = False
        self._files = files
        self._logs = logs
        self.paths = paths
        self._contents = contents
        self.directories = directories

    def run(self) -> None:
        """Blocks until the disk is done; the outcome is in ``error``."""
        try:
            # A file that is gone was deleted meanwhile, with its segment or its partition.
            for file in self._logs:
                with contextlib.suppress(FileNotFoundError):
                    file.flush()
            for path in self.paths:
                with contextlib.suppress(FileNotFoundError):
                    self._files.open(path).flush()
            self._write_contents()
            for path in self.directories:
                with contextlib.suppress(FileNotFoundError):
                    self._files.flush_directory(path)
        except OSError as error:
            self.error = error

    @property
    def must_be_repeated(self) -> bool:
        """Something could not be opened for want of a descriptor: nothing is lost, nothing is known."""
        return self.error is not None and self.error.errno in OUT_OF_DESCRIPTORS

    def _write_contents(self) -> None:
        try:
            for path, content in self._contents.items():
                if self.abandoned:
                    return
                self._files.write_atomically(path, content)
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            self.disk_full = True


class FlushState:
    """How far a log is flushed, and what the next job has to flush beside the segments."""

    __slots__ = ("directories", "job", "paths", "recovery_point", "requested", "unflushed_since_ms")

    def __init__(self, recovery_point: int) -> None:
        #: Everything below it has been flushed.
        self.recovery_point = recovery_point
        #: When the first unflushed append was made; -1: there is none.
        self.unflushed_since_ms = -1
        #: Indexes and other small files, and directories with new names.
        self.paths: list[str] = []
        self.directories: list[str] = []
        #: A flush should begin soon, whatever flush.messages and flush.ms say.
        self.requested = False
        self.job: FlushJob | None = None

    def begin(
        self, files: Files, log_end_offset: int, logs: list[File], contents: dict[str, bytes]
    ) -> FlushJob:
        self.job = FlushJob(files, log_end_offset, logs, self.paths, contents, self.directories)
        self.paths = []
        self.directories = []
        self.requested = False
        self.unflushed_since_ms = -1
        return self.job

    def take_back(self) -> bool:
        """Gives up the job that was begun, if there is one: what it was to flush is due again.

        It may never have run, because a broker that stops cancels what waits for a thread; and it does not
        cover what was appended after it began.
        """
        job, self.job = self.job, None
        if job is None:
            return False
        self.paths = job.paths + self.paths
        self.directories = job.directories + self.directories
        self.requested = True
        return True

    def cut(self, offset: int) -> bool:
        """The log is about to end at ``offset``; whether something that was flushed goes.

        A job that is under way does not cover what comes in place of the rest.
        """
        if self.job is not None:
            self.job.offset = min(self.job.offset, offset)
        reaches_flushed = offset < self.recovery_point
        self.recovery_point = min(self.recovery_point, offset)
        return reaches_flushed

    def abandon(self) -> None:
        """The log is out of use; a job that is under way writes no more files by their names."""
        if self.job is not None:
            self.job.abandoned = True

    def finish(self, job: FlushJob, log_end_offset: int) -> None:
        if job is self.job:
            self.job = None
        if job.error is None and not job.disk_full:
            # The log may have been truncated while the job ran.
            self.recovery_point = max(self.recovery_point, min(job.offset, log_end_offset))
        if job.must_be_repeated:
            self.paths += job.paths
            self.directories += job.directories
            self.requested = True


def run_in_parallel(jobs: list[FlushJob]) -> None:
    """Runs jobs in parallel: a file system flushes many files in little more time than one."""
    if len(jobs) < _MIN_PARALLEL_JOBS:
        for job in jobs:
            job.run()
        return
    with ThreadPoolExecutor(_THREADS, "moldau-flush") as pool:
        list(pool.map(FlushJob.run, jobs))
