"""Tasks in processes of their own: they work as others do, and their crash is theirs alone."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from moldau.connect.errors import ConfigException, ConnectException, RetriableException
from moldau.connect.worker.tasks.own_process import _how_it_ended, _raise_error, in_own_process
from moldau.testing import Broker
from tests.connect.conftest import Worker, in_cluster, running, worker_properties
from tests.shared.waiting import wait_until

OWN = {"isolation": "process"}


def test_what_may_be_chosen() -> None:
    assert in_own_process(OWN)
    assert not in_own_process({"isolation": "worker"})
    assert not in_own_process({})
    with pytest.raises(ConfigException, match="must be one of: worker, process"):
        in_own_process({"isolation": "thread"})


def test_how_a_process_ended() -> None:
    assert _how_it_ended(-9) == "The process of the task was ended by SIGKILL"
    assert "exit status 3" in _how_it_ended(3)
    _raise_error({"ended": None})
    with pytest.raises(RetriableException, match="away"):
        _raise_error({"ended": "away", "passes": True})
    with pytest.raises(ConnectException, match="bad"):
        _raise_error({"ended": "bad", "passes": False})


def lines(file: Path, topic: str, **more: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "file": str(file), "topic": topic, **more}


def payloads(broker: Broker, topic: str) -> list[str]:
    if topic not in broker.topics():
        return []
    return [json.loads(bytes(record.value or b""))["payload"] for record in broker.records(topic)]


def processes(parent: int) -> list[int]:
    """Processes of tasks that a worker has started and that run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # Behind the name, which may have blanks: the state and the parent.
            state, of = (folder / "stat").read_text().rpartition(") ")[2].split()[:2]
            if int(of) == parent and state != "Z" and b"process_main" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def add(file: Path, text: str) -> None:
    with file.open("a") as out:
        out.write(text)


@pytest.mark.slow
def test_a_crash_fails_the_task_and_nothing_else(broker: Broker, tmp_path: Path) -> None:
    for name in ("own", "other"):
        (tmp_path / name).write_text("one\n")
    with running(broker, tmp_path) as worker:
        config = lines(tmp_path / "own", "crash-own", **OWN)
        worker.call("POST", "/connectors", {"name": "own", "config": config})
        worker.call("POST", "/connectors", {"name": "other", "config": lines(tmp_path / "other", "crash")})
        wait_until(lambda: payloads(broker, "crash-own") == ["one"], lambda: worker.task("own"))
        wait_until(lambda: worker.call("GET", "/connectors/own/offsets")["offsets"])
        wait_until(lambda: worker.call("GET", "/connectors/own/topics")["own"]["topics"] == ["crash-own"])
        (process,) = processes(os.getpid())
        os.kill(process, signal.SIGKILL)
        wait_until(lambda: worker.task("own")["state"] == "FAILED", lambda: worker.task("own"))
        assert "was ended by SIGKILL" in worker.task("own")["trace"]
        add(tmp_path / "other", "two\n")
        wait_until(lambda: payloads(broker, "crash") == ["one", "two"])
        assert worker.task("other")["state"] == "RUNNING"
        add(tmp_path / "own", "two\n")
        worker.call("POST", "/connectors/own/tasks/0/restart")
        wait_until(lambda: payloads(broker, "crash-own") == ["one", "two"], lambda: worker.task("own"))
        steered(worker, broker, tmp_path / "own")
    assert processes(os.getpid()) == []


def steered(worker: Worker, broker: Broker, file: Path) -> None:
    (process,) = processes(os.getpid())
    worker.call("PUT", "/connectors/own/stop")
    wait_until(lambda: not Path(f"/proc/{process}").exists())
    add(file, "three\n")
    worker.call("PUT", "/connectors/own/resume")
    wait_until(lambda: payloads(broker, "crash-own") == ["one", "two", "three"])


@pytest.mark.slow
def test_an_error_in_the_process_is_told_with_its_trace(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("1\nx\n")
    cast = {
        "transforms": "c",
        "transforms.c.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.c.spec": "int32",
    }
    config = lines(tmp_path / "in", "told", **OWN, **cast)
    with in_cluster(broker, "told", **{"exactly.once.source.support": "enabled"}) as (worker, _):
        worker.call("POST", "/connectors", {"name": "told", "config": config})
        wait_until(lambda: worker.task("told")["state"] == "FAILED", lambda: worker.task("told"))
        trace = worker.task("told")["trace"]
        assert "Tolerance exceeded in error handler" in trace
        assert "Caused by: org.apache.kafka.connect.errors.DataException" in trace
        fixed = {**config, "errors.tolerance": "all"}
        worker.call("PUT", "/connectors/told/config", fixed)
        wait_until(
            lambda: worker.call("GET", "/connectors/told/offsets")["offsets"], lambda: worker.task("told")
        )
        (place,) = worker.call("GET", "/connectors/told/offsets")["offsets"]
        assert place["offset"] == {"position": 4}
        refused = worker.http.post(
            "/connectors", json={"name": "x", "config": lines(tmp_path / "in", "x", isolation="thread")}
        )
        assert refused.status_code == 400


@pytest.mark.slow
def test_a_process_ends_with_its_worker(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("one\n")
    connector = {"name": "orphan", **lines(tmp_path / "in", "orphan", **OWN)}
    files = []
    for name, settings in {"worker": worker_properties(broker, tmp_path), "orphan": connector}.items():
        file = tmp_path / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        files.append(str(file))
    worker = subprocess.Popen([sys.executable, "-m", "moldau", "connect-standalone", *files])
    try:
        wait_until(lambda: payloads(broker, "orphan") == ["one"])
        (process,) = processes(worker.pid)
    finally:
        worker.kill()
        worker.wait(60)
    wait_until(lambda: not Path(f"/proc/{process}").exists())
