"""A child process that answers questions and may be ended at any time."""

import sys
from pathlib import Path

import pytest

from moldau.schemas.worker_process import WorkerProcess

CHILD = """
import sys, time
from moldau.schemas.worker_process import serve

def answer(question):
    if question == b"sleep":
        time.sleep(600)
    if question == b"die":
        sys.exit(1)
    return question * 2

serve(answer)
"""


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "a_child_of_the_tests.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(each for each in sys.path if each)}")
    worker = WorkerProcess("a_child_of_the_tests")
    yield worker
    worker.close()


def test_one_child_answers_all_questions(worker: WorkerProcess) -> None:
    assert worker.pid is None, "it is started when it is needed"
    assert worker.ask(b"ab", 30_000) == b"abab"
    pid = worker.pid
    assert worker.ask(b"x" * 1_000_000, 30_000) == b"x" * 2_000_000
    assert worker.pid == pid


@pytest.mark.slow
@pytest.mark.parametrize("question", [b"sleep", b"die"])
def test_one_that_takes_too_long_or_dies_is_followed_by_another(
    worker: WorkerProcess, question: bytes
) -> None:
    assert worker.ask(b"a", 30_000) == b"aa"
    pid = worker.pid
    assert worker.ask(question, 200) is None
    assert worker.pid is None
    assert worker.ask(b"a", 30_000) == b"aa"
    assert worker.pid != pid


def test_a_child_that_cannot_start() -> None:
    assert WorkerProcess("no_such_module_anywhere").ask(b"a", 1_000) is None
