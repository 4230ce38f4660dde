"""Changes of a real PostgreSQL: the snapshot, the stream behind it, restarts at any place, a small slot."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.connect.connectors.cdc.postgresql import PostgresCdc
from moldau.connect.data.schema import Struct
from moldau.connect.errors import ConnectException
from tests.connect.connectors.cdc.reading import Reading, plain
from tests.connect.servers import Server, postgresql, postgresql_address
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgresql() as server:
        yield server


@pytest.fixture(scope="module")
def run(server: Server) -> Callable[..., list[Any]]:
    import psycopg

    def run(*statements: str) -> list[Any]:
        with psycopg.connect(postgresql_address(server), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    return run


def reading_of(server: Server, name: str, **more: str) -> Reading:
    given = {
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "postgres",
        "database.dbname": "postgres",
        "topic.prefix": name,
        "slot.name": name,
        "publication.name": f"{name}_publication",
        "table.include.list": f"public.{name}",
        "poll.interval.ms": "100",
    }
    return Reading(PostgresCdc, name, given | {key.replace("_", "."): value for key, value in more.items()})


def test_snapshot_then_stream(server: Server, run: Callable[..., list[Any]]) -> None:
    run(
        "CREATE TABLE shop (id INT PRIMARY KEY, name TEXT NOT NULL, price NUMERIC(8, 2))",
        "INSERT INTO shop VALUES (1, 'a', 1.5), (2, 'b', NULL)",
    )
    reading = reading_of(server, "shop")
    reading.until(2)
    run("INSERT INTO shop VALUES (3, 'c', 3)", "UPDATE shop SET name = 'B' WHERE id = 2")
    run("DELETE FROM shop WHERE id = 1")
    seen = reading.until(6)
    assert [each[0] for each in seen] == ["r", "r", "c", "u", "d", None]
    assert seen[2][2]["name"] == "c"
    assert seen[3] == ("u", None, {"id": 2, "name": "B", "price": None})
    assert seen[4] == ("d", {"id": 1, "name": None, "price": None}, None)
    assert seen[5][1] == {"id": 1}
    first, third = reading.records[0], reading.records[2]
    assert first.topic == "shop.public.shop"
    assert plain(first.key) == {"id": 1}
    assert third.value_schema is not None
    assert third.value_schema.name == "shop.public.shop.Envelope"
    assert isinstance(first.value, Struct)
    assert isinstance(third.value, Struct)
    assert plain(first.value.get("source"))["snapshot"] == "true"
    source = plain(third.value.get("source"))
    assert (source["connector"], source["table"], source["snapshot"]) == ("postgresql", "shop", "false")
    reading.task.stop()


def test_restarts_lose_nothing_and_double_nothing(server: Server, run: Callable[..., list[Any]]) -> None:
    run("CREATE TABLE steps (n INT PRIMARY KEY)", "INSERT INTO steps SELECT generate_series(0, 4)")
    reading = reading_of(server, "steps", max_batch_size="3")
    reading.until(5)
    run("INSERT INTO steps SELECT generate_series(5, 24)")  # one transaction, read in pieces
    for count in (7, 8, 15, 25):
        reading.until(count)
        reading.restart()
        run(f"INSERT INTO steps VALUES ({1000 + count})")
    reading.until(29)
    reading.task.stop()
    numbers = [each[2]["n"] for each in reading.seen()]
    assert sorted(numbers) == sorted([*range(25), 1007, 1008, 1015, 1025])
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("kept", ["no place", "a place within the snapshot"])
def test_a_snapshot_that_is_cut_short_loses_no_delete(
    server: Server, run: Callable[..., list[Any]], kept: str
) -> None:
    name = "cut_early" if kept == "no place" else "cut_late"
    run(f"CREATE TABLE {name} (n INT PRIMARY KEY)", f"INSERT INTO {name} SELECT generate_series(0, 5)")
    reading = reading_of(server, name, max_batch_size="2")
    reading.until(4)
    if kept == "no place":
        reading.place = None
    run(f"DELETE FROM {name} WHERE n = 1", f"INSERT INTO {name} VALUES (9)")
    reading.restart()
    reading.until(4 + 6)  # the rows of another snapshot
    reading.restart()
    reading.until(4 + 6 + 3)
    reading.task.stop()
    rows: set[int] = set()
    for kind, key, after in reading.seen():
        if kind is None:
            rows.discard(key["n"])
        elif kind != "d":
            rows.add(after["n"])
    assert rows == {0, 2, 3, 4, 5, 9}
    in_use = f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{name}' AND active"
    wait_until(lambda: not run(in_use))
    run(f"SELECT pg_drop_replication_slot('{name}')")  # the server of these tests has few of them


@pytest.mark.parametrize("written", [1, 2, 3])
def test_a_restart_amid_the_records_of_one_change_goes_on_there(
    server: Server, run: Callable[..., list[Any]], written: int
) -> None:
    name = f"parts_{written}"
    run(f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"INSERT INTO {name} VALUES (1), (2)")
    parts = reading_of(server, name)
    parts.until(2)
    # One transaction: a delete with its tombstone, then another key: the old one ends, a new one begins.
    run("BEGIN", f"DELETE FROM {name} WHERE id = 1", f"UPDATE {name} SET id = 3 WHERE id = 2", "COMMIT")
    whole = parts.until(7)[2:]
    assert [each[0] for each in whole] == ["d", None, "d", None, "c"]
    for first in (2, 4):
        # As if only some of the records had been written.
        place = parts.records[first + written - 1].source_offset if first + written <= 7 else None
        if place is None:
            continue
        parts.place = place
        del parts.records[first + written :]
        parts.restart()
        assert parts.until(7)[2:] == whole
    parts.task.stop()
    in_use = f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{name}' AND active"
    wait_until(lambda: not run(in_use))
    run(f"SELECT pg_drop_replication_slot('{name}')")


def test_columns_that_come_and_go(server: Server, run: Callable[..., list[Any]]) -> None:
    run("CREATE TABLE wide (id INT PRIMARY KEY, a TEXT)", "ALTER TABLE wide REPLICA IDENTITY FULL")
    run("INSERT INTO wide VALUES (1, 'x')")
    reading = reading_of(server, "wide")
    reading.until(1)
    run("ALTER TABLE wide ADD COLUMN b INT[]", "INSERT INTO wide VALUES (2, 'y', '{1,NULL}')")
    run("ALTER TABLE wide DROP COLUMN a", "UPDATE wide SET id = 3 WHERE id = 2")
    run("UPDATE wide SET b = '{5}' WHERE id = 3")
    seen = reading.until(6)
    assert seen[1] == ("c", None, {"id": 2, "a": "y", "b": [1, None]})
    assert seen[2] == ("d", {"id": 2, "b": [1, None]}, None)  # another key: the old one ends
    assert seen[3] == (None, {"id": 2}, None)
    assert seen[4] == ("c", None, {"id": 3, "b": [1, None]})
    assert seen[5] == ("u", {"id": 3, "b": [1, None]}, {"id": 3, "b": [5]})
    reading.task.stop()


def test_large_values_that_were_not_touched(server: Server, run: Callable[..., list[Any]]) -> None:
    run("CREATE TABLE big (id INT PRIMARY KEY, n INT, body TEXT)")
    run("ALTER TABLE big ALTER COLUMN body SET STORAGE EXTERNAL")
    run("INSERT INTO big VALUES (1, 0, repeat('x', 100000))")
    reading = reading_of(server, "big")
    reading.until(1)
    run("UPDATE big SET n = 1")
    seen = reading.until(2)
    assert seen[1][2] == {"id": 1, "n": 1, "body": "__debezium_unavailable_value"}
    reading.task.stop()


def test_the_slot_stays_small_though_other_tables_change(
    server: Server, run: Callable[..., list[Any]]
) -> None:
    run(
        "CREATE TABLE quiet (id INT PRIMARY KEY)",
        "INSERT INTO quiet VALUES (1)",
        "CREATE TABLE noisy (t TEXT)",
    )
    reading = reading_of(server, "quiet")
    reading.until(1)
    run("INSERT INTO noisy SELECT repeat('x', 1000) FROM generate_series(1, 5000)")
    wanted = run("SELECT pg_current_wal_lsn()::text")[0][0]

    def passed() -> bool:
        reading.poll()
        query = (
            f"SELECT confirmed_flush_lsn >= '{wanted}' FROM pg_replication_slots WHERE slot_name = 'quiet'"
        )
        return bool(run(query)[0][0])

    wait_until(passed)
    assert len(reading.records) == 1
    reading.restart()
    run("INSERT INTO quiet VALUES (2)")
    assert reading.until(2)[1] == ("c", None, {"id": 2})
    reading.task.stop()


def test_heartbeats(server: Server, run: Callable[..., list[Any]]) -> None:
    run("CREATE TABLE beats (id INT PRIMARY KEY)")
    reading = reading_of(server, "beats", heartbeat_interval_ms="50")
    reading.until(2)
    assert {record.topic for record in reading.records} == {"__debezium-heartbeat.beats"}
    reading.restart()
    run("INSERT INTO beats VALUES (1)")
    wait_until(lambda: any(r.topic == "beats.public.beats" for r in reading.poll()))
    reading.task.stop()


def test_a_slot_that_is_gone_is_said(server: Server, run: Callable[..., list[Any]]) -> None:
    run("CREATE TABLE gone (id INT PRIMARY KEY)", "INSERT INTO gone VALUES (1)")
    reading = reading_of(server, "gone")
    reading.until(1)
    reading.task.stop()
    wait_until(lambda: not run("SELECT 1 FROM pg_replication_slots WHERE slot_name = 'gone' AND active"))
    run("SELECT pg_drop_replication_slot('gone')")
    reading.start()
    with pytest.raises(ConnectException, match="is gone"):
        reading.poll()
    reading.task.stop()
