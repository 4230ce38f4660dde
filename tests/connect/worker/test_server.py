"""Several workers: connectors have one each, move when it goes, and leave their marks in Kafka's topics."""

import json
from pathlib import Path
from typing import Any

import pytest

from moldau.client.replicated_state.replicated_state import NoLeader
from moldau.connect.worker.assignment import owner_of
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.testing import Broker
from tests.connect.conftest import Worker, in_cluster
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow


def source(file: Path, topic: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}


def owner(worker: Worker, name: str) -> str | None:
    """The worker that says that it runs a task of a connector."""
    answer = worker.http.get(f"/connectors/{name}/status")
    if answer.status_code != 200:
        return None
    tasks = answer.json()["tasks"]
    return tasks[0]["worker_id"] if tasks and tasks[0]["state"] == "RUNNING" else None


def lines(broker: Broker, topic: str) -> list[str]:
    if topic not in broker.topics():
        return []
    return [json.loads(bytes(record.value or b""))["payload"] for record in broker.records(topic)]


def test_one_worker_has_each_connector_and_another_takes_over(broker: Broker, tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(8)]
    with in_cluster(broker, "moves") as (first, end_first), in_cluster(broker, "moves") as (second, _):
        ids = [worker.url.removeprefix("http://") for worker in (first, second)]
        # A connector that moves amid its first record may write it twice; here all stay where they are.
        wait_until(lambda: all(worker.herder.store.lives(each) for worker in (first, second) for each in ids))
        for number, name in enumerate(names):
            (tmp_path / name).write_text("one\n")
            asked = (first, second)[number % 2]  # the one that does not lead passes it on
            asked.call(
                "POST", "/connectors", {"name": name, "config": source(tmp_path / name, f"moves-{name}")}
            )

        def settled() -> bool:
            expected = {name: owner_of(name, [first.url, second.url]) for name in names}
            return all(f"http://{owner(second, name)}" == expected[name] for name in names)

        wait_until(settled, lambda: [owner(second, name) for name in names])
        assert sorted(first.call("GET", "/connectors")) == sorted(second.call("GET", "/connectors")) == names

        def written() -> dict[str, list[str]]:
            return {name: lines(broker, f"moves-{name}") for name in names}

        wait_until(lambda: all(each == ["one"] for each in written().values()), lambda: str(written()))
        stayed = [name for name in names if owner(second, name) == ids[1]]
        gone = [name for name in names if name not in stayed]
        assert stayed
        assert gone
        kept = {name: second.herder._live[name].tasks[0] for name in stayed}
        end_first()
        wait_until(lambda: all(owner(second, name) == ids[1] for name in names))
        for name in stayed:  # they went on without a break
            assert second.herder._live[name].tasks[0] is kept[name]
        for name in names:
            with (tmp_path / name).open("a") as out:
                out.write("two\n")
        wait_until(lambda: all(len(lines(broker, f"moves-{name}")) >= 2 for name in names))
        assert all(lines(broker, f"moves-{name}") == ["one", "two"] for name in names)


