"""Snapshots as jobs of Spark: the records of the plain way, each part once unless it was cut, and what pause,
stop, failures and kills do to them.

Most tests run the jobs in the threads that ask for them, without Spark; those with the fixture ``spark``, and
the worker that is killed, have a real one.
"""

import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.client.producer import transactions
from moldau.client.producer.producer import Producer
from moldau.client.transport.cluster import Cluster
from moldau.connect.worker.tasks import spark_source
from moldau.connect.worker.tasks.snapshot_part import PartRead, PartReader
from moldau.protocol.errors import KafkaError
from moldau.spark.session import worker as spark_worker
from moldau.testing import Broker
from tests.connect.conftest import Worker, in_cluster, running, worker_properties
from tests.connect.connectors.jdbc.databases import Database, database
from tests.connect.worker.tasks.test_exactly_once import ENABLED, committed, started
from tests.connect.worker.tasks.test_exactly_once import create as create_killed
from tests.shared.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
with_spark = pytest.mark.skipif(not os.environ.get("MOLDAU_TEST_CONNECT"), reason="part of make test-connect")
LOST = "Python worker exited unexpectedly (crashed)"


class InThreads:
    """In the place of Spark's session: a job runs in the thread that asks for it."""

    def __init__(self) -> None:
        self.sparkContext = self
        #: The parts that were begun, by their numbers.
        self.begun: list[str] = []
        self.cancelled = threading.Event()
        self.instead: Callable[[PartReader, Callable[[], PartRead]], PartRead] = lambda _, run: run()
        self.number: Callable[[PartReader], str] = number

    def setLocalProperty(self, *_: object) -> None:  # noqa: N802
        pass

    def setJobGroup(self, *_: object, **__: object) -> None:  # noqa: N802
        pass

    def cancelJobGroup(self, _: str) -> None:  # noqa: N802
        self.cancelled.set()

    def parallelize(self, *_: object) -> "InThreads":
        return self

    def map(self, reader: PartReader) -> "_Job":
        return _Job(self, reader)


class _Job:
    def __init__(self, spark: InThreads, reader: PartReader) -> None:
        self.spark, self.reader = spark, reader

    def collect(self) -> list[PartRead]:
        self.spark.begun.append(self.spark.number(self.reader))
        return [self.spark.instead(self.reader, lambda: self.reader(0))]


def number(reader: PartReader) -> str:
    return str(reader.part.partition["snapshot"])


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> InThreads:
    made = InThreads()
    monkeypatch.setattr(spark_source, "session_of", lambda worker: made)
    monkeypatch.setattr(spark_worker, "prepare_worker", lambda: None)
    return made


def fill(file: Path, rows: range, table: str = "items") -> None:
    with sqlite3.connect(file, timeout=60) as database:
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {table} (id INTEGER PRIMARY KEY, name TEXT, price DECIMAL(9, 2))"
        )
        database.executemany(
            f"INSERT INTO {table} VALUES (?, ?, ?)", [(n, f"n{n}", f"{n / 4:.2f}") for n in rows]
        )


def source(url: str, prefix: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": "JdbcSourceConnector",
        "connection.url": url,
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "topic.prefix": prefix,
        "poll.interval.ms": "50",
        "table.whitelist": "items",
        "transforms": "key,plain",
        "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey",
        "transforms.key.fields": "id",
        "transforms.plain.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
        "transforms.plain.field": "id",
        **more,
    }


def on_spark(url: str, prefix: str, parts: int = 5, **more: str) -> dict[str, str]:
    return source(
        url,
        prefix,
        **{"moldau.runtime": "spark", "snapshot.partitions": str(parts), "tasks.max": "2", **more},
    )


Written = list[tuple[int, bytes | None, bytes | None]]


def written(broker: Broker, topic: str) -> Written:
    """Partition, key and value of each record, sorted."""
    if topic not in broker.topics():
        return []
    return sorted(
        (at, _bytes(record.key), _bytes(record.value))
        for at in range(3)
        for record in broker.records(topic, at)
    )


def _bytes(given: bytes | memoryview | None) -> bytes | None:
    return None if given is None else bytes(given)


def ids(broker: Broker, topic: str) -> Counter[int]:
    return Counter(json.loads(value or b"")["payload"]["id"] for _, _, value in written(broker, topic))


