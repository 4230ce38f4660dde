"""Rows as records: modes, types, places; against real databases."""

import datetime
from decimal import Decimal
from typing import Any

import pytest

from moldau.connect.connectors.jdbc.source import JdbcSource
from moldau.connect.data.schema import Struct
from moldau.connect.data.types import Instant
from moldau.connect.errors import ConfigException, ConnectException
from moldau.testing.connect import Found, read
from tests.connect.connectors.jdbc.databases import Database


def got(found: Found) -> list[dict[str, Any]]:
    rows = []
    for record in found.records:
        assert isinstance(record.value, Struct)
        rows.append({field.name: value for field, value in record.value.items()})
    return rows


def polled(db: Database, count: int, places: Any = None, polls: int = 40, **more: str) -> Found:
    settings = {name.replace("_", "."): value for name, value in more.items()}
    given = {"topic.prefix": "t-", "poll.interval.ms": "0", **db.settings, **settings}
    return read(JdbcSource, given, count=count, places=places, polls=polls)


@pytest.mark.slow
def test_incrementing(db: Database) -> None:
    db.run(
        "CREATE TABLE numbered (id INTEGER PRIMARY KEY NOT NULL, name VARCHAR(20))",
        "INSERT INTO numbered VALUES (1, 'a'), (2, NULL)",
    )
    mode = {
        "mode": "incrementing",
        "incrementing_column_name": "id",
        "table_whitelist": "numbered",
        "batch_max_rows": "1",
    }
    first = polled(db, 2, **mode)
    assert got(first) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    assert [record.topic for record in first.records] == ["t-numbered"] * 2
    assert first.records[1].source_offset == {"incrementing": 2}
    assert got(polled(db, 1, first.places, polls=3, **mode)) == []
    db.run("INSERT INTO numbered VALUES (4, 'd'), (3, 'c')")
    assert [row["id"] for row in got(polled(db, 2, first.places, **mode))] == [3, 4]


def test_timestamp_and_incrementing_see_updates(db: Database) -> None:
    db.run(
        "CREATE TABLE invoices (id INTEGER PRIMARY KEY NOT NULL, title VARCHAR(20), "
        "modified TIMESTAMP NOT NULL)",
        "INSERT INTO invoices VALUES (1, 'book', '2024-01-01 10:00:00'), (2, 'pen', '2024-01-01 10:00:00')",
    )
    mode = {
        "mode": "timestamp+incrementing",
        "incrementing_column_name": "id",
        "timestamp_column_name": "modified",
        "table_whitelist": "invoices",
    }
    first = polled(db, 2, **mode)
    assert [row["id"] for row in got(first)] == [1, 2]
    at = Instant.of(datetime.datetime(2024, 1, 1, 10))
    assert got(first)[0]["modified"] == at
    assert first.records[1].source_offset == {
        "incrementing": 2,
        "timestamp": at.epoch_ms,
        "timestamp_nanos": 0,
    }
    db.run(
        "INSERT INTO invoices VALUES (3, 'ink', '2024-01-01 10:00:00')",
        "UPDATE invoices SET title = 'old book', modified = '2024-01-01 10:00:01' WHERE id = 1",
    )
    second = polled(db, 2, first.places, **mode)
    assert [(row["id"], row["title"]) for row in got(second)] == [(3, "ink"), (1, "old book")]
    assert got(polled(db, 1, second.places, polls=3, **mode)) == []


def test_rows_of_one_time_are_not_lost_between_batches(db: Database) -> None:
    db.run("CREATE TABLE timed (id INTEGER NOT NULL, at TIMESTAMP NOT NULL)")
    for number, second in enumerate((0, 1, 1, 1, 2)):
        db.run(f"INSERT INTO timed VALUES ({number}, '2024-01-01 10:00:0{second}')")
    mode = {"mode": "timestamp", "timestamp_column_name": "at", "table_whitelist": "timed"}
    half = polled(db, 3, batch_max_rows="3", **mode)  # the worker dies within the rows of second 1
    assert sorted(row["id"] for row in got(half)) in ([0, 1, 2], [0, 1, 3], [0, 2, 3])
    rest = polled(db, 4, half.places, **mode)
    assert sorted(row["id"] for row in got(rest)) == [1, 2, 3, 4]


