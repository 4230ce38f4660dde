"""REST against the captured calls of a real worker, and where ours is better on purpose."""

import json
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from moldau.connect.connectors.file.stream import FileStreamSource
from moldau.connect.errors import ConfigException, ConnectException
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


def test_connectors_without_a_status_are_left_out_of_the_list(worker: Worker, tmp_path: Path) -> None:
    for name in ("told", "untold"):
        worker.call("POST", "/connectors", {"name": name, "config": source(tmp_path / "f", name)})
    worker.herder.statuses.learn("untold", None, None)  # as between the two records of a new one
    assert list(worker.call("GET", "/connectors?expand=status&expand=info")) == ["told"]
    assert list(worker.call("GET", "/connectors?expand=info")) == ["told", "untold"]


@pytest.mark.parametrize("asked", ["FileStreamSource", "FileStreamSourceConnector"])
def test_a_full_class_name_is_checked_under_its_short_one(worker: Worker, tmp_path: Path, asked: str) -> None:
    config = {**source(tmp_path / "f", "t"), "name": "v"}
    for given in ("FileStreamSource", "org.apache.kafka.connect.file.FileStreamSourceConnector"):
        body = {**config, "connector.class": given}
        answer = worker.http.put(f"/connector-plugins/{asked}/config/validate", json=body)
        assert (answer.status_code, answer.json()["error_count"]) == (200, 0)
    other = worker.http.put(
        f"/connector-plugins/{asked}/config/validate", json={**config, "connector.class": "FileStreamSink"}
    )
    assert (other.status_code, other.json()["message"]) == (
        400,
        f"Included connector type FileStreamSink does not match request type {asked}",
    )


