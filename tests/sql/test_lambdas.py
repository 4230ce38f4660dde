"""TRANSFORM, FILTER and REDUCE with functions that are written in the statement."""

from typing import Any

import pytest

from moldau.sql.errors import SqlError
from tests.sql.clicks import Sql, record

RECORDS = [
    record("clicks", "ann", {"page": "/a", "ms": 5, "info": {"a": 1, "b": ["x", "yy"]}}),
    record("clicks", "bob", {"page": "/b", "ms": 6, "info": {"a": 2}}),
]


@pytest.mark.parametrize(
    ("expression", "kind", "values"),
    [
        ("TRANSFORM(info->b, x => UCASE(x) + page)", "ARRAY<VARCHAR(STRING)>", [["X/a", "YY/a"], None]),
        ("FILTER(info->b, x => LEN(x) > info->a)", "ARRAY<VARCHAR(STRING)>", [["yy"], None]),
        ("REDUCE(info->b, 0, (s, x) => s + LEN(x))", "INTEGER", [3, 0]),
        ("REDUCE(AS_MAP(ARRAY['k'], ARRAY[ms]), ms, (s, k, v) => s * v)", "BIGINT", [25, 36]),
        ("FILTER(AS_MAP(ARRAY['k'], ARRAY[ms]), (k, v) => v > 5)", None, [{}, {"k": 6}]),
        (
            "TRANSFORM(AS_MAP(ARRAY['k'], ARRAY[ms]), (k, v) => UCASE(k), (k, v) => v + 1)",
            None,
            [{"K": 6}, {"K": 7}],
        ),
        # A variable hides a column, and functions may stand in functions.
        ("TRANSFORM(ARRAY[1, 2], ms => ms + 1)", "ARRAY<INTEGER>", [[2, 3], [2, 3]]),
        (
            "TRANSFORM(ARRAY[1, 2], x => REDUCE(ARRAY[x, ms], 0, (s, y) => s + y))",
            "ARRAY<BIGINT>",
            [[6, 7], [7, 8]],
        ),
    ],
)
def test_what_they_give(sql: Sql, expression: str, kind: str | None, values: list[Any]) -> None:
    query = f"SELECT {expression} AS v FROM clicks"
    assert [each["V"] for each in sql.batch(query, RECORDS)] == values
    if kind is not None:
        assert sql.columns(query) == [f"V {kind}"]


def test_over_groups(sql: Sql) -> None:
    query = "SELECT user, TRANSFORM(COLLECT_LIST(ms), x => x + 1) AS v FROM clicks GROUP BY user"
    assert [each["V"] for each in sql.batch(query, RECORDS)] == [[6], [7]]


def test_a_field_as_an_argument_is_no_function(sql: Sql) -> None:
    assert sql.batch("SELECT ABS(info->a) AS v FROM clicks", RECORDS) == [{"V": 1}, {"V": 2}]


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("TRANSFORM(ms, x => x)", "takes an array or a map, not BIGINT"),
        ("TRANSFORM(info->b)", "takes 2 arguments"),
        ("TRANSFORM(info->b, 1)", "A function is expected"),
        ("TRANSFORM(info->b, (x, y) => x)", "2 variables where 1"),
        ("FILTER(info->b, x => x)", "true or false"),
        ("TRANSFORM(info->b, x => nope)", "no column NOPE"),
        ("UCASE(x => x)", "cannot be used here"),
    ],
)
def test_what_is_refused(sql: Sql, expression: str, complaint: str) -> None:
    with pytest.raises(SqlError, match=complaint):
        sql.columns(f"SELECT {expression} AS v FROM clicks")
