"""How the demo's queries are started: one after the other, and never for ever."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.pipelines.demo.runner import FILE, main, wait_for_batch


class Query:
    """A query that has done its first batch after so many looks."""

    def __init__(self, looks: int, failure: Exception | None = None) -> None:
        self.isActive = True
        self.looks = looks
        self._failure = failure

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        return SimpleNamespace(batchId=0) if self.looks <= 0 else None

    def awaitTermination(self, seconds: float) -> bool:  # noqa: N802
        self.looks -= 1
        if self._failure is not None:
            raise self._failure
        return False


def test_the_next_query_waits_for_the_first_batch_of_the_one_before() -> None:
    query = Query(5)
    wait_for_batch(query, lambda: False)  # type: ignore[arg-type]
    assert query.looks == 0


def test_nobody_waits_for_a_query_that_ends_or_when_all_is_to_stop() -> None:
    failing, unwanted, silent = Query(5, RuntimeError("no")), Query(5), Query(1_000_000)
    wait_for_batch(failing, lambda: False)  # type: ignore[arg-type]
    wait_for_batch(unwanted, lambda: True)  # type: ignore[arg-type]
    wait_for_batch(silent, lambda: False)  # type: ignore[arg-type]
    assert (failing.looks, unwanted.looks, silent.looks) == (4, 5, 1_000_000 - 300)


def test_a_cluster_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import signal

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        code = main(["--bootstrap-servers", "127.0.0.1:1", "--home", str(tmp_path), "--file", str(FILE)])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert code == 1
    said = capsys.readouterr().err
    assert said.startswith("Error: the cluster at 127.0.0.1:1 cannot be reached")
    assert said.count("\n") == 1
