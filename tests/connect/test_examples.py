"""The examples of Connect, each run by its one command; with OpenSearch in ``make test-connect``."""

import importlib
import os
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from moldau.connect.connector import Connector
from tests.connect.java_servers import opensearch

EXAMPLES = Path(__file__).parents[2] / "examples" / "connect"


def output(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-3000:]
    return ran.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not os.environ.get("MOLDAU_TEST_CONNECT"), reason="part of make test-connect")
def test_logs_to_opensearch() -> None:
    with opensearch() as server:
        for _ in range(2):  # it can be run again
            found = output("logs_to_opensearch.py", f"http://127.0.0.1:{server.port}")
            assert found.splitlines() == [
                "checkout: 50 messages",
                "search: 25 messages",
                "storage: 25 messages",
                "about disks: 25; dead letters: 1",
            ]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not os.environ.get("MOLDAU_TEST_CONNECT"), reason="part of make test-connect")
def test_factory() -> None:
    assert output("factory.py").splitlines() == [
        "health: 120 reports, 3 of them broken",
        "alerts: 3",
        "audit: ann: start the line",
        "audit: bob: stop the weld",
    ]


def test_the_template_of_a_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its tests pass, and its entry points name connectors."""
    monkeypatch.syspath_prepend(str(EXAMPLES / "template"))
    tests = importlib.import_module("test_thermometer")
    for number, test in enumerate(
        (tests.test_a_source_goes_on_where_it_was, tests.test_a_sink_shows_the_last_value)
    ):
        (tmp_path / str(number)).mkdir()
        test(tmp_path / str(number))
    project = tomllib.loads((EXAMPLES / "template/pyproject.toml").read_text())["project"]
    for place in project["entry-points"]["moldau.connectors"].values():
        found = EntryPoint("x", place, "moldau.connectors").load()
        assert issubclass(found, Connector)
        assert found.class_name.startswith("com.example.")
