"""A child process that answers one question after the other and may be ended at any time.

    worker = WorkerProcess("moldau.schemas.protoc_worker")
    answer = worker.ask(question, timeout_ms)      # None: it took too long, or died

The child is a module that calls ``serve``. It is started when it is needed first and kept, as starting one
costs more than most questions; one that was ended is followed by another. Questions and answers are frames: a
length, and that many bytes.

Invariant: a question that takes longer than its time ends with the child, and never holds up another process
that was forked from this one. The time counts from when the child is ready.
"""

import contextlib
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO

_LENGTH = struct.Struct(">I")
#: What a child may answer at most.
_MAX_ANSWER = 256 * 1024 * 1024
#: A child whose parent died in the middle of a question ends by itself.
_LONGEST_SECONDS = 60
#: How long a child may take to start, which is a matter of the machine and not of the question.
_START_TIMEOUT_MS = 60_000


class WorkerProcess:
    """One child and the lock that keeps its questions and answers in step."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def ask(self, question: bytes, timeout_ms: int) -> bytes | None:
        with self._lock:
            process = self._started()
            answer = None if process is None else _in_time(process, question, timeout_ms)
            if answer is None:
                self.close()
            return answer

    def _started(self) -> "subprocess.Popen[bytes] | None":
        if self._owner != os.getpid():
            # Forked, as Spark's workers are: the other process goes on to use its own.
            self._process, self._owner = None, os.getpid()
        if self._process is None or self._process.poll() is not None:
            self.close()
            command = [sys.executable, "-m", self._module]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            if _in_time(self._process, b"", _START_TIMEOUT_MS) is None:
                return None
        return self._process

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    # What was still to be written to a dead child is of no use to anyone.
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()


def _in_time(process: "subprocess.Popen[bytes]", question: bytes, timeout_ms: int) -> bytes | None:
    assert process.stdin is not None
    assert process.stdout is not None
    timer = threading.Timer(timeout_ms / 1000, process.kill)
    timer.daemon = True
    timer.start()
    try:
        _write(process.stdin, question)
        return _read(process.stdout)
    except BrokenPipeError:
        return None
    finally:
        timer.cancel()


def _write(stream: IO[bytes], frame: bytes) -> None:
    stream.write(_LENGTH.pack(len(frame)) + frame)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes | None:
    """The next frame; None where the other side ended before its end."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > _MAX_ANSWER:
        return None
    frame = stream.read(length)
    return frame if len(frame) == length else None


def serve(answer: Callable[[bytes], bytes]) -> None:
    """The child's side: answers until its parent hangs up. An empty question asks whether it is ready."""
    while (question := _read(sys.stdin.buffer)) is not None:
        signal.alarm(_LONGEST_SECONDS)
        found = answer(question) if question else b""
        signal.alarm(0)
        _write(sys.stdout.buffer, found)
