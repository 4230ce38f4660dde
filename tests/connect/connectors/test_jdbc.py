"""The books' demo, word for word: a table of SQLite becomes a topic, and inserts and updates follow; then on
into PostgreSQL, with a server that goes away for a while.
"""

import json
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.testing import Broker
from tests.connect.conftest import Worker, running
from tests.connect.servers import Server, postgresql, postgresql_address
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def worker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with running(broker, tmp_path_factory.mktemp("worker")) as worker:
        yield worker


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgresql() as server:
        yield server


def payloads(broker: Broker, topic: str) -> list[Any]:
    if topic not in broker.topics():
        return []
    return [json.loads(bytes(record.value or b""))["payload"] for record in broker.records(topic)]


def test_the_table_of_invoices(worker: Worker, broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "kafkatest.db"
    with sqlite3.connect(file) as database:
        database.execute(
            "CREATE TABLE invoices(id INT PRIMARY KEY NOT NULL, title TEXT NOT NULL, details CHAR(50), "
            "billedamt REAL, modified DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL)"
        )
        database.execute(
            "INSERT INTO invoices (id,title,details,billedamt) VALUES (1,'book','Franz Kafka',500.00)"
        )
    config = {
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "tasks.max": "1",
        "connection.url": f"jdbc:sqlite:{file}",
        "mode": "timestamp+incrementing",
        "incrementing.column.name": "id",
        "timestamp.column.name": "modified",
        "topic.prefix": "test-sqlite-jdbc-",
        "poll.interval.ms": "100",
    }
    worker.call("POST", "/connectors", {"name": "test-source-sqlite-jdbc", "config": config})
    topic = "test-sqlite-jdbc-invoices"
    wait_until(
        lambda: [row["title"] for row in payloads(broker, topic)] == ["book"],
        lambda: worker.task("test-source-sqlite-jdbc"),
    )
    assert payloads(broker, topic)[0]["details"] == "Franz Kafka"
    with sqlite3.connect(file) as database:
        database.execute("INSERT INTO invoices (id,title,billedamt) VALUES (2,'pen',1.5)")
    wait_until(lambda: len(payloads(broker, topic)) == 2)
    with sqlite3.connect(file) as database:  # the application says itself when a row changed
        database.execute("UPDATE invoices SET billedamt = 450, modified = '2030-01-01 00:00:00' WHERE id = 1")
        database.execute("UPDATE invoices SET modified = datetime('now', '-1 second') WHERE id = 2")
        database.execute("UPDATE invoices SET modified = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE id = 1")
    wait_until(lambda: len(payloads(broker, topic)) >= 3)
    assert payloads(broker, topic)[2]["billedamt"] == 450
    worker.call("PUT", "/connectors/test-source-sqlite-jdbc/stop")
    with sqlite3.connect(file) as database:
        database.execute(
            "INSERT INTO invoices (id,title,modified) "
            "VALUES (3,'ink', strftime('%Y-%m-%d %H:%M:%f', 'now', '+0.001 seconds'))"
        )
    worker.call("PUT", "/connectors/test-source-sqlite-jdbc/resume")
    wait_until(lambda: len(payloads(broker, topic)) >= 4)  # nothing comes twice after a restart
    assert [row["id"] for row in payloads(broker, topic)] == [1, 2, 1, 3]
    worker.call("DELETE", "/connectors/test-source-sqlite-jdbc")


def test_a_server_that_goes_away(worker: Worker, broker: Broker, server: Server) -> None:
    import psycopg

    schema = {
        "type": "struct",
        "optional": False,
        "fields": [{"field": "n", "type": "int64", "optional": False}],
    }

    def send(numbers: range) -> None:
        for number in numbers:
            value = json.dumps({"schema": schema, "payload": {"n": number}}).encode()
            broker.produce("rows", value, partition=0)

    def stored() -> list[int]:
        with psycopg.connect(postgresql_address(server)) as connection:
            return [row[0] for row in connection.execute("SELECT n FROM rows ORDER BY n").fetchall()]

    broker.create_topic("rows")
    send(range(10))
    config = {
        "connector.class": "JdbcSinkConnector",
        "connection.url": f"jdbc:postgresql://127.0.0.1:{server.port}/postgres?user=postgres&password=hush",
        "topics": "rows",
        "auto.create": "true",
    }
    worker.call("POST", "/connectors", {"name": "rows", "config": config})

    def committed() -> bool:
        offsets = worker.call("GET", "/connectors/rows/offsets")["offsets"]
        return bool(offsets) and offsets[0]["offset"]["kafka_offset"] == 10

    wait_until(committed, lambda: worker.task("rows"))
    server.stop(signal.SIGINT)  # it closes its connections
    send(range(10, 20))
    wait_until(lambda: worker.task("rows")["state"] == "RESTARTING", lambda: worker.task("rows"))
    assert "hush" not in worker.task("rows")["trace"]
    server.start()
    wait_until(lambda: len(stored()) >= 20, lambda: worker.task("rows"))
    assert stored() == list(range(20))
    worker.call("DELETE", "/connectors/rows")
    with psycopg.connect(postgresql_address(server)) as connection:
        left = connection.execute("SELECT count(*) FROM moldau_connect_offsets").fetchone()
    assert left == (0,)
