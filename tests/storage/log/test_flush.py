"""Flush jobs: what they flush, and how far a log is flushed afterwards."""

import errno
from typing import Any

import pytest

from moldau.storage.files import MemoryFiles
from moldau.storage.log.flush import FlushJob, FlushState, run_in_parallel


class Disk(MemoryFiles):
    """Notes what is flushed and written; some of it fails."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        self.errors: dict[str, int] = {}

    def note(self, what: str) -> None:
        if what in self.errors:
            raise OSError(self.errors[what], "no")
        self.done.append(what)

    def open(self, path: str) -> Any:
        super().open(path)  # FileNotFoundError
        return Flushed(self, path)

    def flush_directory(self, path: str) -> None:
        self.note(f"directory {path}")

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self.note(f"write {path}")
        super().write_atomically(path, data, sync=sync)


class Flushed:
    def __init__(self, disk: Disk, path: str) -> None:
        self.disk, self.path = disk, path

    def flush(self) -> None:
        self.disk.note(f"flush {self.path}")


@pytest.fixture
def disk() -> Disk:
    disk = Disk()
    disk.make_directory("/d")
    for name in ("log", "index"):
        disk.create(f"/d/{name}")
    disk.done.clear()
    return disk


def job(disk: Disk, offset: int = 10) -> FlushJob:
    logs: list[Any] = [Flushed(disk, "/d/log")]
    return FlushJob(disk, offset, logs, ["/d/index", "/d/gone"], {"/d/epochs": b"1"}, ["/d"])


def test_records_first_and_names_last(disk: Disk) -> None:
    made = job(disk)
    made.run()
    assert disk.done == ["flush /d/log", "flush /d/index", "write /d/epochs", "directory /d"]
    assert (made.error, made.disk_full) == (None, False)
    assert disk.list_sizes("/d")["epochs"] == 1


@pytest.mark.parametrize("what", ["flush /d/log", "flush /d/index", "write /d/epochs", "directory /d"])
def test_an_error_ends_the_job(disk: Disk, what: str) -> None:
    disk.errors[what] = errno.EIO
    made = job(disk)
    made.run()
    assert made.error is not None
    assert made.error.errno == errno.EIO
    assert not made.disk_full
    assert "directory /d" not in disk.done


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_no_broken_disk(disk: Disk, code: int) -> None:
    disk.errors["write /d/epochs"] = code
    made = job(disk)
    made.run()
    assert (made.error, made.disk_full) == (None, True)
    assert disk.done[-1] == "directory /d", "the records are flushed all the same"


def test_a_full_disk_while_records_are_flushed_is_an_error(disk: Disk) -> None:
    disk.errors["flush /d/log"] = errno.ENOSPC
    made = job(disk)
    made.run()
    assert made.error is not None


def test_a_state_hands_over_what_there_is_to_flush(disk: Disk) -> None:
    state = FlushState(5)
    state.paths, state.directories = ["/d/index"], ["/d"]
    state.requested, state.unflushed_since_ms = True, 77
    made = state.begin(disk, 10, [], {})
    assert state.job is made
    assert (state.paths, state.directories, state.requested) == ([], [], False)
    assert (state.unflushed_since_ms, state.recovery_point) == (-1, 5)
    state.paths.append("/d/log")  # for the next job
    made.run()
    assert disk.done == ["flush /d/index", "directory /d"]
    state.finish(made, 12)
    assert (state.job, state.recovery_point) == (None, 10)


@pytest.mark.parametrize(
    ("recovery_point", "offset", "log_end_offset", "expected"),
    [
        (5, 10, 10, 10),
        (5, 10, 8, 8),  # truncated while the job ran
        (5, 10, 3, 5),
        (20, 10, 30, 20),
    ],
)
def test_the_recovery_point_only_advances(
    disk: Disk, recovery_point: int, offset: int, log_end_offset: int, expected: int
) -> None:
    state = FlushState(recovery_point)
    made = state.begin(disk, offset, [], {})
    made.run()
    state.finish(made, log_end_offset)
    assert state.recovery_point == expected


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_job_that_failed_moves_nothing(disk: Disk, code: int) -> None:
    disk.errors["write /d/epochs"] = code
    state = FlushState(5)
    made = state.begin(disk, 10, [], {"/d/epochs": b"1"})
    made.run()
    state.finish(made, 10)
    assert (state.recovery_point, state.job) == (5, None)


def test_an_older_job_does_not_end_the_newer_one(disk: Disk) -> None:
    state = FlushState(0)
    first, second = state.begin(disk, 5, [], {}), state.begin(disk, 10, [], {})
    state.finish(first, 10)
    assert (state.job, state.recovery_point) == (second, 5)


def test_what_a_job_did_not_flush_is_due_again(disk: Disk) -> None:
    state = FlushState(0)
    assert not state.take_back()
    state.paths, state.directories = ["/d/index"], ["/d"]
    state.begin(disk, 5, [], {})
    state.paths.append("/d/log")
    assert state.take_back()
    assert (state.paths, state.directories) == (["/d/index", "/d/log"], ["/d"])
    assert (state.requested, state.job) == (True, None)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 40])
def test_every_job_is_run_once(disk: Disk, count: int) -> None:
    jobs = [FlushJob(disk, 0, [], [], {}, [f"/{number}"]) for number in range(count)]
    if jobs:
        disk.errors["directory /0"] = errno.EIO
    run_in_parallel(jobs)
    assert sorted(disk.done) == sorted(f"directory /{number}" for number in range(1, count))
    assert [each.error is not None for each in jobs] == [number == 0 for number in range(count)]
