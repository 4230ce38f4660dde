"""The one place that runs protoc: text in, FileDescriptorSet out, in a process that may die without harm.

A compilation that takes longer than its time is ended with the process that it runs in
(``worker_process``). Invariant: no name of a file leads out of the worker's own directory.
"""

import atexit
import base64
import json
import re
from collections.abc import Mapping
from importlib.util import find_spec
from tempfile import TemporaryDirectory

from moldau.schemas.limits import InvalidSchema, NotInTime
from moldau.schemas.worker_process import WorkerProcess

#: What a schema compiles in takes milliseconds; comments within comments take minutes.
TIMEOUT_MS = 5_000
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


_worker = WorkerProcess("moldau.schemas.protoc_worker")
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
    with TemporaryDirectory(prefix="moldau-protoc-") as directory:
        question = {"files": dict(files), "main": main, "directory": directory}
        answer = _worker.ask(json.dumps(question).encode(), timeout_ms)
    if answer is None:
        raise NotInTime("The schema could not be compiled in time")
    reply = json.loads(answer)
    if "error" in reply:
        raise DoesNotCompile(reply["error"])
    return base64.b64decode(reply["set"])
