"""The compiler in a process of its own; a program that forks gets one for each of its processes."""

import subprocess
import sys

import pytest

from moldau.schemas.protoc import DoesNotCompile, compile_proto


def test_complaints_are_the_compilers() -> None:
    with pytest.raises(DoesNotCompile, match=r"Invalid Protobuf schema: a.proto:1") as caught:
        compile_proto({"a.proto": "message {"}, "a.proto")
    assert caught.value.complaints.startswith("a.proto:1")


@pytest.mark.slow
def test_a_forked_process_has_a_compiler_of_its_own() -> None:
    code = """
import os
from moldau.schemas import protoc
files = {"a.proto": 'syntax = "proto3"; message A {}'}
before = protoc.compile_proto(files, "a.proto")
theirs = protoc._worker.pid
child = os.fork()
assert protoc.compile_proto(files, "a.proto") == before
assert (protoc._worker.pid == theirs) is (child != 0)
if child:
    assert os.waitpid(child, 0)[1] == 0
    assert protoc.compile_proto(files, "a.proto") == before
    assert protoc._worker.pid == theirs
else:
    protoc._worker.close()
    os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
