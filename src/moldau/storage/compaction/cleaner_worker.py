"""Who does the work of a compaction: the calling thread, or a process of its own.

A process takes no time from the threads that serve clients, with which it would share the interpreter; it
needs a real disk. Files in memory are compacted by a thread.

Invariant: one compaction at a time. ``stop`` may be called from any thread at any moment; the caller then
discards what was written.
"""

import contextlib
import struct
import subprocess
import sys
from typing import IO, Any, Protocol

from moldau.base.clock import Clock
from moldau.storage.compaction.cleaning import (
    Cleaning,
    CleaningAbortedError,
    CleaningPlan,
    CleaningStep,
    Throttler,
)
from moldau.storage.errors import CorruptLogError, StorageError
from moldau.storage.files import Files

_LENGTH = struct.Struct(">I")


class Worker(Protocol):
    def begin(self, plan: CleaningPlan) -> None:
        """Begins a new compaction."""
        ...

    def step(self) -> CleaningStep:
        """Does the next step; OSError, StorageError or CleaningAbortedError when it fails."""
        ...

    def stop(self) -> None:
        """Ends a running step; the worker is not used after this."""
        ...


class ThreadWorker:
    """Works in the thread that calls it."""

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self._throttler = Throttler(clock)
        self._cleaning: Cleaning | None = None

    def begin(self, plan: CleaningPlan) -> None:
        self._cleaning = Cleaning(self._files, plan, self._throttler)

    def step(self) -> CleaningStep:
        assert self._cleaning is not None
        step = self._cleaning.step()
        if step.group is None:
            self._cleaning = None  # frees the memory of its keys
        return step

    def stop(self) -> None:
        self._throttler.stop()


class ProcessWorker:
    """Hands the work to a process, which is started with the first plan."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def begin(self, plan: CleaningPlan) -> None:
        if self._stopped:
            raise CleaningAbortedError
        if self._process is None:
            command = [sys.executable, "-m", "moldau.storage.compaction.cleaner_process"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            if self._stopped:  # while it was being started
                self.stop()
        self._ask(plan)

    def step(self) -> CleaningStep:
        answer = self._ask(None)
        assert isinstance(answer, CleaningStep)
        return answer

    def _ask(self, request: CleaningPlan | None) -> CleaningStep | None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            send(process.stdin, request)
            answer = receive(process.stdout)
        except (BrokenPipeError, EOFError, ValueError):
            if self._stopped:  # the pipes may be closed by now
                raise CleaningAbortedError from None
            raise StorageError(f"the process of the compaction ended with {process.wait()}") from None
        if isinstance(answer, tuple) and not isinstance(answer, CleaningStep):
            raise _failure(answer)
        if not isinstance(answer, CleaningStep | None):
            raise StorageError(f"the process of the compaction answered {answer!r}")
        return answer

    def stop(self) -> None:
        self._stopped = True
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    _close(pipe)


# Messages between the two processes ------------------------------------------------------------------------


def send(pipe: IO[bytes], message: object) -> None:
    import pickle

    content = pickle.dumps(message)
    pipe.write(_LENGTH.pack(len(content)) + content)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """The next message; EOFError when the other process is gone."""
    import pickle

    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (size,) = _LENGTH.unpack(head)
    content = pipe.read(size)
    if len(content) < size:
        raise EOFError
    return pickle.loads(content)


def failure_message(error: Exception) -> tuple[object, ...]:
    """An error as plain values, which ``_failure`` turns into an error again."""
    if isinstance(error, CorruptLogError):
        return "corrupt", error.path, error.position, error.offset, error.reason
    if isinstance(error, OSError):
        return "os", error.errno, error.strerror, error.filename
    return "failed", f"{type(error).__name__}: {error}"


def _failure(message: tuple[Any, ...]) -> Exception:
    kind, *fields = message
    if kind == "corrupt":
        return CorruptLogError(*fields)
    return OSError(*fields) if kind == "os" else StorageError(*fields)


def _close(pipe: IO[bytes]) -> None:
    with contextlib.suppress(BrokenPipeError):
        pipe.close()
