"""The pytest plugin as a user's project meets it: pytest in a process of its own, with and without xdist."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SUITE = """
import os
from pathlib import Path

import pytest


@pytest.mark.parametrize("number", range(8))
def test_every_test_has_an_empty_broker(moldau_broker, number):
    assert moldau_broker.topics() == []
    moldau_broker.produce("orders", str(number))
    assert [record.value for record in moldau_broker.records("orders")] == [str(number).encode()]
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    (Path(__file__).parent / f"{worker}.{moldau_broker.port}").touch()


def test_an_advanced_clock_is_this_tests_own(moldau_broker):
    moldau_broker.clock.advance(1e6)


def test_and_not_the_next_ones(moldau_broker):
    assert moldau_broker.clock.advanced_seconds == 0
"""
OWN_SETTINGS = """
import pytest


@pytest.fixture(scope="session")
def moldau_settings():
    return {"num.partitions": 3}


def test_settings(moldau_broker):
    moldau_broker.produce("t", "v", partition=2)
    assert len(moldau_broker.records("t", partition=2)) == 1


def test_one_that_keeps_what_the_test_before_has_left(moldau_session_broker):
    assert len(moldau_session_broker.records("t", partition=2)) == 1
"""
NO_BROKER = """
import sys


def test_nothing():
    assert "moldau.testing.plugin" in sys.modules
    assert not [name for name in sys.modules if name.startswith(("moldau.node", "moldau.broker"))]
    assert "uvloop" not in sys.modules
"""


def run_pytest(directory: Path, *arguments: str) -> str:
    """What a run says that must succeed; plugins that do not matter here only cost time."""
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(directory)]
    for plugin in ("cacheprovider", "hypothesispytest", "timeout"):
        command += ["-p", f"no:{plugin}"]
    ended = subprocess.run(
        [*command, *arguments, str(directory)], capture_output=True, text=True, check=False, cwd=directory
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize("workers", [0, 2])
def test_the_fixture(tmp_path: Path, workers: int) -> None:
    (tmp_path / "test_orders.py").write_text(SUITE)
    assert "10 passed" in run_pytest(tmp_path, "-n", str(workers))
    brokers = {path.name for path in tmp_path.iterdir() if path.suffix[1:].isdigit()}
    assert len(brokers) == len({name.partition(".")[2] for name in brokers}) == max(workers, 1)


def test_a_projects_own_settings(tmp_path: Path) -> None:
    (tmp_path / "test_settings.py").write_text(OWN_SETTINGS)
    assert "2 passed" in run_pytest(tmp_path, "-p", "no:xdist")


def test_a_project_that_does_not_use_it_pays_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(NO_BROKER)
    assert "1 passed" in run_pytest(tmp_path, "-p", "no:xdist")
