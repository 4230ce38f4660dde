"""One worker with many connectors, killed twenty times at moments that chance chooses: row by row the same.

Lines of a file by a topic to a file, a table of SQLite to another one and to tables of Delta and Iceberg,
lines as an archive in an S3-like bucket, a collection of MongoDB to another one. Part of
``make test-connect``; changes of PostgreSQL and MariaDB are in ``test_cdc.py``.
"""

import http.client
import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from moldau.connect.connectors.archive.source import ArchiveSource
from moldau.testing import Broker
from moldau.testing.connect import read
from tests.connect.connectors.archive.test_stores import bucket
from tests.connect.servers import Server, mongodb, mongodb_address, s3_server
from tests.shared.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("MOLDAU_TEST_CONNECT"), reason="part of make test-connect"),
]
KILLS = 20
STRINGS = {
    f"{part}.converter": "org.apache.kafka.connect.storage.StringConverter" for part in ("key", "value")
}


@pytest.fixture(scope="module")
def mongo() -> Iterator[Server]:
    with mongodb() as server:
        yield server


@pytest.fixture(scope="module")
def s3() -> Iterator[Server]:
    with s3_server() as server:
        yield server


def connectors(folder: Path, mongo: Server, s3: Server) -> dict[str, dict[str, str]]:
    lake = {"topics": "db-items", "flush.interval.ms": "300"}
    return {
        "lines-in": {
            "connector.class": "FileStreamSource",
            "file": str(folder / "in.txt"),
            "topic": "lines",
            **STRINGS,
        },
        "lines-out": {
            "connector.class": "FileStreamSink",
            "file": str(folder / "out.txt"),
            "topics": "lines",
            **STRINGS,
        },
        "table-in": {
            "connector.class": "JdbcSourceConnector",
            "connection.url": f"jdbc:sqlite:{folder / 'in.db'}",
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "topic.prefix": "db-",
            "poll.interval.ms": "50",
        },
        "table-out": {
            "connector.class": "JdbcSinkConnector",
            "connection.url": f"jdbc:sqlite:{folder / 'out.db'}",
            "topics": "db-items",
            "table.name.format": "items",
            "insert.mode": "upsert",
            "pk.mode": "record_value",
            "pk.fields": "id",
            "auto.create": "true",
        },
        "archive": {
            "connector.class": "ArchiveSinkConnector",
            "topics": "lines",
            "flush.size": "7",
            "rotate.interval.ms": "300",
            **STRINGS,
            **bucket(s3, "kills"),
        },
        "delta": {"connector.class": "DeltaSinkConnector", "delta.path": str(folder / "delta"), **lake},
        "iceberg": {
            "connector.class": "IcebergSinkConnector",
            "iceberg.tables": "shop.items",
            "iceberg.catalog.type": "sql",
            "iceberg.catalog.uri": f"sqlite:///{folder}/catalogue.db",
            "iceberg.catalog.warehouse": f"file://{folder}",
            **lake,
        },
        "documents-in": {
            "connector.class": "MongoSourceConnector",
            "connection.uri": mongodb_address(mongo),
            "database": "shop",
            "collection": "orders",
            "startup.mode": "copy_existing",
            "publish.full.document.only": "true",
            "poll.await.time.ms": "100",
            **STRINGS,
        },
        "documents-out": {
            "connector.class": "MongoSinkConnector",
            "connection.uri": mongodb_address(mongo),
            "database": "shop",
            "collection": "copied",
            "topics": "shop.orders",
            "document.id.strategy": "providedinvalue",
            **STRINGS,
        },
    }