def once(numbers: range) -> Counter[int]:
    return Counter(numbers)


def create(worker: Worker, name: str, config: dict[str, str]) -> None:
    worker.call("POST", "/connectors", {"name": name, "config": config})


def offsets(worker: Worker, name: str) -> dict[str, Any]:
    """Places by the part of the snapshot that they are of; the table's own by an empty text."""
    found = worker.call("GET", f"/connectors/{name}/offsets")["offsets"]
    return {each["partition"].get("snapshot", ""): each["offset"] for each in found}


@pytest.fixture
def worker(broker: Broker, tmp_path: Path) -> Iterator[Worker]:
    with running(broker, tmp_path) as worker:
        yield worker


def test_the_same_records_as_the_plain_way_and_then_on(
    jobs: InThreads, broker: Broker, worker: Worker, tmp_path: Path
) -> None:
    file = tmp_path / "same.db"
    fill(file, range(1, 501))
    for prefix in ("sp-", "pl-"):
        broker.create_topic(f"{prefix}items", partitions=3)
    url = f"jdbc:sqlite:{file}"
    create(worker, "sp", on_spark(url, "sp-"))
    create(worker, "pl", source(url, "pl-"))
    wait_until(lambda: len(written(broker, "sp-items")) >= 500, lambda: worker.task("sp"))
    wait_until(lambda: offsets(worker, "sp") == {"": {"incrementing": 500}}, lambda: offsets(worker, "sp"))
    fill(file, range(501, 601))
    for prefix in ("sp-", "pl-"):
        wait_until(lambda prefix=prefix: len(written(broker, f"{prefix}items")) >= 600)
    assert written(broker, "sp-items") == written(broker, "pl-items")
    assert sorted(jobs.begun) == ["0", "1", "2", "3", "4"]
    assert len(worker.call("GET", "/connectors/sp/tasks")) == 1
    assert worker.call("GET", "/connectors/sp/topics")["sp"]["topics"] == ["sp-items"]
    worker.call("POST", "/connectors/sp/tasks/0/restart")
    wait_until(lambda: worker.task("sp")["state"] == "RUNNING")
    assert len(jobs.begun) == 5  # never again


def test_rounds_of_bulk(jobs: InThreads, broker: Broker, worker: Worker, tmp_path: Path) -> None:
    file = tmp_path / "bulk.db"
    fill(file, range(-10, 10))
    create(worker, "bulk", on_spark(f"jdbc:sqlite:{file}", "bulk-", parts=3, mode="bulk"))
    wait_until(lambda: len(written(broker, "bulk-items")) >= 60, lambda: worker.task("bulk"))
    worker.call("PUT", "/connectors/bulk/stop")
    counts = ids(broker, "bulk-items")
    assert set(counts) == set(range(-10, 10))
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_part_whose_process_died_is_read_again_and_no_other(
    jobs: InThreads, broker: Broker, worker: Worker, tmp_path: Path
) -> None:
    file = tmp_path / "died.db"
    fill(file, range(1, 51))
    died: list[str] = []

    def instead(reader: PartReader, run: Callable[[], PartRead]) -> PartRead:
        if number(reader) == "2" and not died:
            died.append(LOST)
            run()  # its records are written, and nobody hears of it
            raise RuntimeError(LOST)
        return run()

    jobs.instead = instead
    create(worker, "died", on_spark(f"jdbc:sqlite:{file}", "died-"))
    wait_until(lambda: offsets(worker, "died") == {"": {"incrementing": 50}}, lambda: worker.task("died"))
    assert Counter(jobs.begun) == Counter(["0", "1", "2", "2", "3", "4"])
    # At least once: only the rows of the part that was cut came twice.
    assert ids(broker, "died-items") == once(range(1, 51)) + once(range(21, 31))


