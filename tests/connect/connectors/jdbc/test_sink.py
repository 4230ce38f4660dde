"""Records as rows: modes, keys, tables that grow, and batches that come twice; against real databases."""

import datetime
from decimal import Decimal
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.connect.connector import SinkTask, SinkTaskContext
from moldau.connect.connectors.jdbc.sink import JdbcSink
from moldau.connect.data.schema import Schema, Struct, date, decimal, struct, timestamp
from moldau.connect.data.types import Type
from moldau.connect.errors import ConfigException, ConnectException, DataException, RetriableException
from moldau.connect.records import SinkRecord
from moldau.testing.connect import write
from tests.connect.connectors.jdbc.databases import Database

ORDER = struct({"id": Schema(Type.INT32), "note": Schema(Type.STRING, optional=True)})
WIDE = struct(
    {
        "id": Schema(Type.INT32),
        "note": Schema(Type.STRING, optional=True),
        "price": decimal(2, optional=True),
        "day": date(optional=True),
        "at": timestamp(optional=True),
        "raw": Schema(Type.BYTES, optional=True),
    }
)


def record(offset: int, topic: str, schema: Schema, key: object = None, **values: object) -> SinkRecord:
    return SinkRecord(
        topic=topic,
        partition=0,
        offset=offset,
        key=key,
        value_schema=schema if values else None,
        value=Struct(schema, values) if values else None,
    )


def settings(db: Database, **more: str) -> dict[str, str]:
    return {**db.settings, **{name.replace("_", "."): value for name, value in more.items()}}


def task(db: Database, **more: str) -> SinkTask:
    made = JdbcSink({"name": "test", "topics": "x", **settings(db, **more)})
    found = made.make_task()
    found.start(made.task_settings(1)[0], SinkTaskContext("test", 0))
    return found


@pytest.mark.slow
def test_insert_makes_and_widens_a_table(db: Database) -> None:
    given = settings(db, auto_create="true", auto_evolve="true", delivery="at-least-once")
    write(JdbcSink, given, [record(0, "grown", ORDER, id=1, note="ä€😀"), record(1, "grown", ORDER, id=2)])
    moment = datetime.datetime(2024, 2, 29, 12, 30, 15, 250000, tzinfo=datetime.UTC)
    wide = record(
        2, "grown", WIDE, id=3, price=Decimal("1.50"), day=moment.date(), at=moment, raw=b"\x00\xff"
    )
    write(JdbcSink, given, [wide])
    rows = db.rows("SELECT id, note, price, day, at, raw FROM grown ORDER BY id")
    assert [row[:2] for row in rows] == [(1, "ä€😀"), (2, None), (3, None)]
    last = rows[2]
    assert Decimal(str(last[2])) == Decimal("1.5")
    assert str(last[3]) == "2024-02-29"
    assert str(last[4]).startswith("2024-02-29 12:30:15.25")
    assert bytes(last[5]) == b"\x00\xff"


def test_upsert_and_delete_by_key(db: Database) -> None:
    given = settings(
        db,
        auto_create="true",
        insert_mode="upsert",
        pk_mode="record_key",
        pk_fields="id",
        delete_enabled="true",
    )
    schema = struct({"note": Schema(Type.STRING, optional=True)})
    write(
        JdbcSink,
        given,
        [
            record(0, "kept", schema, "a", note="one"),
            record(1, "kept", schema, "b", note="two"),
            record(2, "kept", schema, "a", note="three"),
            record(3, "kept", schema, "c", note="gone"),
            record(4, "kept", schema, "c"),
        ],
    )
    assert db.rows("SELECT id, note FROM kept ORDER BY id") == [("a", "three"), ("b", "two")]
    write(JdbcSink, given, [record(5, "kept", schema, "b"), record(6, "kept", schema, "a", note="four")])
    assert db.rows("SELECT id, note FROM kept ORDER BY id") == [("a", "four")]


def test_update_changes_only_what_is_there(db: Database) -> None:
    db.run(
        "CREATE TABLE changed (id INTEGER PRIMARY KEY, note VARCHAR(20))",
        "INSERT INTO changed VALUES (1, 'x')",
    )
    given = settings(db, insert_mode="update", pk_mode="record_value", pk_fields="id")
    write(JdbcSink, given, [record(n, "changed", ORDER, id=n, note="new") for n in (1, 2)])
    assert db.rows("SELECT id, note FROM changed") == [(1, "new")]


def test_json_without_a_schema(db: Database) -> None:
    given = settings(db, auto_create="true", pk_mode="kafka")
    found = SinkRecord(topic="loose", partition=0, offset=7, value={"n": 5, "tags": ["a", "b"], "x": 1.5})
    write(JdbcSink, given, [found])
    (row,) = db.rows("SELECT __connect_topic, __connect_partition, __connect_offset, n, tags, x FROM loose")
    assert tuple(row) == ("loose", 0, 7, 5, '["a","b"]', 1.5)


def test_a_batch_that_comes_again_changes_nothing(db: Database) -> None:
    first = task(db, auto_create="true")
    first.put([record(n, "once", ORDER, id=n) for n in range(3)])
    first.stop()  # and dies before it commits to the group
    second = task(db, auto_create="true")
    second.put([record(n, "once", ORDER, id=n) for n in range(5)])
    assert db.rows("SELECT id FROM once ORDER BY id") == [(n,) for n in range(5)]
    second.stop()
    made = JdbcSink({"name": "test", "topics": "x", **settings(db)})
    made.forget([TopicPartition("once", 0)])  # somebody reset the offsets of the connector
    third = task(db)
    third.put([record(0, "once", ORDER, id=0)])
    third.stop()
    assert db.rows("SELECT count(*) FROM once WHERE id = 0") == [(2,)]


