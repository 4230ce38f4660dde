"""``moldau streams``: pictures and advice for a file, applications that were run, resets."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from moldau.cli.commands.programs import streams_run
from moldau.cli.main import cli
from moldau.pipelines.directory import PipelineDirectory, PipelineState
from moldau.spark.query.progress import QueryStatus
from moldau.testing import Broker

EXAMPLE = str(Path(__file__).parents[4] / "examples" / "streams" / "click_stream.py")


def test_a_plan_is_drawn(tmp_path: Path) -> None:
    svg = tmp_path / "plan.svg"
    result = CliRunner().invoke(cli, ["streams", "plan", EXAMPLE, "--svg", str(svg)])
    assert result.exit_code == 0
    assert "▶ clicks.pages.views" in result.stdout
    assert svg.read_text().startswith("<svg")


def test_kafkas_description_is_printed() -> None:
    result = CliRunner().invoke(cli, ["streams", "plan", EXAMPLE, "--describe"])
    assert result.stdout.startswith("Topologies:\n   Sub-topology: 0\n")


def test_topics_that_do_not_fit_are_an_error() -> None:
    counts = ["--partitions", "clicks.pages.views=2", "--partitions", "clicks.user.profile=3"]
    result = CliRunner().invoke(cli, ["streams", "plan", EXAMPLE, *counts])
    assert result.exit_code == 1
    assert "Topics not co-partitioned" in result.stderr
    assert CliRunner().invoke(cli, ["streams", "plan", EXAMPLE, "--partitions", "x"]).exit_code == 2


def test_a_file_without_a_program_is_said_so(tmp_path: Path) -> None:
    file = tmp_path / "empty.py"
    file.write_text("")
    result = CliRunner().invoke(cli, ["streams", "plan", str(file)])
    assert result.exit_code == 1
    assert "has no program" in result.stderr


# --- applications -----------------------------------------------------------------------------------


def invoke(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["streams", *arguments, "--home", str(home)])


def ran(home: Path, state: str, **more: object) -> None:
    """What an application that has run leaves behind."""
    directory = PipelineDirectory(home, "words")
    directory.path.mkdir(parents=True)
    query = QueryStatus("words", state=state, batch_id=3, rows=100, lag=({"lines": 5},))
    directory.write_state(PipelineState("words", "words.py", state, queries=(query,), **more))  # type: ignore[arg-type]
    progress = {"batches": 4, "batch_id": 3, "records_in": 100, "records_out": 300, "dropped": 2}
    (directory.path / "progress.json").write_text(json.dumps(progress))


def test_what_was_run_is_listed_and_shown(tmp_path: Path) -> None:
    assert "no application was run yet" in invoke(tmp_path, "list").stderr
    ran(tmp_path, "stopped")
    assert "words" in invoke(tmp_path, "list").stdout
    shown = invoke(tmp_path, "status", "words").stdout
    assert "records out" in shown
    assert "300" in shown
    found = json.loads(invoke(tmp_path, "status", "words", "--json").stdout)
    assert (found["state"], found["progress"]["dropped"]) == ("stopped", 2)
    assert "it was stopped" in invoke(tmp_path, "why", "words").stdout


def test_a_failure_is_explained(tmp_path: Path) -> None:
    ran(tmp_path, "failed", error="the record at offset 7 of lines-0 does not decode: x")
    assert "--dead-letter-topic" in invoke(tmp_path, "why", "words").stdout
    assert "does not run" in invoke(tmp_path, "stop", "words").stderr
    assert "there is no application 'other'" in invoke(tmp_path, "status", "other").stderr


def test_a_topic_that_is_missing_is_named_before_spark_starts(tmp_path: Path) -> None:
    with Broker() as broker:
        result = invoke(tmp_path, "run", EXAMPLE, "-b", broker.bootstrap_servers)
    assert result.exit_code == 1
    assert "there is no topic clicks.pages.views, clicks.search" in result.stderr


def test_a_reset_is_shown_before_it_is_done(tmp_path: Path) -> None:
    with Broker() as broker:
        for topic in ("lines", "words-counts-repartition", "words-tasks-1-changelog", "words"):
            broker.create_topic(topic)
        broker.produce("lines", "x")
        servers = ["-b", broker.bootstrap_servers]
        shown = invoke(tmp_path, "reset", "words", "--topic", "lines", *servers)
        assert "would delete topic words-tasks-1-changelog" in shown.stdout
        assert "words-tasks-1-changelog" in broker.topics()
        done = invoke(tmp_path, "reset", "words", "--topic", "lines", "--execute", *servers)
        assert done.exit_code == 0
        assert [topic for topic in broker.topics() if not topic.startswith("__")] == ["lines", "words"]
        missing = invoke(tmp_path, "reset", "words", "--topic", "nothing", *servers)
        assert "there is no topic nothing" in missing.stderr


def test_the_login_of_a_program_stands_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands on the command line is in the list of processes."""
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.username=ann\nsasl.password=s\nclient.id=x\n")
    found: list[Any] = []

    def foreground(program: Any, name: str, settings: Any) -> None:
        found.append(settings.streams.options)
        raise click.ClickException("that is enough")

    monkeypatch.setattr(streams_run, "_foreground", foreground)
    invoke(tmp_path, "run", EXAMPLE, "--command-config", str(file), "--option", "kafka.sasl.username=bob")
    assert found == [
        {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.username": "bob", "kafka.sasl.password": "s"}
    ]
