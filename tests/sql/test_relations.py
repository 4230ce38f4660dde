"""Joins of streams and tables."""

from typing import Any

import pytest

from moldau.sql.errors import SqlError
from tests.sql.clicks import record

USERS = [
    record("users", "ann", {"name": "Ann", "level": 1}),
    record("users", "bob", {"name": "Bob", "level": 2}),
]
CLICK = record("clicks", "ann", {"page": "/a", "ms": 1}, 10)
STRANGER = record("clicks", "zoe", {"page": "/z", "ms": 2}, 20)


def test_a_stream_with_a_table(sql: Any) -> None:
    inner = "SELECT c.user, u.name, c.page FROM clicks c JOIN users u ON c.user = u.id"
    assert sql.updates(inner, [*USERS, CLICK, STRANGER]) == [{"USER": "ann", "NAME": "Ann", "PAGE": "/a"}]
    left = inner.replace("JOIN", "LEFT JOIN").replace("c.user = u.id", "u.id = c.user")
    assert [row["NAME"] for row in sql.updates(left, [*USERS, CLICK, STRANGER])] == ["Ann", None]


def test_by_a_column_that_is_not_the_key(sql: Any) -> None:
    query = "SELECT c.page, u.name FROM clicks c JOIN users u ON SUBSTRING(c.page, 2) = u.id"
    click = record("clicks", None, {"page": "/bob", "ms": 1}, 10)
    assert sql.updates(query, [*USERS, click]) == [{"PAGE": "/bob", "NAME": "Bob"}]


def test_two_streams_within_a_time(sql: Any) -> None:
    within = "WITHIN 1 MINUTE GRACE PERIOD 0 SECONDS"
    query = f"SELECT c.user, v.item FROM clicks c {{}} views v {within} ON c.user = v.user"
    view = record("views", "ann", {"item": "i"}, 30_000)
    late = record("views", "ann", {"item": "late"}, 200_000)
    assert sql.updates(query.format("JOIN"), [CLICK, view, late]) == [{"USER": "ann", "ITEM": "i"}]
    rows = sql.updates(query.format("LEFT JOIN"), [STRANGER, view, late])
    assert {"USER": "zoe", "ITEM": None} in rows


def test_tables_by_key_and_by_foreign_key(sql: Any) -> None:
    levels = [record("levels", 1, {"title": "new"}), record("levels", 2, {"title": "old"})]
    query = "SELECT u.id, u.name, l.title FROM users u JOIN levels l ON u.level = l.level"
    rows = sql.batch(query, [*levels, *USERS, record("levels", 1, {"title": "fresh"})])
    assert {row["ID"]: row["TITLE"] for row in rows} == {"ann": "fresh", "bob": "old"}
    own = "SELECT a.id, a.name, b.level FROM users a LEFT JOIN users b ON a.id = b.id"
    assert {row["ID"]: row["LEVEL"] for row in sql.batch(own, USERS)} == {"ann": 1, "bob": 2}


def test_three_sources(sql: Any) -> None:
    query = (
        "SELECT c.user, u.name, v.item FROM clicks c JOIN users u ON c.user = u.id"
        " JOIN views v WITHIN 1 HOUR ON c.user = v.user"
    )
    view = record("views", "ann", {"item": "i"}, 30_000)
    assert sql.updates(query, [*USERS, CLICK, view]) == [{"USER": "ann", "NAME": "Ann", "ITEM": "i"}]


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("SELECT * FROM clicks c JOIN views v ON c.user = v.user", "needs WITHIN"),
        ("SELECT * FROM clicks c JOIN users u WITHIN 1 DAY ON c.user = u.id", "WITHIN is for"),
        ("SELECT * FROM clicks c JOIN users u ON c.user = u.name", "primary key"),
        ("SELECT * FROM clicks c JOIN users u ON c.user > u.id", "one equality"),
        ("SELECT * FROM clicks c JOIN users u ON c.user = c.page", "each side"),
        ("SELECT * FROM users u JOIN clicks c ON c.user = u.id", "name the stream first"),
        ("SELECT * FROM clicks c JOIN users c ON c.user = c.id", "stands for two|ambiguous"),
        ("SELECT * FROM clicks c FULL OUTER JOIN users u ON c.user = u.id", "FULL OUTER"),
        ("SELECT * FROM users u FULL OUTER JOIN levels l ON u.level = l.level", "foreign key"),
    ],
)
def test_what_is_refused(sql: Any, query: str, complaint: str) -> None:
    with pytest.raises(SqlError, match=complaint):
        sql.columns(query)
