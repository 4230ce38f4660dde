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
from moldau.base import allocator
every = []
allocator._WORTH_A_PASS, allocator._MOST_IN_A_PASS = 1_000, 5_000
allocator._SET_ASIDE_AT_LEAST, allocator._GROWN_AT_LEAST, allocator._LOOKS_OF_GROWTH = 10, 100, 1
allocator.ShortCollections().start(lambda seconds, look: every.append(look))
started = gc.get_freeze_count()
assert started > 0 and gc.get_threshold()[0] < 10_000
class Loop:
    pass
def cycle():
    one = Loop()
    one.itself = one
    return one
def make_old():
    gc.collect(1)
    gc.collect(1)
def look(times):
    for _ in range(times):
        every[0]()
def left():
    gc.unfreeze()
    return sum(isinstance(each, Loop) for each in gc.get_objects())
"""


def passes(*lines: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", PASSES + "\n".join(lines)], capture_output=True, check=True, text=True
    )
    return run.stdout.strip()


def garbage(count: int) -> tuple[str, ...]:
    return f"kept = [cycle() for _ in range({count})]", "make_old()", "kept.clear()"


@pytest.mark.parametrize(
    ("count", "looks", "left"),
    [
        (100, 1, 100),  # not worth a pass yet
        (100, 60, 0),
        (1_000, 1, 0),
        (6_000, 1, 6_000),  # too many for a pass: it could take too long
        (6_000, 100, 6_000),  # set aside without a look
    ],
)
def test_old_objects_are_looked_at_while_they_are_few(count: int, looks: int, left: int) -> None:
    assert passes(*garbage(count), f"look({looks})", "print(left())") == str(left)


def test_a_pass_is_about_what_is_newer_than_the_last() -> None:
    """Those that live do not make the next pass longer, nor keep it from being made."""
    alive = (
        "alive = [cycle() for _ in range(4_000)]",
        "make_old()",
        "look(1)",
        "print(gc.get_freeze_count() > started)",
    )
    assert passes(*alive, *garbage(4_000), "look(1)", "print(left())").split() == ["True", "4000"]


def test_what_was_set_aside_is_looked_at_when_it_is_as_much_as_survived() -> None:
    """Each round sets aside what lives then, and is garbage soon after."""
    rounds = (
        "for _ in range(50):",
        "    kept = [cycle() for _ in range(2_000)]",
        "    make_old()",
        "    look(1)",
        "    kept.clear()",
    )
    assert passes("allocator._SET_ASIDE_AT_LEAST = 1_000_000", *rounds, "print(left())") == "100000"
    assert int(passes(*rounds, "print(left())")) < 50_000


def test_what_is_freed_without_a_pass_over_everything_brings_none() -> None:
    """Set aside round after round, and gone when nobody refers to it: there is nothing to be found."""
    rounds = (
        "made = allocator.ShortCollections._pass_over_everything",
        "passes = []",
        "allocator.ShortCollections._pass_over_everything = lambda self: (passes.append(1), made(self))",
        "for _ in range(100):",
        "    kept = [[] for _ in range(2_000)]",
        "    make_old()",
        "    look(1)",
        "    kept.clear()",
        "print(len(passes))",
    )
    assert passes(*rounds) == "0"


@pytest.mark.parametrize(("rounds", "brings_one"), [(15, True), (5, False)])
def test_what_is_in_use_for_a_while_only_brings_no_pass_over_everything(
    rounds: int, brings_one: bool
) -> None:
    """It becomes more and more, and every so many rounds nothing is left of it."""
    lines = (
        "allocator._LOOKS_OF_GROWTH, allocator._MOST_IN_A_PASS = 10, 1_000_000",
        "made = allocator.ShortCollections._pass_over_everything",
        "passes = []",
        "allocator.ShortCollections._pass_over_everything = lambda self: (passes.append(1), made(self))",
        "kept = []",
        "for number in range(60):",
        f"    if number % {rounds} == 0:",
        "        kept.clear()",
        "        look(1)",
        "    kept.append([[] for _ in range(60_000)])",
        "    make_old()",
        "    look(2)",
        "print(len(passes))",
    )
    assert (int(passes(*lines)) > 0) is brings_one


def test_those_that_nobody_looked_at_because_they_were_too_many_count_too() -> None:
    many = ("wasted = [cycle() for _ in range(100_000)]", "make_old()", "look(70)", "wasted.clear()")
    assert passes(*many, "look(60)", "print(left())") == "0"
