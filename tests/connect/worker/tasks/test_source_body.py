"""Sources: lines become records, places are kept, errors are tolerated or not."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.base.clock import SystemClock
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import ConfigResource, ResourceType
from moldau.client.transport.cluster import Cluster
from moldau.connect.connector import SourceTask
from moldau.connect.records import SourceRecord
from moldau.connect.worker.tasks.client_options import ClientOptions
from moldau.connect.worker.tasks.source_body import IDLE_SECONDS, SourceBody
from moldau.testing import Broker, fail
from tests.connect.conftest import Worker, running
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow

CAST = {
    "transforms": "c",
    "transforms.c.type": "org.apache.kafka.connect.transforms.Cast$Value",
    "transforms.c.spec": "int32",
}


@pytest.fixture(scope="module")
def worker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with running(broker, tmp_path_factory.mktemp("worker")) as worker:
        yield worker


def source(worker: Worker, name: str, file: Path, **more: str) -> None:
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": name, **more}
    worker.call("POST", "/connectors", {"name": name, "config": config})


def position(worker: Worker, name: str) -> object:
    offsets = worker.call("GET", f"/connectors/{name}/offsets")["offsets"]
    return offsets[0]["offset"]["position"] if offsets else None


def payloads(broker: Broker, topic: str) -> list[bytes]:
    if topic not in broker.topics():
        return []
    return [bytes(record.value or b"") for record in broker.records(topic)]


def test_errors_that_are_tolerated_leave_records_out(worker: Worker, broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "s.txt"
    file.write_text("1\nx\n3\n")
    source(worker, "s-all", file, **CAST, **{"errors.tolerance": "all"})
    wait_until(lambda: position(worker, "s-all") == 6, lambda: worker.task("s-all"))
    schema = b'{"schema":{"type":"int32","optional":false},"payload":%d}'
    assert payloads(broker, "s-all") == [schema % 1, schema % 3]
    assert worker.task("s-all")["state"] == "RUNNING"


def test_an_error_that_is_not_tolerated_fails_the_task_at_its_place(
    worker: Worker, broker: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "s.txt"
    file.write_text("1\nx\n3\n")
    source(worker, "s-none", file, **CAST)
    wait_until(lambda: worker.task("s-none")["state"] == "FAILED", lambda: worker.task("s-none"))
    assert len(payloads(broker, "s-none")) == 1
    assert position(worker, "s-none") == 2
    assert "Value (x) was out of range for requested data type" in worker.task("s-none")["trace"]
    file.write_text("1\n2\n3\n")
    worker.call("POST", "/connectors/s-none/restart?includeTasks=true&onlyFailed=true")
    wait_until(lambda: len(payloads(broker, "s-none")) == 3, lambda: worker.task("s-none"))


def test_a_predicate_that_is_not_there_fails_the_task(worker: Worker, tmp_path: Path) -> None:
    source(worker, "pred", tmp_path / "f", **CAST, **{"transforms.c.predicate": "p1"})
    wait_until(lambda: worker.task("pred")["state"] == "FAILED")
    assert "Unknown configuration 'predicates.p1.plugin.version'" in worker.task("pred")["trace"]


def test_topics_are_made_as_their_group_says(worker: Worker, broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\n")
    creation = {
        "topic.creation.groups": "short",
        "topic.creation.default.partitions": "2",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.short.include": "made-s.*",
        "topic.creation.short.retention.ms": "12345",
        "producer.override.compression.type": "gzip",
    }
    for topic in ("made-short", "made-default"):
        source(worker, topic, tmp_path / "f", **creation)
        wait_until(lambda topic=topic: payloads(broker, topic), lambda topic=topic: worker.task(topic))

    async def described() -> dict[str, tuple[int, str]]:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            found = {}
            for topic in ("made-short", "made-default"):
                resource = ConfigResource(ResourceType.TOPIC, topic)
                (entries,) = (await Admin(cluster).describe_configs({resource: ["retention.ms"]})).values()
                assert isinstance(entries, list)
                count = len((await cluster.topic(topic)).partitions)
                found[topic] = (count, str(entries[0].value))
            return found

    assert asyncio.run(described()) == {"made-short": (2, "12345"), "made-default": (2, "604800000")}


def test_a_source_that_may_not_make_topics_writes_to_those_that_are_there(
    worker: Worker, broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic("there")
    (tmp_path / "f").write_text("one\n")
    with broker.intercept("CREATE_TOPICS", lambda request: fail("TOPIC_AUTHORIZATION_FAILED")) as asked:
        source(worker, "there", tmp_path / "f")
        wait_until(lambda: payloads(broker, "there"), lambda: worker.task("there"))
        assert asked.calls == 1
    assert worker.task("there")["state"] == "RUNNING"


def test_a_source_goes_on_where_it_was(broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "é.txt"
    file.write_text("é1\né2\n")
    config = {"name": "again", "connector.class": "FileStreamSource", "file": str(file), "topic": "again"}
    with running(broker, tmp_path, [config]):
        wait_until(lambda: len(payloads(broker, "again")) == 2)
    with file.open("a") as out:
        out.write("é3\n")
    with running(broker, tmp_path, [config]) as worker:
        wait_until(lambda: len(payloads(broker, "again")) >= 3, lambda: worker.task("again"))
    ends = [payload.rpartition(b":")[2] for payload in payloads(broker, "again")]
    assert ends == ['"é1"}'.encode(), '"é2"}'.encode(), '"é3"}'.encode()]


def test_a_source_waits_for_its_cluster(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("one\n")
    config = {"name": "away", "connector.class": "FileStreamSource", "file": str(file), "topic": "away"}
    with Broker() as broker, running(broker, tmp_path, [config]) as worker:
        wait_until(lambda: len(payloads(broker, "away")) == 1)
        broker.stop()
        with file.open("a") as out:
            out.write("two\n")
        broker.start()
        wait_until(lambda: len(payloads(broker, "away")) >= 2, lambda: worker.task("away"))
        wait_until(lambda: worker.task("away")["state"] == "RUNNING")
        ends = [payload.rpartition(b":")[2] for payload in payloads(broker, "away")]
        assert list(dict.fromkeys(ends)) == [b'"one"}', b'"two"}']


def test_avro_through_a_real_registry(broker: Broker, tmp_path: Path) -> None:
    from tests.shared.services import running_registry

    avro = "io.confluent.connect.avro.AvroConverter"
    (tmp_path / "in").write_text("one\n\n")
    with running_registry(broker.bootstrap_servers) as registry:
        converter = {"value.converter": avro, "value.converter.schema.registry.url": registry.url}
        source = {
            "name": "a-in",
            "connector.class": "FileStreamSource",
            "file": str(tmp_path / "in"),
            "topic": "avro",
        }
        sink = {
            "name": "a-out",
            "connector.class": "FileStreamSink",
            "file": str(tmp_path / "out"),
            "topics": "avro",
        }
        with running(broker, tmp_path, [{**source, **converter}, {**sink, **converter}]) as worker:
            wait_until(
                lambda: (tmp_path / "out").exists() and (tmp_path / "out").read_text() == "one\n\n",
                lambda: (worker.task("a-in"), worker.task("a-out")),
            )
        assert registry.http.get("/subjects").json() == ["avro-value"]
        assert registry.http.get("/subjects/avro-value/versions/latest/schema").text == '"string"'
    assert payloads(broker, "avro")[0][5:] == b"\x06one"


def test_a_source_may_have_dead_letters(worker: Worker, broker: Broker, tmp_path: Path) -> None:
    """Beyond Kafka: what cannot be converted is kept, with its place in the source."""
    file = tmp_path / "s.txt"
    file.write_text("1\nx\n3\n")
    letters = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "s-letters",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    source(worker, "s-dead", file, **CAST, **letters)
    wait_until(lambda: position(worker, "s-dead") == 6, lambda: worker.task("s-dead"))
    (letter,) = broker.records("s-letters")
    assert bytes(letter.value or b"") == b"x"
    said = {str(name): bytes(value or b"").decode() for name, value in letter.headers}
    assert said["__connect.errors.stage"] == "TRANSFORMATION"
    assert said["__connect.errors.source.offset"] == '{"position": 4}'


def test_functions_of_modules_that_are_not_listed_are_refused(worker: Worker, tmp_path: Path) -> None:
    config = {
        "connector.class": "FileStreamSource",
        "file": str(tmp_path / "x"),
        "topic": "x",
        "transforms": "p",
        "transforms.p.type": "python",
        "transforms.p.function": "os:system",
    }
    answer = worker.http.post("/connectors", json={"name": "evil", "config": config})
    assert answer.status_code == 400
    assert "The module os is not permitted" in answer.json()["message"]


class Quiet(SourceTask):
    def poll(self) -> list[SourceRecord]:
        return []


class Resting:
    """A control that lets a task poll three times, and remembers how long it was to rest."""

    def __init__(self) -> None:
        self.left, self.rests = 3, list[float]()

    async def ready(self) -> bool:
        self.left -= 1
        return self.left >= 0

    async def rest(self, seconds: float) -> None:
        self.rests.append(seconds)


@pytest.mark.parametrize("waits", [True, False])
def test_a_task_that_waits_by_itself_is_asked_again_at_once(
    waits: bool, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Quiet, "waits", waits)
    control: Any = Resting()

    async def run() -> None:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            parts: Any = SimpleNamespace(
                connector="c",
                task=0,
                settings={},
                cluster=cluster,
                clock=SystemClock(),
                offsets=None,
                clients=ClientOptions(),
            )
            connector: Any = SimpleNamespace(make_task=Quiet)
            await SourceBody(parts, connector)(control)

    asyncio.run(run())
    assert len(control.rests) == 3
    assert all((seconds < IDLE_SECONDS) == waits for seconds in control.rests)


class Hearing(SourceTask):
    """Remembers in which order things happen; the third batch is one that cannot be written."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def poll(self) -> list[SourceRecord]:
        number = sum(event.startswith("poll") for event in self.events)
        self.events.append(f"poll {number}")
        return [] if number == 1 else [SourceRecord(topic="t", value="bad" if number == 2 else "good")]

    def written(self) -> None:
        self.events.append("written")

    def stop(self) -> None:
        self.events.append("stop")


def test_a_task_is_told_when_its_records_are_written_and_not_before(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, control = Hearing(), Resting()

    async def write(body: SourceBody, producer: Any, records: list[SourceRecord], control: Any) -> None:
        task.events.append(f"write {records[0].value}")
        if records[0].value == "bad":
            raise ConnectionError("the broker is away")

    monkeypatch.setattr(SourceBody, "_write", write)

    async def run() -> None:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            parts: Any = SimpleNamespace(
                connector="c",
                task=0,
                settings={},
                cluster=cluster,
                clock=SystemClock(),
                offsets=None,
                clients=ClientOptions(),
            )
            connector: Any = SimpleNamespace(make_task=lambda: task)
            given: Any = control
            with pytest.raises(ConnectionError):
                await SourceBody(parts, connector)(given)

    asyncio.run(run())
    assert task.events == ["poll 0", "write good", "written", "poll 1", "poll 2", "write bad", "stop"]
