"""A table copied by a worker that is killed again and again: change stream, topic, sink; row by row the same.

Twenty kills in ``make test-connect``, two of them in ``make test``.
"""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.connect.servers import Server, postgresql, postgresql_address
from waiting import wait_until

from moldau.testing import Broker

pytestmark = pytest.mark.slow

KILLS = 20 if os.environ.get("MOLDAU_TEST_CONNECT") else 2
WORKER = """
bootstrap.servers={servers}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename={folder}/connect.offsets
offset.flush.interval.ms=100
listeners=http://127.0.0.1:0
"""
SOURCE = """
name=changes
connector.class=io.debezium.connector.postgresql.PostgresConnector
database.hostname=127.0.0.1
database.port={port}
database.user=postgres
database.dbname=postgres
topic.prefix=db
table.include.list=public.orders
poll.interval.ms=50
max.batch.size=7
"""
SINK = """
name=copy
connector.class=JdbcSinkConnector
connection.url=jdbc:postgresql://127.0.0.1:{port}/postgres
connection.user=postgres
topics=db.public.orders
table.name.format=copied
insert.mode=upsert
pk.mode=record_key
delete.enabled=true
auto.create=true
auto.evolve=true
transforms=after
transforms.after.type=org.apache.kafka.connect.transforms.ExtractField$Value
transforms.after.field=after
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgresql() as server:
        yield server


class Copy:
    def __init__(self, server: Server, broker: Broker, folder: Path) -> None:
        self.server = server
        self.folder = folder
        texts = {"worker": WORKER, "source": SOURCE, "sink": SINK}
        for name, text in texts.items():
            filled = text.format(servers=broker.bootstrap_servers, folder=folder, port=server.port)
            (folder / f"{name}.properties").write_text(filled)

    def query(self, text: str) -> list[Any]:
        import psycopg

        with psycopg.connect(postgresql_address(self.server), autocommit=True) as connection:
            found = connection.execute(text)  # type: ignore[call-overload]
            return found.fetchall() if found.description else []

    def rows(self, table: str) -> list[Any]:
        if not self.query(f"SELECT to_regclass('{table}')")[0][0]:
            return []
        return self.query(f"SELECT id, name, amount FROM {table} ORDER BY id")

    def start(self) -> "subprocess.Popen[str]":
        files = [str(self.folder / f"{name}.properties") for name in ("worker", "source", "sink")]
        process = subprocess.Popen(
            [sys.executable, "-m", "moldau", "connect-standalone", *files],
            stdout=subprocess.PIPE,
            stderr=(self.folder / "worker.log").open("a"),
            text=True,
        )
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any("moldau connect ready" in line for line in lines), self.log()
        return process

    def log(self) -> str:
        return (self.folder / "worker.log").read_text()[-3000:]

    def change(self, chance: random.Random) -> None:
        """Some transactions of inserts, updates and deletes."""
        for _ in range(5):
            number = chance.randrange(40)
            self.query(
                f"INSERT INTO orders SELECT n, 'n' || n, {number} "
                f"FROM generate_series({number}, {number} + 4) n "
                "ON CONFLICT (id) DO UPDATE SET amount = orders.amount + 1"
            )
            self.query(f"DELETE FROM orders WHERE id = {chance.randrange(40)}")


@pytest.mark.timeout(900)
def test_a_copy_is_the_same_after_every_kill(broker: Broker, server: Server, tmp_path: Path) -> None:
    copy = Copy(server, broker, tmp_path)
    copy.query("CREATE TABLE orders (id INT PRIMARY KEY, name TEXT, amount INT)")
    copy.query("INSERT INTO orders SELECT n, 'n' || n, n FROM generate_series(0, 30) n")
    chance = random.Random(7)
    for number in range(KILLS):
        process = copy.start()
        copy.change(chance)
        if number % 2:  # sometimes in the middle of the work, sometimes behind it
            wait_until(lambda: copy.rows("orders") == copy.rows("copied"), copy.log, seconds=200)
        process.kill()
        process.wait(60)
        copy.change(chance)
    process = copy.start()
    try:
        wait_until(lambda: copy.rows("orders") == copy.rows("copied"), copy.log, seconds=200)
        copy.query("ALTER TABLE orders ADD COLUMN extra TEXT")
        copy.query("UPDATE orders SET amount = -1 WHERE id = (SELECT min(id) FROM orders)")
        wait_until(lambda: copy.rows("orders") == copy.rows("copied"), copy.log, seconds=200)
    finally:
        process.terminate()
        process.wait(60)
