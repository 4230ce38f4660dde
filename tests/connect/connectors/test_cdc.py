"""A table copied by a worker that is killed again and again: change stream, topic, sink; row by row the same.

Twenty kills in ``make test-connect``, two of them in ``make test``.
"""

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moldau.testing import Broker
from tests.connect.servers import Server, mariadb, postgresql, postgresql_address
from tests.shared.waiting import wait_until

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
MARIADB = """
name=changes
connector.class=io.debezium.connector.mariadb.MariaDbConnector
database.hostname=127.0.0.1
database.port={port}
database.user=root
topic.prefix=db
table.include.list=test.orders
poll.interval.ms=50
max.batch.size=7
"""
SINK = """
name=copy
connector.class=JdbcSinkConnector
connection.url={url}
connection.user={user}
topics={topic}
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


class Copy:
    def __init__(self, kind: str, server: Server, broker: Broker, folder: Path) -> None:
        self.kind = kind
        self.server = server
        self.folder = folder
        named = {"servers": broker.bootstrap_servers, "folder": folder, "port": server.port}
        if kind == "postgresql":
            named |= {"url": f"jdbc:postgresql://127.0.0.1:{server.port}/postgres", "user": "postgres"}
            named |= {"topic": "db.public.orders"}
        else:
            named |= {"url": f"jdbc:mariadb://127.0.0.1:{server.port}/test", "user": "root"}
            named |= {"topic": "db.test.orders"}
        source = SOURCE if kind == "postgresql" else MARIADB
        for name, text in {"worker": WORKER, "source": source, "sink": SINK}.items():
            (folder / f"{name}.properties").write_text(text.format(**named))

    def query(self, text: str) -> list[Any]:
        if self.kind == "postgresql":
            import psycopg

            with psycopg.connect(postgresql_address(self.server), autocommit=True) as connection:
                found = connection.execute(text)  # type: ignore[call-overload]
                return found.fetchall() if found.description else []
        import pymysql

        address = {"host": "127.0.0.1", "port": self.server.port, "user": "root", "database": "test"}
        with pymysql.connect(**address, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall())

    def rows(self, table: str) -> list[Any]:
        there = f"SELECT 1 FROM information_schema.tables WHERE table_name = '{table}'"
        return self.query(f"SELECT id, name, amount FROM {table} ORDER BY id") if self.query(there) else []

    def numbers(self, first: int, last: int, amount: str) -> str:
        if self.kind == "postgresql":
            return f"SELECT n, 'n' || n, {amount} FROM generate_series({first}, {last}) n"
        return f"SELECT seq, CONCAT('n', seq), {amount.replace('n', 'seq')} FROM seq_{first}_to_{last}"

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
        double = "ON CONFLICT (id) DO" if self.kind == "postgresql" else "ON DUPLICATE KEY"
        setting = "SET amount =" if self.kind == "postgresql" else "amount ="
        for _ in range(5):
            number = chance.randrange(40)
            new = self.numbers(number, number + 4, str(number))
            self.query(f"INSERT INTO orders {new} {double} UPDATE {setting} orders.amount + 1")
            self.query(f"DELETE FROM orders WHERE id = {chance.randrange(40)}")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_copy_is_the_same_after_every_kill(kind: str, broker: Broker, tmp_path: Path) -> None:
    if kind == "mariadb" and KILLS < 20:
        pytest.skip("make test-connect kills workers that read MariaDB")
    with postgresql() if kind == "postgresql" else mariadb() as server:
        broker.create_topic("db.public.orders" if kind == "postgresql" else "db.test.orders")
        copy_while_killed(Copy(kind, server, broker, tmp_path))


def copy_while_killed(copy: Copy) -> None:
    copy.query("CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(40), amount INT)")
    copy.query(f"INSERT INTO orders {copy.numbers(0, 30, 'n')}")
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
        copy.query("UPDATE orders SET amount = -1 WHERE id > 20")
        wait_until(lambda: copy.rows("orders") == copy.rows("copied"), copy.log, seconds=200)
    finally:
        process.terminate()
        process.wait(60)
