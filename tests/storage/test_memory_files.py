"""A disk in memory that loses what a real one would lose."""

import pytest

from moldau.storage.memory_files import MemoryFiles

A, B = "/data/a", "/data/b"


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory("/data")
    files.flush_directory("/")
    return files


def test_a_power_cut_keeps_what_was_flushed(files: MemoryFiles) -> None:
    file = files.create(A)
    file.append(b"safe")
    file.flush()
    files.flush_directory("/data")
    file.append(b" and not")
    assert files.after_power_cut().read_whole(A) == b"safe"
    assert files.read_whole(A) == b"safe and not", "the disk before the cut is not touched"


def test_a_kill_loses_nothing(files: MemoryFiles) -> None:
    files.create(A).append(b"written")
    assert files.after_kill().read_whole(A) == b"written"


def test_a_fault_strikes_the_operation_that_it_is_meant_for(files: MemoryFiles) -> None:
    file = files.create(A)

    def strike(name: str, path: str) -> None:
        if (name, path) == ("append", A):
            raise OSError(5, "Input/output error")

    files.faults.on_operation = strike
    with pytest.raises(OSError, match="Input/output"):
        file.append(b"x")
    files.create(B).append(b"y")
    assert files.read_whole(B) == b"y"


def test_links_share_their_bytes(files: MemoryFiles) -> None:
    files.create(A).append(b"one")
    files.link(A, B)
    files.remove(A)
    assert files.read_whole(B) == b"one"


def test_a_name_that_was_not_flushed_may_be_lost(files: MemoryFiles) -> None:
    files.create(A).flush()
    assert files.after_power_cut().exists(A)
    assert not files.after_power_cut(lose_name=lambda: True).exists(A)
