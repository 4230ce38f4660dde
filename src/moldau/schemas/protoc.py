"""The one place that runs protoc: text in, FileDescriptorSet out, in a process that may die without harm.

The worker is started when it is needed first and kept, as starting one costs more than most compilations. A
compilation that takes longer than its time is ended with the worker; the next one gets a new worker.
Invariant: no name of a file leads out of the worker's own directory.
"""

import atexit
import base64
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib.util import find_spec

from moldau.schemas.limits import InvalidSchema

TIMEOUT_MS = 10_000
_MAX_ANSWER = 64 * 1024 * 1024
_SEGMENT = re.compile(r"[A-Za-z0-9_.@+-]{1,200}\Z")


class DoesNotCompile(InvalidSchema):
    """With what the compiler complains about."""

    def __init__(self, complaints: str) -> None:
        super().__init__(f"Invalid Protobuf schema: {complaints}")
        self.complaints = complaints


def check_file_name(name: str) -> str:
    """Import names become paths: only plain relative ones are taken."""
    parts = name.split("/")
    if (
        len(name) > 1000
        or len(parts) > 50
        or any(part in ("", ".", "..") or not _SEGMENT.match(part) for part in parts)
    ):
        raise InvalidSchema(f"{name[:200]!r} is not a usable name of an import")
    return name


class _Worker:
    """One child process and the lock that keeps its questions and answers in step."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def ask(self, question: bytes, timeout_ms: int) -> bytes:
        """The answer as a line; anything that does not end a line came from a worker that died or was
        ended.
        """
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            timer = threading.Timer(timeout_ms / 1000, process.kill)
            timer.start()
            try:
                process.stdin.write(question)
                process.stdin.flush()
                answer = process.stdout.readline(_MAX_ANSWER)
            except BrokenPipeError:
                answer = b""
            finally:
                timer.cancel()
            if not answer.endswith(b"\n"):
                self.close()
            return answer

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._owner != os.getpid():
            # Forked, as Spark's workers are: the other process goes on to use its own.
            self._process, self._owner = None, os.getpid()
        if self._process is None or self._process.poll() is not None:
            self.close()
            command = [sys.executable, "-m", "moldau.schemas.protoc_worker"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        return self._process

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    # What was still to be written to a dead worker is of no use to anyone.
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()


_worker = _Worker()
atexit.register(_worker.close)


def compile_proto(files: Mapping[str, str], main: str, timeout_ms: int = TIMEOUT_MS) -> bytes:
    """A serialized FileDescriptorSet: ``main`` last, everything that it imports before it."""
    if find_spec("grpc_tools") is None:
        raise InvalidSchema(
            "Protobuf needs the compiler of the package grpcio-tools: pip install 'moldau[registry]' or "
            "'moldau[spark]'"
        )
    for name in files:
        check_file_name(name)
    question = json.dumps({"files": dict(files), "main": main}).encode() + b"\n"
    answer = _worker.ask(question, timeout_ms)
    if not answer.endswith(b"\n"):
        raise InvalidSchema("The schema could not be compiled in time")
    reply = json.loads(answer)
    if "error" in reply:
        raise DoesNotCompile(reply["error"])
    return base64.b64decode(reply["set"])
