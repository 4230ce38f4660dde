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


PASSES = """
import gc
from moldau.base.allocator import ShortCollections
every = []
collections = ShortCollections(old_at_once=1_000)
collections.start(lambda seconds, look: every.append(look))
print(gc.get_freeze_count() > 0, gc.get_threshold()[0] < 10_000)
class Loop:
    pass
def cycle():
    one = Loop()
    one.itself = one
    return one
kept = [cycle() for _ in range({count})]
gc.collect(1)
gc.collect(1)
kept.clear()
started = gc.get_freeze_count()
for _ in range({looks}):
    every[0]()
left = sum(isinstance(each, Loop) for each in gc.get_objects())
print(left, gc.get_freeze_count() > started)
"""


@pytest.mark.parametrize(
    ("count", "looks", "outcome"),
    [(100, 1, "0 False"), (2_000, 59, "2000 False"), (2_000, 60, "0 True")],
)
def test_old_objects_are_looked_at_while_they_are_few(count: int, looks: int, outcome: str) -> None:
    """Sixty times too many: then they are there for good, and no pass goes through them."""
    code = PASSES.format(count=count, looks=looks)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert run.stdout.splitlines() == ["True True", outcome]
