"""REST against the captured calls of a real worker, and where ours is better on purpose."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from moldau.testing import Broker
from tests.connect.conftest import Worker, running
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow

CALLS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "rest" / "calls.json").read_text()
)
#: What is better here than in Apache's, by area and note: the status that ours has.
BETTER = {
    "bad JSON": 400,
    "empty body": 400,
    "JSON null": 400,
    "JSON array": 400,
    "content type with charset": 400,
    "unknown property": 400,
    "no config": 400,
    "config value is an object": 400,
    "config is a string": 400,
    "initial_state bad": 400,
    "PUT bad JSON": 400,
    "PUT a config wrapped as for POST": 400,
    "PATCH bad JSON": 400,
    "stopped, unknown key": 400,
    "unknown": 404,
}


@pytest.fixture(scope="module")
def worker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with running(broker, tmp_path_factory.mktemp("worker")) as worker:
        yield worker


@pytest.fixture(autouse=True)
def _clean(worker: Worker) -> Iterator[None]:
    yield
    for name in worker.call("GET", "/connectors"):
        worker.call("DELETE", f"/connectors/{quote(name, safe='')}")


def send(worker: Worker, call: dict[str, Any]) -> Any:
    request = call["request"]
    headers = {name: value for name, value in request.get("headers", {}).items() if name != "Authorization"}
    content: bytes | None = None
    if "raw" in request or isinstance(request.get("body"), str):
        content = str(request.get("raw", request.get("body"))).encode()
    elif "body" in request:
        content = json.dumps(request["body"]).encode()
    if content is not None and "Content-Type" not in headers and call["note"] != "no content type":
        headers["Content-Type"] = "application/json"
    return worker.http.request(request["method"], request["path"], content=content, headers=headers)


def area(name: str) -> list[dict[str, Any]]:
    return [call for call in CALLS if call["area"] == name]


def refused() -> list[dict[str, Any]]:
    """Calls that are refused whatever was done before."""
    found = [call for call in area("connectors: bodies that are refused") if (call["status"] or 0) >= 400]
    found += [call for call in area("root") + area("validate") if (call["status"] or 0) >= 400]
    return [call for call in found if call["status"] != 409 and "Mirror" not in call["request"]["path"]]


@pytest.mark.parametrize("call", refused(), ids=lambda call: f"{call['request']['path']} {call['note']}")
def test_what_is_refused(worker: Worker, call: dict[str, Any]) -> None:
    answer = send(worker, call)
    body = answer.json()
    if call["note"] in BETTER:
        assert answer.status_code == BETTER[call["note"]]
        assert body["message"]
        return
    assert answer.status_code == call["status"]
    expected = call["body"]["message"]
    if "<list of PluginDesc" in expected:
        assert body["message"].startswith(expected.partition("<list")[0] + "PluginDesc{klass=class ")
    else:
        assert body == call["body"]


def test_bad_json_says_where(worker: Worker) -> None:
    answer = worker.http.post(
        "/connectors", content=b'{"name": ', headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    assert "line 1 column 10" in answer.json()["message"]


def source(file: Path, topic: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": str(file),
        "topic": topic,
        **more,
    }


def test_the_life_of_a_source(worker: Worker, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_text("one\ntwo\n")
    config = source(file, "life")
    made = worker.http.post("/connectors", json={"name": "src", "config": config})
    assert made.status_code == 201
    assert made.headers["Location"] == f"{worker.url}/connectors/src"
    kept = {**config, "name": "src"}
    info = {"name": "src", "config": kept, "tasks": [{"connector": "src", "task": 0}], "type": "source"}
    assert made.json() == info
    again = worker.http.post("/connectors", json={"name": "src", "config": config})
    assert (again.status_code, again.json()["message"]) == (409, "Connector src already exists")
    where = worker.url.removeprefix("http://")
    at_work = {"state": "RUNNING", "worker_id": where, "version": "4.3.0"}
    wait_until(lambda: worker.task("src")["state"] == "RUNNING")
    assert worker.call("GET", "/connectors/src/status") == {
        "name": "src",
        "connector": at_work,
        "tasks": [{"id": 0, **at_work}],
        "type": "source",
    }
    place = [{"partition": {"filename": str(file)}, "offset": {"position": 8}}]
    wait_until(lambda: worker.call("GET", "/connectors/src/offsets")["offsets"] == place)
    assert worker.call("GET", "/connectors/src/topics") == {"src": {"topics": ["life"]}}
    task_config = {**kept, "task.class": "org.apache.kafka.connect.file.FileStreamSourceTask"}
    assert worker.call("GET", "/connectors/src/tasks") == [
        {"id": {"connector": "src", "task": 0}, "config": task_config}
    ]
    assert worker.call("GET", "/connectors?expand=info&expand=status")["src"]["info"] == info
    assert worker.call("GET", "/connectors?expand=foo") == {"src": {}}
    worker.call("PUT", "/connectors/src/pause")
    assert worker.task("src")["state"] == "PAUSED"
    worker.call("PUT", "/connectors/src/resume")
    assert worker.task("src")["state"] == "RUNNING"
    worker.call("PUT", "/connectors/src/stop")
    status = worker.call("GET", "/connectors/src/status")
    assert (status["connector"]["state"], status["tasks"]) == ("STOPPED", [])
    assert worker.http.delete("/connectors/src").status_code == 204
    gone = worker.http.get("/connectors/src/status")
    assert (gone.status_code, gone.json()["message"]) == (404, "No status found for connector src")
    worker.call("POST", "/connectors", {"name": "src", "config": config})
    assert worker.call("GET", "/connectors/src/offsets")["offsets"] in ([], place)  # it began anew


def test_configurations_change(worker: Worker, tmp_path: Path) -> None:
    config = source(tmp_path / "f", "changes")
    assert worker.http.put("/connectors/c/config", json=config).status_code == 201
    assert worker.http.put("/connectors/c/config", json={**config, "batch.size": 10}).status_code == 200
    assert worker.call("GET", "/connectors/c/config")["batch.size"] == "10"
    patched = worker.call("PATCH", "/connectors/c/config", {"batch.size": None, "errors.tolerance": "all"})
    assert patched["config"] == {**config, "name": "c", "errors.tolerance": "all"}
    bad = worker.http.patch("/connectors/c/config", json={"topic": None})
    assert bad.status_code == 400
    assert 'Missing required configuration "topic"' in bad.json()["message"]
    other = worker.http.put("/connectors/c/config", json={**config, "name": "other"})
    assert other.json()["message"] == (
        "Connector name configuration (other) doesn't match connector name in the URL (c)"
    )


@pytest.mark.parametrize("state", ["PAUSED", "stopped"])
def test_initial_states(worker: Worker, tmp_path: Path, state: str) -> None:
    body = {"name": "early", "config": source(tmp_path / "f", "early"), "initial_state": state}
    assert worker.call("POST", "/connectors", body)["tasks"] == []
    status = worker.call("GET", "/connectors/early/status")
    assert (status["connector"]["state"], status["tasks"]) == (state.upper(), [])
    worker.call("PUT", "/connectors/early/resume")
    wait_until(lambda: worker.task("early")["state"] == "RUNNING")


def test_restarts(worker: Worker, tmp_path: Path) -> None:
    worker.call("POST", "/connectors", {"name": "r", "config": source(tmp_path / "f", "restarts")})
    assert worker.http.post("/connectors/r/restart").status_code == 204
    both = worker.http.post("/connectors/r/restart?includeTasks=true")
    assert both.status_code == 202
    assert both.json()["connector"]["state"] == "RESTARTING"
    assert both.json()["tasks"][0]["state"] == "RESTARTING"
    wait_until(lambda: worker.task("r")["state"] == "RUNNING")
    assert worker.http.post("/connectors/r/tasks/0/restart").status_code == 204
    for path, message in (
        ("/connectors/r/tasks/9/restart", "Task r-9 not found"),
        ("/connectors/r/tasks/x/restart", "HTTP 404 Not Found"),
        ("/connectors/nope/restart", "Unknown connector: nope"),
    ):
        answer = worker.http.post(path)
        assert (answer.status_code, answer.json()["message"]) == (404, message)


UNKNOWN = [
    ("GET", "/connectors/nope", "Connector nope not found"),
    ("GET", "/connectors/nope/config", "Connector nope not found"),
    ("GET", "/connectors/nope/status", "No status found for connector nope"),
    ("GET", "/connectors/nope/tasks", "Connector nope not found"),
    ("GET", "/connectors/nope/tasks/0/status", "No status found for task nope-0"),
    ("GET", "/connectors/nope/tasks-config", "HTTP 404 Not Found"),
    ("GET", "/connectors/nope/offsets", "Connector nope not found"),
    ("DELETE", "/connectors/nope", "Connector nope not found"),
    ("DELETE", "/connectors/nope/offsets", "Connector nope not found"),
    ("PUT", "/connectors/nope/pause", "Unknown connector nope"),
    ("PUT", "/connectors/nope/resume", "Unknown connector nope"),
    ("PUT", "/connectors/nope/stop", "Unknown connector nope"),
]


@pytest.mark.parametrize(("method", "path", "message"), UNKNOWN)
def test_connectors_that_are_not_there(worker: Worker, method: str, path: str, message: str) -> None:
    answer = worker.http.request(method, path)
    assert (answer.status_code, answer.json()) == (404, {"error_code": 404, "message": message})


def test_what_apaches_workers_ask_each_other(worker: Worker) -> None:
    for call in area("standalone differences"):
        if call["note"].startswith("internal: "):
            answer = send(worker, call)
            assert (answer.status_code, answer.json()) == (call["status"], call["body"])


def test_names_with_any_characters(worker: Worker, tmp_path: Path) -> None:
    for name in ("a/b c%d", "Moldau é"):
        worker.call("POST", "/connectors", {"name": name, "config": source(tmp_path / "f", "enc")})
        path = f"/connectors/{quote(name, safe='')}"
        assert worker.call("GET", f"{path}/config")["name"] == name
        assert worker.http.delete(path).status_code == 204


@pytest.mark.parametrize(
    "call",
    [call for call in area("offsets, source") if call["note"].startswith("stopped,")],
    ids=lambda call: call["note"],
)
def test_places_of_a_stopped_source(worker: Worker, tmp_path: Path, call: dict[str, Any]) -> None:
    body = {"name": "src", "config": source(tmp_path / "f", "places"), "initial_state": "STOPPED"}
    worker.call("POST", "/connectors", body)
    answer = send(worker, call)
    if call["note"] in BETTER:
        assert answer.status_code == BETTER[call["note"]]
    else:
        assert (answer.status_code, answer.json()) == (call["status"], call["body"])
    assert worker.http.delete("/connectors/src/offsets").status_code == 200
    assert worker.call("GET", "/connectors/src/offsets") == {"offsets": []}


def test_offsets_change_only_while_stopped(worker: Worker, tmp_path: Path) -> None:
    worker.call("POST", "/connectors", {"name": "src", "config": source(tmp_path / "f", "x")})
    (expected,) = [call["body"] for call in area("offsets, source") if call["note"] == "running"][:1]
    body = {"offsets": [{"partition": {"filename": "in.txt"}, "offset": {"position": 4}}]}
    assert worker.http.patch("/connectors/src/offsets", json=body).json() == expected


def test_offsets_of_a_sink(worker: Worker, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("t-src")
    sink = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": "t-src"}
    worker.call("POST", "/connectors", {"name": "snk", "config": sink, "initial_state": "STOPPED"})
    calls = area("offsets, sink")
    begin = next(index for index, call in enumerate(calls) if call["note"] == "stopped, good")
    for call in calls[begin:]:
        if call["request"]["path"].endswith("/resume"):
            break
        answer = send(worker, call)
        assert (answer.status_code, answer.json()) == (call["status"], call["body"]), call["note"]


def test_plugins(worker: Worker) -> None:
    for call in area("connector-plugins"):
        path = call["request"]["path"]
        answer = send(worker, call)
        assert answer.status_code == call["status"], path
        if call["status"] >= 400:
            assert answer.json() == call["body"]
        elif path.endswith("/config") or "/config?" in path:
            assert [key["name"] for key in answer.json()] == call["body"][1:]
        elif path == "/connector-plugins":
            known = {each["class"] for each in call["body"]}
            expected = [each for each in call["body"] if "Mirror" not in each["class"]]
            assert [each for each in answer.json() if each["class"] in known] == expected


def test_loggers(worker: Worker) -> None:
    assert worker.call("PUT", "/admin/loggers/a.b", {"level": "debug"}) == ["a.b"]
    assert worker.call("GET", "/admin/loggers/a.b")["level"] == "DEBUG"
    bad = worker.http.put("/admin/loggers/a.b", json={"level": "LOUD"})
    assert (bad.status_code, bad.json()["message"]) == (404, "invalid log level 'LOUD'.")
    none = worker.http.put("/admin/loggers/a.b", json={})
    assert (none.status_code, none.json()["message"]) == (
        400,
        "Desired 'level' parameter was not specified in request.",
    )
    missing = worker.http.get("/admin/loggers/no.such.logger")
    assert (missing.status_code, missing.json()["message"]) == (404, "Logger no.such.logger not found.")


def test_the_worker_itself(worker: Worker) -> None:
    assert re.fullmatch(r"[\w-]{22}", worker.call("GET", "/")["kafka_cluster_id"])
    assert worker.call("GET", "/health")["status"] == "healthy"
    assert worker.call("GET", "/openapi.json")["info"]["title"] == "Moldau Connect"


def test_names_and_passwords(broker: Broker, tmp_path: Path) -> None:
    with running(broker, tmp_path, users={"ann": "hush"}) as guarded:
        assert guarded.http.get("/connectors").status_code == 401
        assert guarded.http.get("/connectors", auth=("ann", "hush")).status_code == 200


def test_paths_that_are_not_allowed(broker: Broker, tmp_path: Path) -> None:
    inside = tmp_path / "data"
    inside.mkdir()
    with running(broker, tmp_path, connectors_allowed_paths=str(inside)) as worker:
        bad = worker.http.post("/connectors", json={"name": "x", "config": source(tmp_path / "passwd", "t")})
        assert bad.status_code == 400
        assert "is not permitted to be accessed" in bad.json()["message"]
        worker.call("POST", "/connectors", {"name": "y", "config": source(inside / "f", "t")})