def test_offsets_of_a_sink_by_time(worker: Worker, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("t-time")
    for number in (1, 2, 3):
        broker.produce("t-time", b"x", timestamp_ms=1000 * number)
    sink = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": "t-time"}
    worker.call("POST", "/connectors", {"name": "time", "config": sink, "initial_state": "STOPPED"})
    partition = {"kafka_topic": "t-time", "kafka_partition": 0}
    for when, offset in ((1500, 1), ("3000", 2), (9999, 3), (0, 0)):
        place = {"partition": partition, "offset": {"kafka_timestamp": when}}
        worker.call("PATCH", "/connectors/time/offsets", {"offsets": [place]})
        found = worker.call("GET", "/connectors/time/offsets")["offsets"]
        assert found == [{"partition": partition, "offset": {"kafka_offset": offset}}]
    for bad in ("soon", -1, 1.5):
        place = {"partition": partition, "offset": {"kafka_timestamp": bad}}
        answer = worker.http.patch("/connectors/time/offsets", json={"offsets": [place]})
        assert (answer.status_code, "milliseconds since 1970" in answer.text) == (400, True)


def test_offsets_beyond_the_numbers_of_kafka(worker: Worker, tmp_path: Path) -> None:
    sink = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": "t-wide"}
    worker.call("POST", "/connectors", {"name": "wide", "config": sink, "initial_state": "STOPPED"})
    for partition, offset, what in (
        (1 << 31, 1, "partition"),
        ("1_0", 1, "partition"),
        (0, 1 << 63, "offset"),
    ):
        place = {
            "partition": {"kafka_topic": "t-wide", "kafka_partition": partition},
            "offset": {"kafka_offset": offset},
        }
        answer = worker.http.patch("/connectors/wide/offsets", json={"offsets": [place]})
        assert answer.status_code == 400, answer.text
        assert f"Failed to parse the following Kafka {what} value" in answer.json()["message"]


def test_secrets_are_used_and_not_shown(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\n")
    kept = tmp_path / "kept.properties"
    kept.write_text(
        f"tasks=1\ntopic=from-a-secret\noutside=/etc/hush-hush\nbad=hush-hush\nfile={tmp_path}/f\n"
    )
    provider = "org.apache.kafka.common.config.provider.FileConfigProvider"
    properties = {"config_providers": "file", "config_providers_file_class": provider}
    with running(broker, tmp_path, connectors_allowed_paths=str(tmp_path), **properties) as worker:
        config = {name: f"${{file:{kept}:{name}}}" for name in ("file", "topic")}
        config |= {"connector.class": "FileStreamSource", "tasks.max": f"${{file:{kept}:tasks}}"}
        worker.call("POST", "/connectors", {"name": "secret", "config": config})
        wait_until(lambda: worker.call("GET", "/connectors/secret/topics")["secret"]["topics"])
        assert worker.call("GET", "/connectors/secret/config") == {**config, "name": "secret"}
        worker.call("PUT", "/connectors/secret/stop")
        place = {"partition": {"filename": "x"}, "offset": {"position": 1}}
        worker.call("PATCH", "/connectors/secret/offsets", {"offsets": [place]})
        for name, key in (("file", "outside"), ("producer.override.linger.ms", "bad"), ("tasks.max", "bad")):
            changed = {**config, name: f"${{file:{kept}:{key}}}"}
            answer = worker.http.put("/connectors/secret/config", json=changed)
            assert answer.status_code == 400
            assert "hush-hush" not in answer.text
            assert changed[name] in answer.json()["message"]


def test_a_restart_of_what_is_stopped(worker: Worker, tmp_path: Path) -> None:
    body = {"name": "held", "config": source(tmp_path / "f", "held"), "initial_state": "STOPPED"}
    worker.call("POST", "/connectors", body)
    answer = worker.http.post("/connectors/held/restart?includeTasks=true")
    assert (answer.status_code, answer.json()["connector"]["state"]) == (202, "RESTARTING")
    assert worker.call("GET", "/connectors/held/status")["connector"]["state"] == "STOPPED"
    for number, message in (
        ("-1", "No status found for task held--1"),
        ("99999999999", "HTTP 404 Not Found"),
    ):
        missing = worker.http.get(f"/connectors/held/tasks/{number}/status")
        assert (missing.status_code, missing.json()["message"]) == (404, message)
    huge = [{"partition": {"filename": "x"}, "offset": {"position": 2**70}}]
    refused = worker.http.patch("/connectors/held/offsets", json={"offsets": huge})
    assert (refused.status_code, refused.json()["message"]) == (
        500,
        "Offsets may only contain primitive types as values, but field position contains class "
        "java.math.BigInteger",
    )


def test_more_tasks_than_there_may_be(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileStreamSource, "task_settings", lambda self, most: [dict(self.given)] * 2)
    config = source(tmp_path / "f", "many")
    worker.call("POST", "/connectors", {"name": "many", "config": config})
    status = worker.call("GET", "/connectors/many/status")
    assert (status["connector"]["state"], status["tasks"]) == ("FAILED", [])
    assert "The connector many has generated 2 tasks, which is greater than 1" in status["connector"]["trace"]
    worker.call("PUT", "/connectors/many/config", {**config, "tasks.max.enforce": "false"})
    status = worker.call("GET", "/connectors/many/status")
    assert (status["connector"]["state"], len(status["tasks"])) == ("RUNNING", 2)


def test_a_connector_whose_plan_failed_gets_its_tasks_with_a_restart(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, most: int) -> None:
        raise ConnectException("the library is missing")

    with monkeypatch.context() as patch:
        patch.setattr(FileStreamSource, "task_settings", fail)
        worker.call("POST", "/connectors", {"name": "late", "config": source(tmp_path / "f", "late")})
        status = worker.call("GET", "/connectors/late/status")
        assert (status["connector"]["state"], status["tasks"]) == ("FAILED", [])
        assert "the library is missing" in status["connector"]["trace"]
    worker.call("POST", "/connectors/late/restart")
    status = worker.call("GET", "/connectors/late/status")
    assert (status["connector"]["state"], len(status["tasks"])) == ("RUNNING", 1)


def test_numbers_of_a_configuration_are_texts_to_the_letter(worker: Worker, tmp_path: Path) -> None:
    known = f'"connector.class": "FileStreamSource", "file": "{tmp_path}/f", "topic": "n"'
    config = f'{{{known}, "x": 1.50, "y": 1e-7}}'
    answer = worker.http.put(
        "/connectors/n/config", content=config, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 201
    assert (answer.json()["config"]["x"], answer.json()["config"]["y"]) == ("1.50", "1e-7")


def test_topics_that_are_not_tracked(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\n")
    with running(broker, tmp_path, topic_tracking_allow_reset="false") as worker:
        reset = worker.http.put("/connectors/x/topics/reset")
        assert (reset.status_code, reset.json()["message"]) == (403, "Topic tracking reset is disabled.")
        assert worker.call("GET", "/connectors/x/topics") == {"x": {"topics": []}}
    with running(broker, tmp_path, topic_tracking_enable="false") as worker:
        worker.call("POST", "/connectors", {"name": "x", "config": source(tmp_path / "f", "untracked")})
        wait_until(lambda: worker.call("GET", "/connectors/x/offsets")["offsets"])
        assert worker.herder.statuses.topics("x") == []
        for method, path in (("GET", "topics"), ("PUT", "topics/reset")):
            answer = worker.http.request(method, f"/connectors/x/{path}")
            assert (answer.status_code, answer.json()["message"]) == (403, "Topic tracking is disabled.")


def test_https(broker: Broker, tmp_path: Path, tls_files: Path) -> None:
    certificate = tls_files / "server.pem"
    both = tmp_path / "both.pem"
    both.write_text(certificate.read_text() + (tls_files / "server.key").read_text())
    address = "https://127.0.0.1:0"
    store = {"listeners_https_ssl_keystore_location": str(both)}
    with running(broker, tmp_path, listeners=address, **store) as worker:
        assert worker.url.startswith("https://")
        trusting = ssl.create_default_context(cafile=str(certificate))
        assert httpx.get(f"{worker.url}/health", verify=trusting, trust_env=False).status_code == 200
        with pytest.raises(httpx.ConnectError):
            worker.http.get("/")  # which does not know who signed it
    with (
        pytest.raises(ConfigException, match=r"needs listeners\.https\.ssl\.keystore\.location"),
        running(broker, tmp_path, listeners=address),
    ):
        pass


def test_loggers(worker: Worker) -> None:
    assert worker.call("PUT", "/admin/loggers/a.b", {"level": "debug"}) == ["a.b"]
    assert worker.call("GET", "/admin/loggers/a.b")["level"] == "DEBUG"
    assert worker.call("PUT", "/admin/loggers/a.b?scope=planet", {"level": "debug"}) == []
    everywhere = worker.http.put("/admin/loggers/a.b?scope=cluster", json={"level": "off"})
    assert (everywhere.status_code, everywhere.content) == (204, b"")
    assert worker.call("GET", "/admin/loggers/a.b")["level"] == "OFF"
    bad = worker.http.put("/admin/loggers/a.b", json={"level": "LOUD"})
    assert (bad.status_code, bad.json()["message"]) == (404, "invalid log level 'LOUD'.")
    none = worker.http.put("/admin/loggers/a.b", json={})
    assert (none.status_code, none.json()["message"]) == (
        400,
        "Desired 'level' parameter was not specified in request.",
    )
    missing = worker.http.get("/admin/loggers/no.such.logger")
    assert (missing.status_code, missing.json()["message"]) == (404, "Logger no.such.logger not found.")


def test_head_and_options(worker: Worker) -> None:
    head = worker.http.head("/connectors")
    assert (head.status_code, head.content, head.headers["Content-Length"]) == (200, b"", "2")
    assert worker.http.head("/connectors/nope").status_code == 404
    assert worker.http.head("/connectors/nope/restart").status_code == 405
    options = worker.http.options("/connectors")
    assert options.status_code == 200
    assert set(options.headers["Allow"].split(",")) == {"HEAD", "POST", "GET", "OPTIONS"}
    assert worker.http.options("/nope").status_code == 404


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
