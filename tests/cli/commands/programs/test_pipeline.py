"""``moldau pipeline`` without a Spark: files, lists, states, signals and mistakes."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from moldau.cli.commands.programs import pipeline_run
from moldau.cli.commands.programs.pipeline import listed, query_row, remarks
from moldau.cli.commands.programs.pipeline_run import find_file
from moldau.cli.main import cli
from moldau.pipelines.directory import PipelineDirectory, PipelineState
from moldau.pipelines.errors import PipelineError
from moldau.spark.query.progress import QueryStatus

QUERY = QueryStatus(
    "p-counts",
    state="running",
    batch_id=3,
    rows=70,
    input_rows_per_second=2.25,
    processed_rows_per_second=8.0,
    batch_duration_ms=400,
    lag=({"t": 5},),
)
STATE = PipelineState(
    "p",
    "/p.py",
    "running",
    0,
    "local[*]",
    "here:9092",
    "2026-11-16T05:00:00+00:00",
    (QUERY,),
    {"counts": "topic c"},
)

Run = Callable[..., Result]


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs ``moldau pipeline`` in an empty directory with a home of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*arguments: str, code: int = 0) -> Result:
        environment = {"MOLDAU_HOME": str(tmp_path / "home"), "MOLDAU_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
        result = CliRunner().invoke(cli, ["pipeline", *arguments], env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def home(tmp_path: Path) -> PipelineDirectory:
    return PipelineDirectory(tmp_path / "home", "p")


@pytest.fixture
def running(home: PipelineDirectory) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds the lock of the pipeline, and ends when it is asked to."""
    program = (
        "import signal, sys\n"
        "from moldau.pipelines.directory import PipelineDirectory\n"
        "if sys.argv[3] == 'deaf': signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "with PipelineDirectory(sys.argv[1], sys.argv[2]).running():\n"
        "    print('ready', flush=True)\n"
        "    while True: signal.pause()\n"
    )
    started = []

    def start(kind: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", program, str(home.path.parent), "p", kind]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        home.write_state(PipelineState(**{**_fields(STATE), "pid": child.pid}))
        return child

    yield start  # type: ignore[misc]
    for child in started:
        child.kill()
        child.communicate()


def _fields(state: PipelineState) -> dict[str, Any]:
    return {name: getattr(state, name) for name in PipelineState.__dataclass_fields__}


def test_init_writes_a_file_once(pipeline: Run, tmp_path: Path) -> None:
    said = pipeline("init", "first")
    assert "moldau pipeline run first.py --dry-run" in said.stdout
    assert "to_topic" in (tmp_path / "first.py").read_text()
    assert "first.py is there already" in pipeline("init", "first", code=1).stderr
    pipeline("init", "first", "--sql")
    assert "CREATE STREAM" in (tmp_path / "first.sql").read_text()
    assert "cannot be the name" in pipeline("init", "a b", code=2).stderr


def test_lists_and_states(pipeline: Run, home: PipelineDirectory) -> None:
    assert "no pipeline was run yet" in pipeline("list").stderr
    home.path.mkdir(parents=True)
    home.write_state(PipelineState(**{**_fields(STATE), "state": "stopped"}))
    (line,) = [line for line in pipeline("list").stdout.splitlines() if "/p.py" in line]
    assert line.split() == ["p", "stopped", "1", "-", "5", "2026-11-16T05:00:00Z", "/p.py"]
    assert json.loads(pipeline("list", "--json").stdout)[0]["queries"][0]["lag"] == [{"t": 5}]
    shown = pipeline("status", "p").stdout
    assert "p: stopped, local[*], cluster here:9092" in shown
    assert "counts is written to topic c" in shown
    assert json.loads(pipeline("status", "p", "--json").stdout)["name"] == "p"
    assert "there is no pipeline 'q'" in pipeline("status", "q", code=1).stderr


def test_rows() -> None:
    assert query_row(QUERY) == ("p-counts", "running", 3, 70, "2.2", "8.0", 5, 400, 0)
    assert query_row(QueryStatus("new"))[2:] == ("-", 0, "-", "-", "-", "-", 0)
    assert listed(STATE)[:5] == ("p", "running", 1, "2.2", 5)
    failed = QueryStatus("p-counts", state="failed", error="it broke")
    state = PipelineState("p", "/p.py", "failed", queries=(failed,), error="query p-counts failed: it broke")
    assert remarks(state) == ["p-counts failed: it broke"]
    assert remarks(PipelineState("p", "/p.py", "failed", error="no cluster")) == ["last error: no cluster"]
    assert "moldau pipeline logs p" in remarks(PipelineState("p", "/p.py", "died"))[0]


def test_a_pipeline_is_asked_to_end(pipeline: Run, home: PipelineDirectory, running: Any) -> None:
    child = running("good")
    assert "p: running" in pipeline("status", "p").stdout
    assert "runs already" in pipeline("run", _file(), "--name", "p", "--detach", code=1).stderr
    assert "is stopped" in pipeline("stop", "p").stdout
    assert child.wait(10) != 0
    assert "p: died" in pipeline("status", "p").stdout
    assert "does not run (it died without a word)" in pipeline("stop", "p", code=1).stderr


def test_one_that_is_starting_is_left_alone(pipeline: Run, home: PipelineDirectory, running: Any) -> None:
    """Its state is still that of the run before, whose process id may be anybody's by now."""
    child = running("good")
    home.write_state(PipelineState(**{**_fields(STATE), "state": "stopped", "pid": child.pid}))
    assert "pipeline p is starting: try again when it runs" in pipeline("stop", "p", code=1).stderr
    assert child.poll() is None


def test_one_that_does_not_listen_is_ended_by_force(
    pipeline: Run, home: PipelineDirectory, running: Any
) -> None:
    child = running("deaf")
    assert "end it with --force" in pipeline("stop", "p", "--timeout", "0.1", code=1).stderr
    assert "is stopped" in pipeline("stop", "p", "--timeout", "0.1", "--force").stdout
    child.wait(10)


def test_logs(pipeline: Run, home: PipelineDirectory) -> None:
    home.path.mkdir(parents=True)
    home.write_state(PipelineState(**{**_fields(STATE), "state": "stopped"}))
    assert "has no log yet" in pipeline("logs", "p", code=1).stderr
    home.log_path.write_text("one\ntwo\nthree\n")
    assert pipeline("logs", "p").stdout == "one\ntwo\nthree\n"
    assert pipeline("logs", "p", "-n", "1", "--follow").stdout == "three\n"
    assert pipeline("logs", "p", "-n", "0").stdout == ""


def _file(text: str = "from moldau.pipelines import to_topic\n\n@to_topic('t')\ndef f(c): ...\n") -> str:
    Path("p.py").write_text(text)
    return "p.py"


@pytest.mark.parametrize(
    ("text", "arguments", "message", "code"),
    [
        (None, ["nowhere"], "there is no pipeline 'nowhere': 'moldau pipeline init nowhere' writes one", 1),
        (None, ["nowhere.sql"], "there is no pipeline 'nowhere.sql': 'moldau pipeline init nowhere'", 1),
        ("x = 1", ["p.py"], "p.py writes nothing: decorate a function", 1),
        ("def f(", ["p.py"], "p.py:1: ", 1),
        (None, ["p.py", "--conf", "x"], "--conf 'x': it has the form NAME=VALUE", 2),
        (None, ["p.py", "--dry-run", "--detach"], "leave --detach out", 2),
        (None, ["p.py"], "the cluster at 127.0.0.1:1 cannot be reached", 1),
        (None, ["p.py", "--dry-run"], "the cluster at 127.0.0.1:1 cannot be reached", 1),
        (None, ["p.py", "--option", "kafka.client.idd=x"], "did you mean 'kafka.client.id'?", 1),
        (None, ["p.py", "--name", "a b"], "cannot be the name of a pipeline", 1),
    ],
)
def test_mistakes_are_one_line(
    pipeline: Run, text: str | None, arguments: list[str], message: str, code: int
) -> None:
    _file(*([] if text is None else [text]))
    said = pipeline("run", *arguments, code=code).stderr
    assert message in said
    assert "Traceback" not in said


def test_a_failed_start_is_remembered(pipeline: Run) -> None:
    said = pipeline("run", _file(), "--verbose", code=1).stderr
    assert "Traceback" in said
    shown = pipeline("status", "p").stdout
    assert "p: failed" in shown
    assert "last error: the cluster at 127.0.0.1:1 cannot be reached" in shown
    assert "cannot be reached" in pipeline("logs", "p").stdout


def test_where_a_pipeline_is_found(pipeline: Run, home: PipelineDirectory, tmp_path: Path) -> None:
    Path("a.py").write_text("")
    Path("b.sql").write_text("")
    assert find_file("a.py", tmp_path) == Path("a.py")
    assert find_file("a", tmp_path) == Path("a.py")
    assert find_file("b", tmp_path) == Path("b.sql")
    home.path.mkdir(parents=True)
    home.write_state(STATE)
    assert find_file("p", tmp_path / "home") == Path("/p.py")
    with pytest.raises(PipelineError):
        find_file("c", tmp_path / "home")


STREAMS = (
    "from moldau.streams import StreamsBuilder\nbuilder = StreamsBuilder()\nbuilder.stream('a').to('b')\n"
)


def test_a_program_of_streams_is_a_pipeline_too(pipeline: Run, home: PipelineDirectory) -> None:
    said = pipeline("run", _file(f"from moldau.streams import Serdes\n{STREAMS}"), code=1).stderr
    assert "127.0.0.1:1" in said
    shown = pipeline("status", "p").stdout
    assert "p: failed" in shown
    assert [state["name"] for state in json.loads(pipeline("list", "--json").stdout)] == ["p"]
    assert "moldau streams diff" in pipeline("run", "p.py", "--dry-run", code=2).stderr
    assert "moldau streams reset p --home" in pipeline("run", "p", "--from-scratch", code=2).stderr


def test_a_program_of_streams_in_the_background(
    pipeline: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(pipeline_run, "start", lambda kind, directory, command: started.append(command))
    pipeline("run", _file(STREAMS), "--name", "q", "--detach", "--once", "--conf", "a=1")
    (command,) = started
    assert command[1:5] == ["-m", "moldau", "streams", "run"]
    assert " ".join(command[5:]) == (
        f"{tmp_path}/p.py --name q --home {tmp_path}/home --bootstrap-server 127.0.0.1:1 --once --conf a=1"
    )
