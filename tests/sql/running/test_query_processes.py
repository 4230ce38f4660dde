"""Ids of queries come from a topic, and become names of files and arguments: what is none is refused."""

import asyncio
from pathlib import Path

import pytest

from moldau.pipelines.directory import PipelineDirectory
from moldau.sql.errors import SqlError
from moldau.sql.running.query_processes import QueryProcesses


@pytest.mark.parametrize("query_id", ["../evil", "/tmp/evil", "a/b", "--help", "a\nb", "", ".", "x" * 300])
def test_an_id_that_leads_elsewhere_is_refused(query_id: str, tmp_path: Path) -> None:
    runner = QueryProcesses("127.0.0.1:1", tmp_path / "home")
    (tmp_path / "home").mkdir()
    for work in (
        runner.start(query_id, "raise SystemExit"),
        runner.stop(query_id),
        runner.forget(query_id),
    ):
        with pytest.raises(SqlError, match="is no id of a query"):
            asyncio.run(work)
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


def test_what_is_left_of_a_query_is_forgotten_once_it_does_not_run(tmp_path: Path) -> None:
    runner = QueryProcesses("127.0.0.1:1", tmp_path)
    files = [tmp_path / "sql" / "CTAS_A_1.py", tmp_path / "CTAS_A_1" / "checkpoints" / "metadata"]
    others = [tmp_path / "sql" / "CTAS_A_12.py", tmp_path / "CTAS_A_12" / "state.json"]
    for each in (*files, *others):
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_text("")
    with (
        PipelineDirectory(tmp_path, "CTAS_A_1").running(),
        pytest.raises(SqlError, match="CTAS_A_1 still runs"),
    ):
        asyncio.run(runner.forget("CTAS_A_1"))
    asyncio.run(runner.forget("CTAS_A_1"))
    assert sorted(each for each in tmp_path.rglob("*") if each.is_file()) == sorted(others)
    asyncio.run(runner.forget("CTAS_A_1"))  # nothing is left