def test_a_failure_has_its_reason_and_a_restart_goes_on(
    jobs: InThreads, broker: Broker, worker: Worker, tmp_path: Path
) -> None:
    file = tmp_path / "bad.db"
    fill(file, range(1, 51))
    with sqlite3.connect(file) as database:
        database.execute("UPDATE items SET price = 'much' WHERE id = 25")
    create(worker, "bad", on_spark(f"jdbc:sqlite:{file}", "bad-"))
    wait_until(lambda: worker.task("bad")["state"] == "FAILED", lambda: worker.task("bad"))
    trace = worker.task("bad")["trace"]
    assert "InvalidOperation" in trace or "DataException" in trace
    kept = set(offsets(worker, "bad")) - {"plan"}
    assert kept
    assert "2" not in kept
    with sqlite3.connect(file) as database:
        database.execute("UPDATE items SET price = '6.25' WHERE id = 25")
    jobs.begun.clear()
    worker.call("POST", "/connectors/bad/tasks/0/restart")
    wait_until(lambda: offsets(worker, "bad") == {"": {"incrementing": 50}}, lambda: worker.task("bad"))
    assert set(jobs.begun) == {str(each) for each in range(5)} - kept
    assert set(ids(broker, "bad-items")) == set(range(1, 51))


def test_a_database_that_is_away_is_waited_for(
    jobs: InThreads, broker: Broker, worker: Worker, tmp_path: Path
) -> None:
    file, away = tmp_path / "away.db", tmp_path / "gone"
    fill(file, range(1, 51))

    def instead(reader: PartReader, run: Callable[[], PartRead]) -> PartRead:
        if number(reader) == "2" and not away.exists():
            file.rename(away)
            jobs.instead = lambda _, run: run()
        return run()

    jobs.instead = instead
    create(worker, "away", on_spark(f"jdbc:sqlite:{file}", "away-", **{"tasks.max": "1"}))
    wait_until(lambda: worker.task("away")["state"] == "RESTARTING", lambda: worker.task("away"))
    assert "unable to open" in worker.task("away")["trace"]
    away.rename(file)
    wait_until(lambda: offsets(worker, "away") == {"": {"incrementing": 50}}, lambda: worker.task("away"))
    assert ids(broker, "away-items") == once(range(1, 51))
    assert Counter(jobs.begun) == Counter(["0", "1", "2", "2", "3", "4"])


def test_records_that_are_tolerated_become_dead_letters(
    jobs: InThreads, broker: Broker, worker: Worker, tmp_path: Path
) -> None:
    file = tmp_path / "letters.db"
    fill(file, range(1, 21))
    tolerant = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "letters",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "transforms": "key",
        "transforms.key.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.key.spec": "name:int32",
    }
    create(worker, "letters", on_spark(f"jdbc:sqlite:{file}", "letters-", parts=2, **tolerant))
    wait_until(lambda: len(written(broker, "letters")) == 20, lambda: worker.task("letters"))
    wait_until(lambda: offsets(worker, "letters") == {"": {"incrementing": 20}})


class Gate:
    """Parts wait in it until it is open, or their jobs are cancelled."""

    def __init__(self, jobs: InThreads) -> None:
        self.open = threading.Event()
        self.jobs = jobs

    def __call__(self, reader: PartReader, run: Callable[[], PartRead]) -> PartRead:
        while not self.open.wait(0.02):
            if self.jobs.cancelled.is_set():
                raise RuntimeError("Job was cancelled as part of a group")
        return run()


def test_pause_lets_parts_end_and_begins_no_other(
    jobs: InThreads, broker: Broker, worker: Worker, tmp_path: Path
) -> None:
    file = tmp_path / "pause.db"
    fill(file, range(1, 51))
    jobs.instead = gate = Gate(jobs)
    create(worker, "pause", on_spark(f"jdbc:sqlite:{file}", "pause-"))
    wait_until(lambda: len(jobs.begun) == 2, lambda: worker.task("pause"))
    worker.call("PUT", "/connectors/pause/pause")
    wait_until(lambda: worker.task("pause")["state"] == "PAUSED")
    gate.open.set()
    wait_until(lambda: set(offsets(worker, "pause")) == {"plan", "0", "1"})
    assert len(jobs.begun) == 2
    assert offsets(worker, "pause")["0"]["rows"] == 10
    worker.call("PUT", "/connectors/pause/resume")
    wait_until(lambda: offsets(worker, "pause") == {"": {"incrementing": 50}})
    assert ids(broker, "pause-items") == once(range(1, 51))