class Killed:
    """The worker, and what goes into its connectors."""

    def __init__(self, broker: Broker, folder: Path, given: Mapping[str, Mapping[str, str]]) -> None:
        self.broker, self.folder = broker, folder
        worker = {
            "bootstrap.servers": broker.bootstrap_servers,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "offset.storage.file.filename": str(folder / "connect.offsets"),
            "offset.flush.interval.ms": "100",
            "listeners": "http://127.0.0.1:0",
        }
        self.files = []
        named = {name: {"name": name, **each} for name, each in given.items()}
        for name, settings in {"worker": worker, **named}.items():
            file = folder / f"{name}.properties"
            file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            self.files.append(str(file))
        self.lines = 0
        self.rows = 0

    def start(self) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "moldau", "connect-standalone", *self.files],
            stdout=subprocess.PIPE,
            stderr=(self.folder / "worker.log").open("a"),
            text=True,
        )
        assert process.stdout is not None
        assert any("moldau connect ready" in line for line in iter(process.stdout.readline, "")), self.log()
        return process

    def log(self) -> str:
        return (self.folder / "worker.log").read_text()[-3000:]

    def change(self, shop: Any) -> None:
        with (self.folder / "in.txt").open("a") as file:
            file.writelines(f"line {number}\n" for number in range(self.lines, self.lines + 10))
        self.lines += 10
        with sqlite3.connect(self.folder / "in.db") as database:
            database.execute("CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
            database.executemany("INSERT INTO items (name) VALUES (?)", [(f"n{n}",) for n in range(10)])
        self.rows += 10
        first = shop.orders.count_documents({})
        shop.orders.insert_many([{"_id": first + n, "n": n} for n in range(5)])
        shop.orders.update_many({"_id": {"$gte": first - 3}}, {"$inc": {"n": 100}})

    # --- what came out --------------------------------------------------------------------------------

    def written_lines(self) -> list[str]:
        """Each once, where it came first: a file that is only added to may have lines again after a kill."""
        out = self.folder / "out.txt"
        return list(dict.fromkeys(out.read_text().splitlines())) if out.exists() else []

    def stored(self, name: str) -> list[Any]:
        with sqlite3.connect(self.folder / name) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'items'").fetchall():
                return []
            return database.execute("SELECT id, name FROM items ORDER BY id").fetchall()

    def in_topic(self, topic: str) -> list[int]:
        found = self.broker.records(topic) if topic in self.broker.topics() else []
        return sorted(json.loads(bytes(record.value or b""))["payload"]["id"] for record in found)

    def in_delta(self) -> list[int]:
        from deltalake import DeltaTable

        path = self.folder / "delta/db-items"
        if not DeltaTable.is_deltatable(str(path)):
            return []
        return sorted(DeltaTable(path).to_pyarrow_table().column("id").to_pylist())

    def in_iceberg(self) -> list[int]:
        from pyiceberg.catalog import load_catalog

        uri = f"sqlite:///{self.folder}/catalogue.db"
        catalogue = load_catalog("moldau", type="sql", uri=uri, warehouse=f"file://{self.folder}")
        if not catalogue.table_exists("shop.items"):
            return []
        return sorted(catalogue.load_table("shop.items").scan().to_arrow().column("id").to_pylist())


def make_bucket(s3: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", s3.port, timeout=60)
    connection.request("PUT", "/kills")
    assert connection.getresponse().status == 200
    connection.close()


@pytest.mark.timeout(1800)
def test_everything_is_the_same_after_twenty_kills(
    broker: Broker, mongo: Server, s3: Server, tmp_path: Path
) -> None:
    import pymongo

    make_bucket(s3)
    for topic in ("lines", "db-items", "shop.orders"):
        broker.create_topic(topic)
    killed = Killed(broker, tmp_path, connectors(tmp_path, mongo, s3))
    chance = random.Random(11)
    with pymongo.MongoClient(mongodb_address(mongo)) as client:
        shop = client["shop"]
        killed.change(shop)
        for _ in range(KILLS):
            process = killed.start()
            killed.change(shop)
            moment = chance.random() * 4
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(moment)  # chance says when
            process.kill()
            process.wait(60)
            killed.change(shop)
        process = killed.start()
        try:
            same_at_the_end(killed, shop, s3)
        finally:
            process.terminate()
            process.wait(60)


def same_at_the_end(killed: Killed, shop: Any, s3: Server) -> None:
    lines = [f"line {number}" for number in range(killed.lines)]
    wait_until(lambda: killed.written_lines() == lines, killed.log, seconds=200)
    wait_until(lambda: len(killed.stored("out.db")) == killed.rows, killed.log, seconds=200)
    assert killed.stored("out.db") == killed.stored("in.db")
    # What is in the topic is in the tables, exactly once, also what the source sent twice.
    wait_until(lambda: killed.in_delta() == killed.in_topic("db-items"), killed.log, seconds=200)
    wait_until(lambda: killed.in_iceberg() == killed.in_topic("db-items"), killed.log, seconds=200)
    wait_until(
        lambda: list(shop.copied.find().sort("_id")) == list(shop.orders.find().sort("_id")), killed.log
    )
    sent = [bytes(record.value or b"").decode() for record in killed.broker.records("lines")]

    def archived() -> list[object]:
        found = read(ArchiveSource, bucket(s3, "kills"), count=len(sent) + 1, polls=60)
        return [record.value for record in found.records]

    wait_until(lambda: archived() == sent, killed.log, seconds=200)
