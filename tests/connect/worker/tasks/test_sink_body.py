"""Sinks: what reaches them, what becomes a dead letter, what is committed; after a real worker's results."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.testing import Broker, fail
from tests.connect.conftest import Worker, running
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def worker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with running(broker, tmp_path_factory.mktemp("worker")) as worker:
        yield worker


def text(payload: str) -> bytes:
    return b'{"schema":{"type":"string","optional":false},"payload":"%b"}' % payload.encode()


def fill(broker: Broker, topic: str) -> None:
    """Five records: good, no JSON, a key that is no JSON, good, and nothing at all."""
    broker.create_topic(topic)
    broker.produce(topic, text("good"), partition=0)
    broker.produce(topic, b"no json", headers=[("h1", b"v1")], partition=0)
    broker.produce(topic, text("k"), key=b"no json", partition=0)
    broker.produce(topic, text("12"), partition=0)
    broker.produce(topic, None, partition=0)


def sink(worker: Worker, name: str, file: Path, topic: str, **more: str) -> None:
    settings = {key.replace("_", "."): value for key, value in more.items()}
    config = {"connector.class": "FileStreamSink", "file": str(file), "topics": topic, **settings}
    worker.call("POST", "/connectors", {"name": name, "config": config})


def committed(worker: Worker, name: str) -> list[int]:
    offsets = worker.call("GET", f"/connectors/{name}/offsets")["offsets"]
    return [each["offset"]["kafka_offset"] for each in offsets]


def test_a_bad_record_fails_the_task_behind_the_good_ones(
    worker: Worker, broker: Broker, tmp_path: Path
) -> None:
    fill(broker, "e1")
    sink(worker, "strict", tmp_path / "out", "e1")
    wait_until(lambda: worker.task("strict")["state"] == "FAILED", lambda: worker.task("strict"))
    assert (tmp_path / "out").read_text() == "good\n"  # where Apache's loses it with the rest
    assert committed(worker, "strict") == [1]
    trace = worker.task("strict")["trace"]
    assert trace.startswith(
        "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler\n\tat "
    )
    cause = (
        "Caused by: org.apache.kafka.connect.errors.DataException: Converting byte[] to Kafka Connect data"
    )
    assert cause in trace
    status = worker.call("GET", "/connectors/strict/status")
    assert status["connector"]["state"] == "RUNNING"


@pytest.mark.parametrize("context", ["true", "false"])
def test_bad_records_become_dead_letters(
    worker: Worker, broker: Broker, tmp_path: Path, context: str
) -> None:
    topic, letters, name = f"e2-{context}", f"dlq-{context}", f"all-{context}"
    fill(broker, topic)
    sink(
        worker,
        name,
        tmp_path / "out",
        topic,
        compatibility="kafka",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=letters,
        errors_deadletterqueue_topic_replication_factor="1",
        errors_deadletterqueue_context_headers_enable=context,
    )
    wait_until(lambda: committed(worker, name) == [5], lambda: worker.task(name))
    assert (tmp_path / "out").read_text() == "good\n12\nnull\n"
    value, key = broker.records(letters)
    assert (bytes(value.value or b""), bytes(key.key or b"")) == (b"no json", b"no json")
    own = [(str(header), bytes(content or b"").decode()) for header, content in value.headers]
    assert own[0] == ("h1", "v1")
    if context == "false":
        assert len(own) == 1
        return
    assert [header for header, _ in own[1:]] == [
        f"__connect.errors.{part}"
        for part in (
            "topic",
            "partition",
            "offset",
            "connector.name",
            "task.id",
            "stage",
            "class.name",
            "exception.class.name",
            "exception.message",
            "exception.stacktrace",
        )
    ]
    said = dict(own)
    assert said["__connect.errors.topic"] == topic
    assert said["__connect.errors.offset"] == "1"
    assert said["__connect.errors.stage"] == "VALUE_CONVERTER"
    assert said["__connect.errors.class.name"] == "org.apache.kafka.connect.json.JsonConverter"
    message = "Converting byte[] to Kafka Connect data failed due to serialization error: "
    assert said["__connect.errors.exception.message"] == message
    assert bytes(dict(key.headers)["__connect.errors.stage"] or b"") == b"KEY_CONVERTER"


def test_a_transform_that_fails(worker: Worker, broker: Broker, tmp_path: Path) -> None:
    fill(broker, "e3")
    sink(
        worker,
        "cast",
        tmp_path / "out",
        "e3",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name="dlq-cast",
        errors_deadletterqueue_topic_replication_factor="1",
        errors_deadletterqueue_context_headers_enable="true",
        transforms="c",
        transforms_c_type="org.apache.kafka.connect.transforms.Cast$Value",
        transforms_c_spec="int32",
    )
    wait_until(lambda: committed(worker, "cast") == [5], lambda: worker.task("cast"))
    assert (tmp_path / "out").read_text() == "12\nnull\n"
    stages = [dict(record.headers)["__connect.errors.stage"] for record in broker.records("dlq-cast")]
    assert sorted(map(bytes, stages)) == [b"KEY_CONVERTER", b"TRANSFORMATION", b"VALUE_CONVERTER"]


def test_dead_letters_that_cannot_be(worker: Worker, broker: Broker, tmp_path: Path) -> None:
    fill(broker, "e4")
    sink(
        worker,
        "three",
        tmp_path / "out",
        "e4",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name="dlq-3",
    )
    wait_until(lambda: worker.task("three")["state"] == "FAILED", lambda: worker.task("three"))
    first = worker.task("three")["trace"].splitlines()[0]
    assert first.endswith("ConnectException: Could not initialize dead letter queue with topic=dlq-3")


def test_predicates_choose_records(worker: Worker, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("p1")
    for payload in ("a", "b"):
        broker.produce("p1", text(payload), partition=0)
    broker.produce("p1", None, partition=0)
    sink(
        worker,
        "chosen",
        tmp_path / "out",
        "p1",
        predicates="empty",
        predicates_empty_type="org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
        transforms="drop",
        transforms_drop_type="org.apache.kafka.connect.transforms.Filter",
        transforms_drop_predicate="empty",
    )
    wait_until(lambda: committed(worker, "chosen") == [3], lambda: worker.task("chosen"))
    assert (tmp_path / "out").read_text() == "a\nb\n"


def test_a_commit_that_comes_too_late_for_a_round_is_no_failure(
    worker: Worker, broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic("late")
    broker.produce("late", text("one"), partition=0)
    failures = [fail("REBALANCE_IN_PROGRESS"), fail("ILLEGAL_GENERATION")]
    with broker.intercept("OFFSET_COMMIT", lambda request: failures.pop() if failures else None):
        sink(worker, "late", tmp_path / "out", "late")
        wait_until(lambda: len(failures) == 1, lambda: worker.task("late"))
        broker.produce("late", text("two"), partition=0)
        wait_until(lambda: not failures, lambda: worker.task("late"))
        broker.produce("late", text("three"), partition=0)
        wait_until(lambda: committed(worker, "late") == [3], lambda: worker.task("late"))
    assert worker.task("late")["state"] == "RUNNING"
    lines = (tmp_path / "out").read_text().split()
    assert list(dict.fromkeys(lines)) == ["one", "two", "three"]  # some of them perhaps twice


def test_a_sink_reads_as_its_consumer_is_told(worker: Worker, broker: Broker, tmp_path: Path) -> None:
    """In a group of its own choice, from the end."""
    broker.create_topic("told")
    broker.produce("told", text("before"), partition=0)
    override = {"consumer.override.auto.offset.reset": "latest", "consumer.override.group.id": "mine"}
    config = {
        "connector.class": "FileStreamSink",
        "file": str(tmp_path / "out"),
        "topics": "told",
        **override,
    }
    worker.call("POST", "/connectors", {"name": "told", "config": config})

    def reads() -> bool:
        broker.produce("told", text("after"), partition=0)
        return (tmp_path / "out").exists() and (tmp_path / "out").read_text() != ""

    wait_until(reads, lambda: worker.task("told"))
    assert set((tmp_path / "out").read_text().splitlines()) == {"after"}
    worker.call("PUT", "/connectors/told/stop")
    (end,) = committed(worker, "told")

    async def of_the_group() -> list[int]:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            found = (await Groups(cluster).committed("mine")).values()
            return [each.offset for each in found if isinstance(each, CommittedOffset)]

    assert asyncio.run(of_the_group()) == [end]
    worker.call("DELETE", "/connectors/told/offsets")
    assert committed(worker, "told") == []


def test_two_tasks_share_the_partitions(worker: Worker, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("shared", partitions=2)
    for number in range(20):
        broker.produce("shared", text(str(number)), partition=number % 2)
    sink(worker, "pair", tmp_path / "out", "shared", tasks_max="2")
    wait_until(lambda: sorted(committed(worker, "pair")) == [10, 10], lambda: worker.task("pair"))
    assert sorted(map(int, (tmp_path / "out").read_text().split())) == list(range(20))
    assert len(worker.call("GET", "/connectors/pair/status")["tasks"]) == 2
