"""``moldau connectors`` against a worker."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.cli.main import cli
from moldau.testing import Broker
from tests.connect.conftest import Worker, running
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with (
        Broker({"group.initial.rebalance.delay.ms": 0}) as broker,
        running(broker, tmp_path_factory.mktemp("worker")) as worker,
    ):
        broker.create_topic("bad")
        broker.produce("bad", b"no json", partition=0)
        yield worker


def call(worker: Worker, *arguments: str) -> str:
    found = CliRunner().invoke(cli, ["connectors", *arguments, "--url", worker.url], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def test_the_life_of_a_connector(worker: Worker, tmp_path: Path) -> None:
    config = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": "bad"}
    file = tmp_path / "sink.json"
    file.write_text(json.dumps({"name": "a/b", "config": config}))
    assert "a/b is there" in call(worker, "create", str(file))
    wait_until(lambda: worker.task("a%2Fb")["state"] == "FAILED", lambda: worker.task("a%2Fb"))
    said = call(worker, "why", "a/b")
    assert "ConnectException: Tolerance exceeded in error handler" in said
    assert "Next: mend that, then moldau connectors restart a/b" in said
    (row,) = json.loads(call(worker, "list", "--json"))
    assert (row["name"], row["type"], row["tasks"]) == ("a/b", "sink", "1 failed")
    assert "task 0: FAILED" in call(worker, "status", "a/b")
    for verb in ("pause", "resume", "restart", "stop"):
        assert f"a/b: {verb}" in call(worker, verb, "a/b")
    assert "a/b is deleted" in call(worker, "delete", "a/b")
    assert json.loads(call(worker, "list", "--json")) == []


def test_what_goes_wrong_is_said(worker: Worker) -> None:
    gone = CliRunner().invoke(cli, ["connectors", "status", "nope", "--url", worker.url])
    assert gone.exit_code == 1
    assert "404" in gone.output
    away = CliRunner().invoke(cli, ["connectors", "list", "--url", "http://127.0.0.1:1"])
    assert away.exit_code == 1
    assert "Next: moldau connect, or --url" in away.output