def test_all_of_a_batch_or_nothing(db: Database) -> None:
    db.run("CREATE TABLE strict_rows (id INTEGER PRIMARY KEY, note VARCHAR(20) NOT NULL)")
    found = task(db, batch_size="1")
    bad = [record(0, "strict_rows", ORDER, id=1, note="a"), record(1, "strict_rows", ORDER, id=2)]
    with pytest.raises(ConnectException, match="says"):
        found.put(bad)
    assert db.rows("SELECT count(*) FROM strict_rows") == [(0,)]
    found.put([bad[0], record(1, "strict_rows", ORDER, id=2, note="b")])
    found.stop()
    assert db.rows("SELECT count(*) FROM strict_rows") == [(2,)]


def test_names_from_records_are_quoted(db: Database) -> None:
    evil = 'x"; DROP TABLE safe; --`'
    db.run("CREATE TABLE safe (a INTEGER)")
    schema = struct({evil: Schema(Type.INT32)})
    given = settings(db, auto_create="true", table_name_format="quoted")
    write(
        JdbcSink,
        given,
        [SinkRecord(topic="x", partition=0, offset=0, value_schema=schema, value=Struct(schema, {evil: 1}))],
    )
    assert db.rows("SELECT count(*) FROM safe") == [(0,)]
    assert db.rows("SELECT * FROM quoted") == [(1,)]


def test_what_is_no_row_is_reported(db: Database) -> None:
    reported: list[Any] = []
    made = JdbcSink({"name": "test", "topics": "x", **settings(db, auto_create="true")})
    found = made.make_task()
    context = SinkTaskContext("test", 0, report=lambda record, error: reported.append((record.offset, error)))
    found.start(made.task_settings(1)[0], context)
    good = record(1, "reported", ORDER, id=1)
    found.put([SinkRecord(topic="reported", partition=0, offset=0, value="text"), good])
    found.stop()
    assert [offset for offset, _ in reported] == [0]
    assert isinstance(reported[0][1], DataException)
    assert db.rows("SELECT id FROM reported") == [(1,)]


def test_what_cannot_work_says_why(db: Database) -> None:
    with pytest.raises(ConnectException, match=r"Next: make it, or set auto\.create=true"):
        write(JdbcSink, settings(db), [record(0, "nowhere", ORDER, id=1)])
    db.run("CREATE TABLE narrow (id INTEGER)")
    with pytest.raises(ConnectException, match=r"set auto\.evolve=true"):
        write(JdbcSink, settings(db), [record(0, "narrow", ORDER, id=1)])
    with pytest.raises(ConfigException, match="needs a primary key"):
        write(JdbcSink, settings(db, insert_mode="upsert"), [])
    with pytest.raises(ConfigException, match="a tombstone has a key only"):
        write(JdbcSink, settings(db, delete_enabled="true"), [])


def test_two_tasks_that_make_the_same_table(db: Database) -> None:
    given = {"auto_create": "true", "auto_evolve": "true", "delivery": "at-least-once"}
    first: Any = task(db, **given)
    late: Any = task(db, **given)
    first.put([record(0, "raced", WIDE, id=1)])
    seen = late._dialect.columns
    for there in ([], [column for column in _columns(late, "raced") if column.name == "id"]):
        late._dialect.columns = lambda cursor, table, there=there: there  # as it was before the other one
        with pytest.raises(RetriableException):
            late.put([record(1, "raced", WIDE, id=2)])
    late._dialect.columns = seen
    late.put([record(1, "raced", WIDE, id=2)])
    assert db.rows("SELECT id FROM raced ORDER BY id") == [(1,), (2,)]
    first.stop()
    late.stop()


def _columns(found: Any, table: str) -> list[Any]:
    with found._dialect.transaction() as cursor:
        return list(found._dialect.columns(cursor, found._dialect.split(table)))


def test_a_row_that_the_database_refuses_is_left_out_where_that_is_tolerated(db: Database) -> None:
    db.run("CREATE TABLE checked (id INTEGER PRIMARY KEY, note VARCHAR(20) NOT NULL)")
    records = [record(n, "checked", ORDER, id=n, note=None if n in (2, 5) else "x") for n in range(7)]
    with pytest.raises(DataException, match="says"):
        write(JdbcSink, settings(db), records)
    assert db.rows("SELECT id FROM checked") == []
    made = JdbcSink({"name": "test", "topics": "x", "errors.tolerance": "all", **settings(db)})
    refused: list[tuple[int, str]] = []
    found = made.make_task()

    def report(record: SinkRecord, error: Exception) -> None:
        refused.append((record.offset, str(error)))

    found.start(made.task_settings(1)[0], SinkTaskContext("test", 0, report=report))
    try:
        for _ in range(2):  # what comes again is not written again
            found.put(records)
    finally:
        found.stop()
    assert db.rows("SELECT id FROM checked ORDER BY id") == [(0,), (1,), (3,), (4,), (6,)]
    assert [offset for offset, _ in refused] == [2, 5]
    assert all("says: " in text for _, text in refused)
