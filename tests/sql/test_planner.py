"""SELECTs over records: rows, names of columns, keys of what is kept, and what is refused."""

import json
from typing import Any

import pytest

from moldau.sql.errors import SqlError
from moldau.sql.parser import parse_query, parse_statement
from moldau.sql.planner import plan_create, plan_insert, plan_query
from moldau.sql.statements import CreateAs, InsertSelect
from moldau.streams import TestDriver
from tests.sql.clicks import record

CLICKS = [
    record("clicks", "ann", {"page": "/a", "ms": 5, "info": {"A": 1, "b": ["x"]}}, 0),
    record("clicks", "bob", {"page": "/b", "ms": 7}, 1_000),
    record("clicks", "ann", {"page": "/c", "ms": None}, 61_000),
]


def test_columns_where_and_names(sql: Any) -> None:
    query = (
        "SELECT user, UCASE(page) AS p, ms * 2, info->b[1], ROWTIME FROM clicks WHERE ms > 5 OR info->a = 1"
    )
    assert sql.columns(query) == [
        "USER VARCHAR(STRING)",
        "P VARCHAR(STRING)",
        "KSQL_COL_2 BIGINT",
        "KSQL_COL_3 VARCHAR(STRING)",
        "ROWTIME BIGINT",
    ]
    assert [tuple(row.values()) for row in sql.batch(query, CLICKS)] == [
        ("ann", "/A", 10, "x", 0),
        ("bob", "/B", 14, None, 1_000),
    ]


def test_star(sql: Any) -> None:
    assert [each.split()[0] for each in sql.columns("SELECT * FROM clicks")] == ["USER", "PAGE", "MS", "INFO"]
    joined = "SELECT * FROM clicks c JOIN users u ON c.user = u.id"
    assert [each.split()[0] for each in sql.columns(joined)][-3:] == ["U_ID", "U_NAME", "U_LEVEL"]
    assert len(sql.columns("SELECT c.*, u.name FROM clicks c JOIN users u ON c.user = u.id")) == 5


def test_what_is_nested_deeply_is_planned_or_refused(sql: Any) -> None:
    deep = "ms" + " + 1" * 90
    assert sql.columns(f"SELECT {deep} AS a, SUM({deep}) AS b FROM clicks GROUP BY {deep}")
    with pytest.raises(SqlError, match="nested"):
        sql.columns(f"SELECT {'ABS(' * 300}ms{')' * 300} FROM clicks")


def test_a_table_has_the_last_row_of_each_key(sql: Any) -> None:
    records = [
        record("users", "a", {"name": "Ann", "level": 1}),
        record("users", "b", {"name": "Bob", "level": 1}),
        record("users", "a", {"name": "Anna", "level": 2}),
        record("users", "b", None),
    ]
    assert sql.batch("SELECT * FROM users", records) == [{"ID": "a", "NAME": "Anna", "LEVEL": 2}]
    assert sql.batch("SELECT id FROM users WHERE level < 2", records) == []
    assert sql.updates("SELECT id FROM users WHERE level < 2", records) == [
        {"ID": "a"},
        {"ID": "b"},
        None,
        None,
    ]


def test_a_table_as_is_created(sql: Any) -> None:
    statement = parse_statement(
        "CREATE TABLE t WITH (KAFKA_TOPIC='out', KEY_FORMAT='JSON') AS"
        " SELECT page, COUNT(*) AS n, WINDOWSTART FROM clicks WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY page"
    )
    assert isinstance(statement, CreateAs)
    plan, source = plan_create(statement, sql.catalogue)
    assert (plan.sink, plan.topics, source.kind) == ("out", ("clicks",), "TABLE")
    assert [(each.name, each.is_key) for each in source.columns] == [("PAGE", True), ("N", False)]
    with TestDriver(plan.topology) as driver:
        (first, *_) = [
            output
            for each in CLICKS
            for output in driver.pipe_raw_input(each.topic, each.key, each.value, each.timestamp)
        ]
    (sink,) = [each for each in plan.topology.sinks() if each.topic == "out"]
    assert sink.key_serde.serialize("out", first.key) == b'"/a"' + (0).to_bytes(8, "big")
    assert json.loads(sink.value_serde.serialize("out", first.value)) == {"N": 1}
    # What was made can be read: the windows are in its keys.
    following = sql.catalogue.add(source)
    reading = plan_query(parse_query("SELECT page, n, WINDOWSTART, WINDOWEND FROM t"), following)
    with TestDriver(reading.topology) as driver:
        (row,) = driver.pipe_raw_input("out", b'"/a"' + (60_000).to_bytes(8, "big"), b'{"N":2}', 1)
    assert row.value == {"PAGE": "/a", "N": 2, "WINDOWSTART": 60_000, "WINDOWEND": 120_000}