def test_stop_cuts_parts_off_and_offsets_can_be_altered_then(
    jobs: InThreads, broker: Broker, worker: Worker, tmp_path: Path
) -> None:
    file = tmp_path / "stop.db"
    fill(file, range(1, 51))
    gate = Gate(jobs)
    jobs.instead = lambda reader, run: run() if number(reader) < "2" else gate(reader, run)
    create(worker, "stop", on_spark(f"jdbc:sqlite:{file}", "stop-"))
    wait_until(lambda: len(jobs.begun) == 4, lambda: worker.task("stop"))
    worker.call("PUT", "/connectors/stop/stop")
    assert jobs.cancelled.is_set()
    assert set(offsets(worker, "stop")) == {"plan", "0", "1"}
    table = {"protocol": "1", "table": "items"}
    refused = worker.http.patch(
        "/connectors/stop/offsets",
        json={"offsets": [{"partition": {**table, "snapshot": "plan"}, "offset": {"began": 1}}]},
    )
    assert "The plan of a snapshot" in refused.json()["message"]
    change = {"offsets": [{"partition": {**table, "snapshot": "1"}, "offset": None}]}
    worker.call("PATCH", "/connectors/stop/offsets", change)
    gate.open.set()
    jobs.begun.clear()
    worker.call("PUT", "/connectors/stop/resume")
    wait_until(lambda: offsets(worker, "stop") == {"": {"incrementing": 50}}, lambda: worker.task("stop"))
    assert sorted(jobs.begun) == ["1", "2", "3", "4"]
    worker.call("PUT", "/connectors/stop/stop")
    worker.call("DELETE", "/connectors/stop/offsets")
    jobs.begun.clear()
    worker.call("PUT", "/connectors/stop/resume")
    wait_until(lambda: offsets(worker, "stop") == {"": {"incrementing": 50}}, lambda: worker.task("stop"))
    assert len(jobs.begun) == 5
    worker.call("DELETE", "/connectors/stop")


def test_sources_that_take_no_snapshots_are_refused(worker: Worker, tmp_path: Path) -> None:
    config = {
        "connector.class": "FileStreamSource",
        "file": str(tmp_path / "x"),
        "topic": "x",
        "moldau.runtime": "spark",
    }
    answer = worker.http.post("/connectors", json={"name": "x", "config": config})
    assert answer.status_code == 400
    assert "is for sinks, and for sources of tables (JDBC) and of folders" in answer.json()["message"]


# --- in transactions --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exact(broker: Broker) -> Iterator[Worker]:
    with in_cluster(broker, "exactsnap", **ENABLED) as (worker, _):
        yield worker


def committed_ids(broker: Broker, topic: str) -> Counter[int]:
    return Counter(json.loads(value or b"")["payload"]["id"] for _, _, value in committed(broker, topic))


@pytest.mark.parametrize("version", [2, 1])
def test_a_part_that_was_committed_is_not_read_again(
    jobs: InThreads,
    broker: Broker,
    exact: Worker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
) -> None:
    """Also where a producer keeps its epoch from one transaction to the next; there with a topic of places of
    its own."""
    monkeypatch.setattr(transactions, "transaction_version", lambda connection: version)
    name = f"exact{version}"
    own = {"offsets.storage.topic": "exact1-offsets"} if version == 1 else {}
    file = tmp_path / "exact.db"
    fill(file, range(1, 51))
    died: list[str] = []

    def instead(reader: PartReader, run: Callable[[], PartRead]) -> PartRead:
        if number(reader) == "2" and not died:
            died.append(LOST)
            run()
            raise RuntimeError(LOST)
        return run()

    jobs.instead = instead
    create(exact, name, on_spark(f"jdbc:sqlite:{file}", f"{name}-", **own))
    wait_until(lambda: offsets(exact, name) == {"": {"incrementing": 50}}, lambda: exact.task(name))
    assert died
    assert jobs.begun.count("2") == 1
    fill(file, range(51, 61))
    wait_until(lambda: len(committed_ids(broker, f"{name}-items")) == 60, lambda: exact.task(name))
    assert committed_ids(broker, f"{name}-items") == once(range(1, 61))
    key = f"tasks-fencing-{name}".encode()
    fencing = [record.value for record in broker.records("exactsnap-configs") if record.key == key]
    assert bytes(fencing[-1] or b"") == b'{"task-count":3}'  # the task's own, and two for parts
    assert len(left(broker, own.get("offsets.storage.topic", "exactsnap-offsets"), name)) == 1
    exact.call("DELETE", f"/connectors/{name}")
    for topic in ("exactsnap-offsets", *own.values()):
        wait_until(lambda topic=topic: left(broker, topic, name) == {})


def test_rounds_of_bulk_in_transactions(
    jobs: InThreads, broker: Broker, exact: Worker, tmp_path: Path
) -> None:
    file = tmp_path / "bulk.db"
    fill(file, range(1, 31))
    create(exact, "twice", on_spark(f"jdbc:sqlite:{file}", "twice-", parts=3, mode="bulk"))
    wait_until(lambda: sum(committed_ids(broker, "twice-items").values()) >= 60, lambda: exact.task("twice"))
    exact.call("PUT", "/connectors/twice/stop")
    counts = committed_ids(broker, "twice-items")
    assert set(counts) == set(range(1, 31))
    assert max(counts.values()) - min(counts.values()) <= 1
    exact.call("DELETE", "/connectors/twice")


def left(broker: Broker, topic: str, connector: str) -> dict[bytes, bytes]:
    """Places that a topic of places still has of a connector."""
    found: dict[bytes, bytes] = {}
    for record in broker.records(topic) if topic in broker.topics() else ():
        key, value = _bytes(record.key), _bytes(record.value)
        if key is not None and json.loads(key)[0] == connector:
            found.pop(key, None)
            if value is not None:
                found[key] = value
    return found


def test_what_a_part_of_an_earlier_worker_writes_late_is_never_seen(
    jobs: InThreads, broker: Broker, exact: Worker, tmp_path: Path
) -> None:
    """A process that was cut off goes on, and comes to its end after the part was read again."""
    file = tmp_path / "late.db"
    fill(file, range(1, 51))
    late: list[Callable[[], PartRead]] = []

    def instead(reader: PartReader, run: Callable[[], PartRead]) -> PartRead:
        if number(reader) == "2" and not late:
            late.append(run)
            raise RuntimeError(LOST)
        return run()

    jobs.instead = instead
    create(exact, "late", on_spark(f"jdbc:sqlite:{file}", "late-"))
    wait_until(lambda: offsets(exact, "late") == {"": {"incrementing": 50}}, lambda: exact.task("late"))
    read = late[0]()
    assert read.error is not None
    assert re.search("PRODUCER_FENCED|INVALID_PRODUCER_EPOCH|taken over", read.error)
    assert committed_ids(broker, "late-items") == once(range(1, 51))
    exact.call("DELETE", "/connectors/late")


def test_a_worker_that_was_replaced_does_not_fence_its_successor(broker: Broker) -> None:
    """It stops, and wants to abort what its part may have open."""

    async def run() -> None:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            parts: Any = SimpleNamespace(cluster=cluster)
            lane = spark_source._Lane(parts, await spark_source._begin(parts, "replaced-1"))
            begun = await spark_source._begin(parts, "replaced-1")
            await lane.cut()
            producer = await Producer.open(cluster, transaction=begun)
            async with producer, producer.transaction():
                await producer.send("replaced", b"x")
            # In its own epoch it does abort.
            await (lane := spark_source._Lane(parts, await spark_source._begin(parts, "cut-1"))).cut()
            assert lane.transaction is not None
            async with await Producer.open(cluster, transaction=lane.transaction) as late:
                await late.begin_transaction()
                with pytest.raises(KafkaError):
                    await (await late.send("replaced", b"never"))

    broker.create_topic("replaced")
    asyncio.run(run())
    assert [value for _, _, value in committed(broker, "replaced")] == [b"x"]


# --- on a real Spark --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with database("postgresql", tmp_path_factory.mktemp("db")) as found:
        yield found


@with_spark
@pytest.mark.parametrize("exactly_once", [False, True])
def test_postgresql_on_spark(spark: object, broker: Broker, postgres: Database, exactly_once: bool) -> None:
    name = "exact" if exactly_once else "least"
    postgres.run(
        f"CREATE TABLE {name}_items (id BIGSERIAL PRIMARY KEY, name TEXT, price NUMERIC(9, 2), "
        "at TIMESTAMP NOT NULL DEFAULT now())",
        f"INSERT INTO {name}_items (name, price) SELECT 'n' || n, n / 4.0 FROM generate_series(1, 20000) n",
    )
    login = {"connection.user": "postgres", "table.whitelist": f"{name}_items"}
    both = {"mode": "timestamp+incrementing", "timestamp.column.name": "at", **login}
    url = postgres.settings["connection.url"]
    for prefix in ("spark-", "plain-"):
        broker.create_topic(f"{prefix}{name}_items", partitions=3)
    given = ENABLED if exactly_once else {}
    with in_cluster(broker, f"on-spark-{name}", **given) as (worker, _):
        create(worker, "spark", on_spark(url, "spark-", parts=8, **both))
        create(worker, "plain", source(url, "plain-", **both))
        for kind in ("spark", "plain"):
            topic = f"{kind}-{name}_items"
            wait_until(
                lambda topic=topic: len(written(broker, topic)) >= 20_000,
                lambda kind=kind: worker.task(kind),
                seconds=400,
            )
        wait_until(lambda: set(offsets(worker, "spark")) == {""}, lambda: offsets(worker, "spark"))
        postgres.run(f"INSERT INTO {name}_items (name) VALUES ('later')")
        for kind in ("spark", "plain"):
            wait_until(lambda topic=f"{kind}-{name}_items": len(written(broker, topic)) >= 20_001)
        assert written(broker, f"spark-{name}_items") == written(broker, f"plain-{name}_items")
        wait_until(lambda: offsets(worker, "spark") == offsets(worker, "plain"))


