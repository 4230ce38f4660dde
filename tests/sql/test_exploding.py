"""EXPLODE: a row for each item."""

import pytest

from moldau.sql.errors import SqlError
from tests.sql.clicks import Sql, record

RECORDS = [
    record("clicks", "ann", {"page": "/a", "ms": 5, "info": {"b": ["x", "y"]}}),
    record("clicks", "bob", {"page": "/b", "ms": 6, "info": {"b": []}}),
    record("clicks", "eve", {"page": "/c", "ms": 7, "info": {"b": ["x"]}}),
]


def test_rows(sql: Sql) -> None:
    query = "SELECT user, EXPLODE(info->b) AS tag, UCASE(EXPLODE(info->b)) AS big FROM clicks"
    assert sql.batch(query, RECORDS) == [
        {"USER": "ann", "TAG": "x", "BIG": "X"},
        {"USER": "ann", "TAG": "y", "BIG": "Y"},
        {"USER": "eve", "TAG": "x", "BIG": "X"},
    ]
    assert sql.columns("SELECT EXPLODE(info->b) FROM clicks") == ["KSQL_COL_0 VARCHAR(STRING)"]
    assert len(sql.columns("SELECT *, EXPLODE(info->b) AS tag FROM clicks")) == 5


def test_side_by_side(sql: Sql) -> None:
    query = "SELECT EXPLODE(info->b) AS a, EXPLODE(ARRAY[1, 2]) AS b FROM clicks WHERE user = 'eve'"
    assert sql.batch(query, RECORDS) == [{"A": "x", "B": 1}, {"A": None, "B": 2}]


def test_grouped(sql: Sql) -> None:
    query = "SELECT EXPLODE(info->b) AS tag, COUNT(*) AS n FROM clicks GROUP BY EXPLODE(info->b)"
    assert sql.batch(query, RECORDS) == [{"TAG": "x", "N": 2}, {"TAG": "y", "N": 1}]


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("SELECT EXPLODE(ms) AS v FROM clicks", "takes an array, not BIGINT"),
        ("SELECT EXPLODE(info->b, 1) AS v FROM clicks", "takes one array"),
        ("SELECT id, EXPLODE(ARRAY[1]) AS v FROM users", "is for streams"),
        ("SELECT user FROM clicks WHERE EXPLODE(info->b) = 'x'", "no function EXPLODE"),
    ],
)
def test_what_is_refused(sql: Sql, query: str, complaint: str) -> None:
    with pytest.raises(SqlError, match=complaint):
        sql.columns(query)
