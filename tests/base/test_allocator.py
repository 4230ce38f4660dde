"""Freed buffers are used again: seen by the pages that the kernel has to provide."""

import subprocess
import sys

import pytest

FAULTS = """
import os, resource
from moldau.base.allocator import reuse_freed_memory
told = {told} and reuse_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
with open("/dev/zero", "rb") as file:
    def read():
        for _ in range(100):
            pieces = [os.read(file.fileno(), 512 * 1024) for _ in range(4)]
            del pieces
    read()
    before = faults()
    read()
    print(int(bool(told)), faults() - before)
"""


def faults(*, told: bool) -> tuple[bool, int]:
    run = subprocess.run([sys.executable, "-c", FAULTS.format(told=told)], capture_output=True, check=True)
    done, count = map(int, run.stdout.split())
    return bool(done), count


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the allocator of glibc")
def test_freed_buffers_are_used_again() -> None:
    done, count = faults(told=True)
    if not done:
        pytest.skip("another C library than glibc")
    assert count < 2_000  # of 51,200 pages
    assert faults(told=False)[1] > 5_000


def test_what_has_started_is_not_looked_at_again() -> None:
    code = (
        "import gc\n"
        "from moldau.base.allocator import collect_rarely\n"
        "collect_rarely()\n"
        "print(gc.get_freeze_count() > 0, gc.get_threshold())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert run.stdout.strip() == "True (50000, 20, 20)"
