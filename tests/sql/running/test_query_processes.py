"""Ids of queries come from a topic, and become names of files and arguments: what is none is refused."""

import asyncio
from pathlib import Path

import pytest

from moldau.sql.errors import SqlError
from moldau.sql.running.query_processes import QueryProcesses


@pytest.mark.parametrize("query_id", ["../evil", "/tmp/evil", "a/b", "--help", "a\nb", "", ".", "x" * 300])
def test_an_id_that_leads_elsewhere_is_refused(query_id: str, tmp_path: Path) -> None:
    runner = QueryProcesses("127.0.0.1:1", tmp_path / "home")
    for work in (runner.start(query_id, "raise SystemExit"), runner.stop(query_id)):
        with pytest.raises(SqlError, match="is no id of a query"):
            asyncio.run(work)
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []
