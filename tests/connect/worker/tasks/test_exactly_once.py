"""Sources that write in transactions: records and places as those of a real worker, ends of transactions,
zombies that are fenced, and a worker that is killed."""

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.base.clock import SystemClock
from moldau.base.names import TopicPartition
from moldau.client.admin.descriptions import READ_COMMITTED
from moldau.client.consumer.consumer import BEGINNING, END, Consumer
from moldau.client.producer.producer import Producer
from moldau.client.transport.cluster import Cluster
from moldau.connect.connector import Place, SourceTask, SourceTaskContext
from moldau.connect.records import SourceRecord
from moldau.connect.worker.tasks.exactly_once import ExactlyOnceBody, Transactions
from moldau.connect.worker.tasks.handling import ErrorHandling
from moldau.connect.worker.tasks.processing import RawRecord
from moldau.connect.worker.tasks.running_task import Control
from moldau.connect.worker.tasks.task_parts import TaskParts
from moldau.connect.worker.topic_offsets import TopicOffsets
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.testing import Broker
from tests.connect.conftest import Worker, clustered, in_cluster
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow
ENABLED = {"exactly.once.source.support": "enabled"}
KILLS = 6


@pytest.fixture(scope="module")
def worker(broker: Broker) -> Iterator[Worker]:
    with in_cluster(broker, "eos", **ENABLED) as (worker, _):
        yield worker


def _bytes(given: bytes | memoryview | None) -> bytes | None:
    return None if given is None else bytes(given)


async def _committed(servers: str, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    partition = TopicPartition(topic, 0)
    async with (
        await Cluster.open(servers) as cluster,
        Consumer(cluster, isolation_level=READ_COMMITTED) as consumer,
    ):
        end = (await consumer.offsets_of({partition: END}))[partition]
        await consumer.assign({partition: BEGINNING})
        return [
            (record.offset, _bytes(record.key), _bytes(record.value))
            async for batch in consumer.batches(until={partition: end})
            for record in batch.records()
        ]


def committed(broker: Broker, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offsets, keys and values that a reader of committed records sees."""
    return asyncio.run(_committed(broker.bootstrap_servers, topic)) if topic in broker.topics() else []


def payloads(broker: Broker, topic: str) -> list[Any]:
    return [json.loads(value or b"")["payload"] for _, _, value in committed(broker, topic)]


def lines(file: Path, topic: str, **more: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "file": str(file), "topic": topic, **more}


def places(broker: Broker, topic: str) -> list[tuple[int, bytes]]:
    """Offsets and values of a topic of places; those of one connector are all in one partition."""
    return [(record.offset, bytes(record.value or b"")) for record in broker.records(topic)]


def test_each_poll_is_a_transaction_with_its_place(worker: Worker, broker: Broker, tmp_path: Path) -> None:
    """The offsets are those that a real worker gave: a marker follows each transaction, in both topics."""
    file = tmp_path / "x.txt"
    file.write_text("a\nb\nc\n")
    worker.call("POST", "/connectors", {"name": "x", "config": lines(file, "x-t")})
    wait_until(lambda: payloads(broker, "x-t") == ["a", "b", "c"], lambda: worker.task("x"))
    with file.open("a") as out:
        out.write("d\n")
    wait_until(lambda: payloads(broker, "x-t")[3:] == ["d"])
    assert [offset for offset, _, _ in committed(broker, "x-t")] == [0, 1, 2, 4]
    assert places(broker, "eos-offsets") == [(0, b'{"position":6}'), (2, b'{"position":8}')]
    fencing = [r.value for r in broker.records("eos-configs") if r.key == b"tasks-fencing-x"]
    assert [bytes(value or b"") for value in fencing] == [b'{"task-count":1}']
    worker.call("DELETE", "/connectors/x")
    fencing = [r.value for r in broker.records("eos-configs") if r.key == b"tasks-fencing-x"]
    assert fencing[-1] is None  # nothing stays behind


def test_time_ends_transactions_and_places_go_to_a_topic_of_their_own(
    worker: Worker, broker: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "y.txt"
    file.write_text("a\n")
    own = {"offsets.storage.topic": "y-offs", "exactly.once.support": "required"}
    timed = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "3600000"}
    worker.call("POST", "/connectors", {"name": "y", "config": lines(file, "y-t", **own, **timed)})
    wait_until(lambda: "y-t" in broker.topics() and broker.records("y-t"), lambda: worker.task("y"))
    with file.open("a") as out:
        out.write("b\n")
    wait_until(lambda: len(broker.records("y-t")) == 2)
    assert committed(broker, "y-t") == []  # it is open still
    worker.call("PUT", "/connectors/y/pause")
    wait_until(lambda: payloads(broker, "y-t") == ["a", "b"])
    wait_until(lambda: places(broker, "y-offs") == [(0, b'{"position":4}')])
    (place,) = worker.call("GET", "/connectors/y/offsets")["offsets"]
    assert place["offset"] == {"position": 4}
    worker.call("DELETE", "/connectors/y")
    wait_until(lambda: places(broker, "y-offs")[-1][1] == b"")


def test_what_a_zombie_has_open_is_never_seen(worker: Worker, broker: Broker, tmp_path: Path) -> None:
    """A task that another worker still runs: it may write, and cannot commit."""
    broker.create_topic("z-t")
    (tmp_path / "z.txt").write_text("good\n")

    async def zombie() -> None:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            producer = await Producer.open(cluster, transactional_id="eos-z-0")
            await producer.begin_transaction()
            await (await producer.send("z-t", b'{"payload":"twice"}'))
            await asyncio.to_thread(
                worker.call, "POST", "/connectors", {"name": "z", "config": lines(tmp_path / "z.txt", "z-t")}
            )
            await asyncio.to_thread(
                wait_until, lambda: payloads(broker, "z-t") == ["good"], lambda: worker.task("z")
            )
            with pytest.raises(KafkaError) as caught:
                await producer.commit_transaction()
            assert caught.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
            await producer.close(flush=False)

    asyncio.run(zombie())
    assert payloads(broker, "z-t") == ["good"]
    worker.call("DELETE", "/connectors/z")


def test_required_is_refused_by_a_worker_without_support(broker: Broker, tmp_path: Path) -> None:
    config = lines(tmp_path / "r.txt", "r-t", **{"exactly.once.support": "required"})
    with in_cluster(broker, "plain") as (worker, _):
        answer = worker.http.post("/connectors", json={"name": "r", "config": config})
    assert answer.status_code == 400
    assert "This worker does not have exactly-once source support enabled." in answer.json()["message"]


class Batches(SourceTask):
    """Gives batches from where it was, and says what is to become of each."""

    batches: Sequence[tuple[str, str]] = (
        ("ab", "commit"),
        ("cd", "abort"),
        ("ef", "commit after the first"),
        ("g", "open"),
    )

    def start(self, settings: object, context: SourceTaskContext) -> None:
        place = context.offset_of({"p": 0})
        self.next = 0 if place is None else int(str(place["next"]))
        self.context = context

    def poll(self) -> list[SourceRecord]:
        if self.next >= len(self.batches):
            return []
        texts, what = self.batches[self.next]
        self.next += 1
        made = [
            SourceRecord(
                topic="own", value=text, source_partition={"p": 0}, source_offset={"next": self.next}
            )
            for text in texts
        ]
        ends = self.context.transactions
        assert ends is not None
        if what == "commit":
            ends.commit()
        elif what == "abort":
            ends.abort()
        elif what == "commit after the first":
            ends.commit_after(made[0])
        return made


def test_a_connector_says_where_transactions_end(broker: Broker) -> None:
    """Aborted records are seen by nobody and do not come again; what is open at a stop does."""

    async def run() -> tuple[Place | None, Place | None]:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            offsets = TopicOffsets(cluster, "own-offsets", 1, 1)
            await offsets.topic.open()
            processing: Any = SimpleNamespace(
                outgoing=lambda record: RawRecord(
                    record.topic, None, None, str(record.value).encode(), (), None
                )
            )
            parts = TaskParts(
                "own", 0, {}, processing, ErrorHandling.of({}), cluster, offsets, SystemClock(), print
            )
            connector: Any = SimpleNamespace(make_task=Batches)
            writes = Transactions("own-0", "connector", 0, "own-offsets")
            control = Control(paused=False)
            task = asyncio.create_task(ExactlyOnceBody(parts, connector, writes)(control))
            await asyncio.to_thread(
                wait_until, lambda: "own" in broker.topics() and len(broker.records("own")) >= 7
            )
            control.stop()
            await task
            stopped = offsets.get("own", {"p": 0})
            await offsets.topic.close()
            again = TopicOffsets(cluster, "own-offsets", 1, 1)
            await again.topic.open()
            await again.catch_up(past_open=True)
            read = again.get("own", {"p": 0})
            await again.topic.close()
            return stopped, read

    assert asyncio.run(run()) == ({"next": 3}, {"next": 3})
    assert [value for _, _, value in committed(broker, "own")] == [b"a", b"b", b"e"]


# --- a worker that is killed ------------------------------------------------------------------------------


def started(broker: Broker, folder: Path) -> "tuple[subprocess.Popen[str], str]":
    given = {**clustered(broker, "killed"), **ENABLED, "session.timeout.ms": "6000"}
    file = folder / "worker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    process = subprocess.Popen(
        [sys.executable, "-m", "moldau", "connect", str(file)],
        stdout=subprocess.PIPE,
        stderr=(folder / "worker.log").open("a"),
        text=True,
    )
    assert process.stdout is not None
    for line in iter(process.stdout.readline, ""):
        if "moldau connect ready" in line:
            return process, line
    raise AssertionError((folder / "worker.log").read_text()[-3000:])


def add_rows(folder: Path, count: int) -> None:
    with sqlite3.connect(folder / "in.db", timeout=60) as database:
        database.execute("CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
        database.executemany("INSERT INTO items (name) VALUES (?)", [(f"n{n}",) for n in range(count)])


@pytest.mark.timeout(600)
def test_a_killed_worker_writes_each_row_once(broker: Broker, tmp_path: Path) -> None:
    chance = random.Random(618)
    config = {
        "connector.class": "JdbcSourceConnector",
        "connection.url": f"jdbc:sqlite:{tmp_path / 'in.db'}",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "topic.prefix": "killed-",
        "poll.interval.ms": "1",
        "batch.max.rows": "7",
        "exactly.once.support": "required",
    }
    add_rows(tmp_path, 200)

    def log() -> str:
        return (tmp_path / "worker.log").read_text()[-3000:]

    def ids() -> list[int]:
        return [row["id"] for row in payloads(broker, "killed-items")]

    for kill in range(KILLS):
        process, line = started(broker, tmp_path)
        try:
            if kill == 0:
                create(line, config)
            seen = len(broker.records("killed-items")) if "killed-items" in broker.topics() else 0
            wanted = seen + chance.randrange(1, 150)
            wait_until(
                lambda wanted=wanted: (
                    "killed-items" in broker.topics() and len(broker.records("killed-items")) >= wanted
                ),
                log,
                seconds=120,
            )
        finally:
            process.kill()
            process.wait(60)
        add_rows(tmp_path, 200)
    process, _ = started(broker, tmp_path)
    rows = 200 * (KILLS + 1)
    try:
        wait_until(lambda: len(ids()) >= rows, log, seconds=120)
    finally:
        process.terminate()
        process.wait(60)
    assert ids() == list(range(1, rows + 1))


def create(line: str, config: dict[str, str]) -> None:
    import httpx

    (url,) = [word for word in line.replace(",", " ").split() if word.startswith("http://")]
    answer = httpx.post(
        f"{url}/connectors", json={"name": "killed", "config": config}, timeout=60, trust_env=False
    )
    assert answer.status_code == 201, answer.text