def test_bulk_reads_everything_again(db: Database) -> None:
    db.run("CREATE TABLE whole (a INTEGER)", "INSERT INTO whole VALUES (1), (2)")
    assert len(got(polled(db, 4, mode="bulk", table_whitelist="whole"))) == 4


def test_many_tables_by_pattern(db: Database) -> None:
    db.run(
        "CREATE TABLE p_one (a INTEGER)", "CREATE TABLE p_two (a INTEGER)", "CREATE TABLE q_one (a INTEGER)"
    )
    db.run("INSERT INTO p_one VALUES (1)", "INSERT INTO p_two VALUES (2)", "INSERT INTO q_one VALUES (3)")
    found = polled(db, 2, mode="bulk", table_include_list=".*p_.*", poll_interval_ms="60000")
    assert {record.topic for record in found.records} == {"t-p_one", "t-p_two"}


def test_a_query(db: Database) -> None:
    db.run("CREATE TABLE joined (id INTEGER PRIMARY KEY, v VARCHAR(9))", "INSERT INTO joined VALUES (1, 'x')")
    mode = {"mode": "incrementing", "incrementing_column_name": "id"}
    query = "SELECT id, v FROM joined WHERE v = 'x'"
    first = polled(db, 1, query=query, **mode)
    assert [(str(row["id"]), row["v"]) for row in got(first)] == [("1", "x")]
    assert first.records[0].topic == "t-"
    db.run("INSERT INTO joined VALUES (2, 'x'), (3, 'y')")
    assert [str(row["id"]) for row in got(polled(db, 1, first.places, query=query, **mode))] == ["2"]


def test_types(db: Database) -> None:
    flags = "BIT(1)" if db.kind == "mysql" else "BOOLEAN"
    raw = "BYTEA" if db.kind == "postgresql" else "BLOB"
    db.run(
        f"CREATE TABLE kinds (i BIGINT NOT NULL, f DOUBLE PRECISION, d DECIMAL(10, 2), t TEXT, b {flags}, "
        f"r {raw}, dd DATE, ts TIMESTAMP NULL)",
        "INSERT INTO kinds VALUES (9007199254740993, 0.5, 12.30, 'ä€😀', TRUE, "
        + ("'\\x00ff'" if db.kind == "postgresql" else "x'00ff'")
        + ", '2024-02-29', '2024-02-29 12:00:00.123')",
        "INSERT INTO kinds (i) VALUES (1)",
    )
    first, second = got(polled(db, 2, mode="bulk", table_whitelist="kinds"))
    stamp = datetime.datetime(2024, 2, 29, 12, 0, 0, 123000)
    if db.kind == "mysql":
        stamp = stamp.replace(microsecond=0)  # a TIMESTAMP without digits
    assert first == {
        "i": 9007199254740993,
        "f": 0.5,
        "d": Decimal("12.30"),
        "t": "ä€😀",
        "b": True,
        "r": b"\x00\xff",
        "dd": Instant.of(datetime.date(2024, 2, 29)),
        "ts": Instant.of(stamp),
    }
    assert str(first["d"]) == "12.30"
    assert second == dict.fromkeys(first) | {"i": 1}


def test_what_cannot_work_says_why(db: Database) -> None:
    db.run("CREATE TABLE loose (a INTEGER)")
    with pytest.raises(ConnectException, match="may be null"):
        polled(db, 1, mode="incrementing", incrementing_column_name="a", table_whitelist="loose")
    with pytest.raises(ConnectException, match="has no column nope"):
        polled(db, 1, mode="incrementing", incrementing_column_name="nope", table_whitelist="loose")
    with pytest.raises(ConnectException, match="has no table gone"):
        polled(db, 1, mode="bulk", table_whitelist="gone")
    with pytest.raises(ConfigException, match="needs a column of timestamps"):
        polled(db, 1, mode="timestamp")
    with pytest.raises(ConfigException, match="exclude each other"):
        polled(db, 1, mode="bulk", query="SELECT 1", table_whitelist="loose")
