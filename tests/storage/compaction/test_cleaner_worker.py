"""The process that compacts: the same result as a thread's, and every way for it to end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.storage.compaction.cleaner_worker import ProcessWorker, Worker
from moldau.storage.compaction.cleaning import CleaningAbortedError
from moldau.storage.errors import CorruptLogError, StorageError
from moldau.storage.files import OsFiles
from tests.storage.cleaning_scene import NOW, TP, Scene


class ProcessScene(Scene):
    def new_worker(self) -> Worker:
        return ProcessWorker()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = ProcessScene(OsFiles(), root=f"{tmp_path}/data")
    for at in range(20):
        scene.append((f"k{at % 4}", f"{at}"), (f"j{at % 3}", None if at == 19 else "v"))
        if at % 5 == 0:
            scene.roll()
    scene.roll()
    yield scene
    scene.cleaner.close()
    scene.logs.close()


@pytest.mark.slow
def test_one_process_for_several_compactions(scene: Scene) -> None:
    assert scene.clean()
    assert [offset for offset, _, _ in scene.table()] == [32, 34, 35, 36, 37, 38, 39]
    (worker,) = scene.cleaner._idle
    assert isinstance(worker, ProcessWorker)
    assert worker._process is not None
    first = worker._process.pid
    scene.append(("k0", "new"))
    scene.roll()
    assert scene.clean()
    assert worker._process.pid == first
    assert scene.table()[-1] == (40, "k0", "new")
    # Without work there is no process.
    assert not scene.clean()
    assert worker._process.returncode is not None


def test_a_broken_batch(scene: Scene) -> None:
    path = scene.log.segments_info()[1].path
    data = bytearray(scene.files.read_whole(path))
    data[-1] ^= 1
    scene.files.write_atomically(path, bytes(data))
    assert scene.clean()
    assert path in scene.cleaner.uncleanable[TP]
    assert len(scene.names(".cleaned")) == 0


@pytest.mark.slow
def test_it_is_killed(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    job = scene.cleaner.begin_cleaning(NOW, scene.settings)
    assert job is not None
    assert isinstance(job.worker, ProcessWorker)
    job.worker.begin(job.plan)
    process = job.worker._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    job._has_begun = True
    job.run()
    assert isinstance(job.error, StorageError)
    assert not isinstance(job.error, CorruptLogError)
    assert scene.cleaner.finish_cleaning(job, NOW) is None
    assert "ended with -9" in caplog.text
    assert scene.clean(), "the next one has a process of its own"


def test_it_is_stopped(scene: Scene) -> None:
    job = scene.cleaner.begin_cleaning(NOW, scene.settings)
    assert job is not None
    job.worker.begin(job.plan)
    scene.cleaner.close()
    with pytest.raises(CleaningAbortedError):
        job.worker.step()
    scene.cleaner.finish_cleaning(job, NOW)


@pytest.mark.slow
def test_it_is_stopped_before_it_begins(scene: Scene) -> None:
    worker = ProcessWorker()
    worker.stop()
    job = scene.cleaner.begin_cleaning(NOW, scene.settings)
    assert job is not None
    with pytest.raises(CleaningAbortedError):
        worker.begin(job.plan)
    job.run()
    scene.cleaner.finish_cleaning(job, NOW)


def test_it_ends_with_its_broker() -> None:
    command = [sys.executable, "-m", "moldau.storage.compaction.cleaner_process"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    assert process.wait(30) == 0
    process.stdout.close()


def test_a_directory_that_is_gone(scene: Scene) -> None:
    job = scene.cleaner.begin_cleaning(NOW, scene.settings)
    assert job is not None
    scene.logs.delete(TP)
    job.run()
    assert isinstance(job.error, FileNotFoundError)
    assert job.error.filename is not None
    assert scene.cleaner.finish_cleaning(job, NOW) is None
    scene.log = scene.logs.open_partition(TP, bytes(16), scene.config)