def test_any_worker_answers_for_all(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_text("one\n")
    with in_cluster(broker, "asked") as (first, _), in_cluster(broker, "asked") as (second, _):
        first.call("POST", "/connectors", {"name": "x", "config": source(tmp_path / "f", "asked-x")})
        for worker in (first, second):
            wait_until(lambda worker=worker: owner(worker, "x") is not None)
            assert worker.http.post("/connectors/x/restart?includeTasks=true").status_code == 202
            wait_until(lambda worker=worker: owner(worker, "x") is not None)
            worker.call("PUT", "/connectors/x/pause")
            wait_until(lambda worker=worker: worker.task("x")["state"] == "PAUSED")
            worker.call("PUT", "/connectors/x/resume")
        place = [{"partition": {"filename": str(tmp_path / "f")}, "offset": {"position": 4}}]
        for worker in (first, second):
            wait_until(lambda worker=worker: worker.call("GET", "/connectors/x/offsets")["offsets"] == place)
            wait_until(
                lambda worker=worker: worker.call("GET", "/connectors/x/topics")["x"]["topics"] == ["asked-x"]
            )
        for asked in (first, second):
            asked.call("PUT", "/connectors/x/topics/reset")
            for worker in (first, second):
                wait_until(
                    lambda worker=worker: not worker.call("GET", "/connectors/x/topics")["x"]["topics"]
                )
            with (tmp_path / "f").open("a") as out:
                out.write("more\n")
            for worker in (first, second):
                wait_until(lambda worker=worker: worker.call("GET", "/connectors/x/topics")["x"]["topics"])
        missing = second.http.post("/connectors/x/tasks/7/restart")
        assert (missing.status_code, missing.json()["message"]) == (404, "Unknown task: x-7")
        inside = first.http.post("/connectors/x/tasks", json=[{}])
        assert (inside.status_code, inside.json()["message"]) == (
            400,
            "Internal request missing required signature",
        )
        said: list[tuple[str, str]] = []
        for worker in (first, second):
            worker.herder.store.on_level = lambda logger, level: said.append((logger, level))
        second.call("PUT", "/admin/loggers/levels.all?scope=cluster", {"level": "error"})
        wait_until(lambda: said == [("levels.all", "ERROR")] * 2, lambda: str(said))
        assert [worker.call("GET", "/health")["status"] for worker in (first, second)] == ["healthy"] * 2
        for error, status in ((NoLeader("nobody"), 409), (KafkaError(ErrorCode.REQUEST_TIMED_OUT), 500)):

            async def fail(decide: object, error: Exception = error) -> None:
                raise error

            with monkeypatch.context() as patch:
                patch.setattr(first.herder.store.replicated, "change", fail)
                answer = first.http.put("/connectors/x/pause")
            assert answer.status_code == status
            assert ("no known leader" if status == 409 else "REQUEST_TIMED_OUT") in answer.json()["message"]
        second.call("DELETE", "/connectors/x")
        wait_until(lambda: first.call("GET", "/connectors") == [])
        wait_until(lambda: first.http.get("/connectors/x/status").status_code == 404)


def latest(broker: Broker, topic: str) -> dict[str, Any]:
    """What compaction would leave of a topic."""
    found: dict[str, Any] = {}
    for record in broker.records(topic):
        value = None if record.value is None else json.loads(bytes(record.value))
        found[bytes(record.key or b"").decode()] = value
    return {key: value for key, value in found.items() if value is not None}


def test_the_topics_have_the_records_of_kafka(broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "life.txt"
    file.write_text("one\ntwo\n")
    config = source(file, "t-life")
    with in_cluster(broker, "life") as (worker, _):
        worker.call("POST", "/connectors", {"name": "src", "config": config})
        offset_key = json.dumps(["src", {"filename": str(file)}], separators=(",", ":"))
        wait_until(lambda: latest(broker, "life-offsets") == {offset_key: {"position": 8}})
        kept = {**config, "name": "src"}
        task = {**kept, "task.class": "org.apache.kafka.connect.file.FileStreamSourceTask"}
        assert latest(broker, "life-configs") == {
            "connector-src": {"properties": kept},
            "task-src-0": {"properties": task},
            "commit-src": {"tasks": 1},
        }

        def statuses() -> dict[str, Any]:
            return latest(broker, "life-status")

        wait_until(lambda: "status-topic-t-life:connector-src" in statuses(), statuses)
        status = statuses()["status-task-src-0"]
        assert {**status, "generation": 0} == {
            "state": "RUNNING",
            "trace": None,
            "worker_id": worker.url.removeprefix("http://"),
            "generation": 0,
            "version": "4.3.0",
        }
        worker.call("PUT", "/connectors/src/stop")
        stopped = latest(broker, "life-configs")
        assert stopped["target-state-src"] == {"state": "PAUSED", "state.v2": "STOPPED"}
        assert stopped["commit-src"] == {"tasks": 0}
        worker.call("DELETE", "/connectors/src")
        wait_until(lambda: not latest(broker, "life-configs") and not statuses(), statuses)
        wait_until(lambda: not latest(broker, "life-offsets"))  # nothing stays behind


def test_a_cluster_that_starts_again_goes_on(broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("one\n")
    with in_cluster(broker, "again") as (worker, _):
        worker.call("POST", "/connectors", {"name": "a", "config": source(file, "again-a")})
        wait_until(lambda: lines(broker, "again-a") == ["one"])
        wait_until(lambda: worker.call("GET", "/connectors/a/offsets")["offsets"])
    with file.open("a") as out:
        out.write("two\n")
    with in_cluster(broker, "again") as (worker, _):
        wait_until(lambda: lines(broker, "again-a") == ["one", "two"], lambda: worker.task("a"))