def test_a_stream_with_a_new_key(sql: Any) -> None:
    statement = parse_statement("CREATE STREAM s AS SELECT page AS p, user FROM clicks PARTITION BY page")
    assert isinstance(statement, CreateAs)
    plan, source = plan_create(statement, sql.catalogue)
    assert [(each.name, each.is_key) for each in source.columns] == [("P", True), ("USER", False)]
    with TestDriver(plan.topology) as driver:
        (output,) = driver.pipe_raw_input("clicks", CLICKS[0].key, CLICKS[0].value, 0)
    assert (output.topic, output.key, output.value) == ("S", "/a", {"USER": "ann"})


def test_rows_of_one_stream_go_into_another(sql: Any) -> None:
    statement = parse_statement("INSERT INTO views SELECT user, page AS item FROM clicks")
    assert isinstance(statement, InsertSelect)
    assert plan_insert(statement, sql.catalogue).sink == "views"
    wrong = parse_statement("INSERT INTO views SELECT user, ms AS item FROM clicks")
    assert isinstance(wrong, InsertSelect)
    with pytest.raises(SqlError, match="ITEM BIGINT, ITEM VARCHAR"):
        plan_insert(wrong, sql.catalogue)
    into_table = parse_statement("INSERT INTO users SELECT user, page FROM clicks")
    assert isinstance(into_table, InsertSelect)
    with pytest.raises(SqlError, match="is a table"):
        plan_insert(into_table, sql.catalogue)


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("SELECT * FROM nope", "no stream or table NOPE"),
        ("SELECT nope FROM clicks", "no column NOPE"),
        ("SELECT x.* FROM clicks", "no source X"),
        ("SELECT page, page FROM clicks", "Two columns"),
        ("SELECT page FROM clicks HAVING page = 'x'", "need GROUP BY"),
        ("SELECT page FROM clicks EMIT FINAL", "EMIT FINAL needs"),
        ("SELECT id FROM users PARTITION BY name", "PARTITION BY is for streams"),
        ("SELECT page FROM clicks WHERE COUNT(*) > 1", "HAVING"),
        ("SELECT page FROM clicks WHERE page", "true or false"),
    ],
)
def test_what_is_refused(sql: Any, query: str, complaint: str) -> None:
    with pytest.raises(SqlError, match=complaint):
        sql.columns(query)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("CREATE TABLE t AS SELECT user, page FROM clicks", "is a stream: use CREATE STREAM T"),
        (
            "CREATE STREAM t AS SELECT page, COUNT(*) FROM clicks GROUP BY page",
            "is a table: use CREATE TABLE T",
        ),
        ("CREATE TABLE t AS SELECT COUNT(*) AS n FROM clicks GROUP BY page", "key is missing"),
        ("CREATE STREAM t AS SELECT user FROM clicks", "beside its key"),
        ("CREATE STREAM t WITH (COLOUR='red') AS SELECT user, page FROM clicks", "WITH has no COLOUR here"),
        (
            "CREATE STREAM t WITH (TIMESTAMP='ms') AS SELECT user, ms FROM clicks",
            "WITH has no TIMESTAMP here",
        ),
        (
            "CREATE STREAM t WITH (PARTITIONS='x') AS SELECT user, page FROM clicks",
            "PARTITIONS takes a number",
        ),
        (
            "CREATE STREAM t WITH (VALUE_FORMAT=5) AS SELECT user, page FROM clicks",
            "VALUE_FORMAT takes a text",
        ),
    ],
)
def test_what_cannot_be_kept(sql: Any, text: str, complaint: str) -> None:
    statement = parse_statement(text)
    assert isinstance(statement, CreateAs)
    with pytest.raises(SqlError, match=complaint):
        plan_create(statement, sql.catalogue)