@with_spark
def test_stop_on_spark_ends_its_jobs_and_their_transactions(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "stop.db"
    fill(file, range(1, 100_001))
    with in_cluster(broker, "stopped", **ENABLED) as (worker, _):
        create(worker, "stopped", on_spark(f"jdbc:sqlite:{file}", "stopped-", parts=2))
        wait_until(lambda: written(broker, "stopped-items"), lambda: worker.task("stopped"), seconds=400)
        worker.call("PUT", "/connectors/stopped/stop")
        assert set(offsets(worker, "stopped")) == {"plan"}
        assert committed(broker, "stopped-items") == []
        group = "connect-stopped"
        wait_until(
            lambda: not set(spark.sparkContext.statusTracker().getJobIdsForGroup(group)) & active(spark)
        )
        worker.call("PUT", "/connectors/stopped/resume")
        wait_until(
            lambda: offsets(worker, "stopped") == {"": {"incrementing": 100_000}},
            lambda: worker.task("stopped"),
            seconds=400,
        )
    assert committed_ids(broker, "stopped-items") == once(range(1, 100_001))


def active(spark: Any) -> set[int]:
    return set(spark.sparkContext.statusTracker().getActiveJobsIds())


@with_spark
def test_a_task_in_its_own_process_has_a_spark_of_its_own(
    spark: object, broker: Broker, worker: Worker, tmp_path: Path
) -> None:
    file = tmp_path / "apart.db"
    fill(file, range(1, 1001))
    create(worker, "apart", on_spark(f"jdbc:sqlite:{file}", "apart-", isolation="process"))
    wait_until(
        lambda: offsets(worker, "apart") == {"": {"incrementing": 1000}},
        lambda: worker.task("apart"),
        seconds=400,
    )
    assert ids(broker, "apart-items") == once(range(1, 1001))
    worker.call("DELETE", "/connectors/apart")


def descendants(pid: int) -> list[int]:
    """Processes that a process has started, and those that these have."""
    file = Path(f"/proc/{pid}/task")
    try:
        children = [int(each) for task in file.iterdir() for each in (task / "children").read_text().split()]
    except OSError:  # it has just ended
        return []
    return [*children, *(each for child in children for each in descendants(child))]


def executors() -> list[int]:
    found = []
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


@with_spark
@pytest.mark.skipif(sys.platform != "linux", reason="executors are found in /proc")
def test_an_executor_that_is_killed_amid_transactions(spark: object, broker: Broker, tmp_path: Path) -> None:
    """Spark tries its part again elsewhere, which would write it twice; the worker begins it anew instead."""
    file = tmp_path / "lost.db"
    fill(file, range(1, 60_001))
    two = {"moldau.spark.master": "local-cluster[2,1,1024]", **ENABLED}
    with in_cluster(broker, "lost", **two) as (worker, _):
        create(worker, "lost", on_spark(f"jdbc:sqlite:{file}", "lost-", parts=6, isolation="process"))
        wait_until(lambda: written(broker, "lost-items"), lambda: worker.task("lost"), seconds=400)
        os.kill(executors()[0], signal.SIGKILL)
        wait_until(
            lambda: offsets(worker, "lost") == {"": {"incrementing": 60_000}},
            lambda: (worker.task("lost"), offsets(worker, "lost")),
            seconds=400,
        )
    assert committed_ids(broker, "lost-items") == once(range(1, 60_001))


class Killed:
    """A standalone worker in a process of its own, with a Spark of its own."""

    def __init__(self, broker: Broker, folder: Path, config: dict[str, str]) -> None:
        self.folder = folder
        self.files = []
        for name, given in {"worker": worker_properties(broker, folder), "killed": config}.items():
            file = folder / f"{name}.properties"
            text = "".join(f"{key}={value}\n" for key, value in {"name": name, **given}.items())
            file.write_text(text)
            self.files.append(str(file))

    def start(self) -> "subprocess.Popen[bytes]":
        with (self.folder / "worker.log").open("ab") as log:
            command = [sys.executable, "-m", "moldau", "connect-standalone", *self.files]
            return subprocess.Popen(command, stdout=log, stderr=log)

    def log(self) -> str:
        return (self.folder / "worker.log").read_text()[-3000:]

    def places(self) -> dict[str, Any]:
        file = self.folder / "connect.offsets"
        if not file.exists():
            return {}
        found = {
            json.loads(key)[1].get("snapshot", ""): value
            for key, value in json.loads(file.read_text()).items()
        }
        return {name: json.loads(value) for name, value in found.items()}


@with_spark
def test_a_worker_that_is_killed_reads_again_what_was_not_finished(
    spark: object, broker: Broker, tmp_path: Path
) -> None:
    """``spark`` is asked for only so that the test is left out where there is no Java."""
    fill(tmp_path / "in.db", range(1, 24_001))
    config = on_spark(f"jdbc:sqlite:{tmp_path / 'in.db'}", "killed-", parts=24)
    killed = Killed(broker, tmp_path, config)
    process = killed.start()
    try:
        wait_until(lambda: len(killed.places()) >= 4, killed.log, seconds=400)
    finally:
        process.kill()
        process.wait(60)
    before = killed.places()
    assert "" not in before  # it was amid the snapshot
    kept = {int(name) for name in before if name != "plan"}
    process = killed.start()
    try:
        wait_until(lambda: killed.places() == {"": {"incrementing": 24_000}}, killed.log, seconds=400)
    finally:
        process.terminate()
        process.wait(60)
    counts = ids(broker, "killed-items")
    assert set(counts) == set(range(1, 24_001))  # no gap
    again = {(each - 1) // 1000 for each, count in counts.items() if count > 1}
    assert not again & kept  # what was kept was not read again
    assert len(again) <= 2  # and two parts were read at a time


@with_spark
def test_a_worker_that_is_killed_amid_transactions_writes_each_row_once(
    spark: object, broker: Broker, tmp_path: Path
) -> None:
    fill(tmp_path / "in.db", range(1, 24_001))
    config = on_spark(f"jdbc:sqlite:{tmp_path / 'in.db'}", "once-", parts=24)

    def log() -> str:
        return (tmp_path / "worker.log").read_text()[-3000:]

    def places() -> dict[bytes, bytes]:
        return left(broker, "killed-offsets", "killed")

    process, line = started(broker, tmp_path)
    try:
        create_killed(line, {**config, "exactly.once.support": "required"})
        wait_until(lambda: len(places()) >= 4, log, seconds=400)
    finally:
        process.kill()
        process.wait(60)
    assert any(b'"snapshot":"plan"' in key for key in places())  # it was amid the snapshot
    process, _ = started(broker, tmp_path)
    try:
        wait_until(lambda: list(places().values()) == [b'{"incrementing":24000}'], log, seconds=400)
    finally:
        process.terminate()
        process.wait(60)
    assert committed_ids(broker, "once-items") == once(range(1, 24_001))
