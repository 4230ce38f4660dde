"""Expressions over rows: values, types, NULL, and what is refused."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from moldau.sql.dialect import parse_expression, parse_type
from moldau.sql.errors import SqlError
from moldau.sql.expressions import Scope, compile_condition, compile_expression
from moldau.sql.types import type_of

TYPES = {
    "I": "INT",
    "B": "BIGINT",
    "D": "DOUBLE",
    "S": "STRING",
    "N": "STRING",
    "T": "BOOLEAN",
    "ARR": "ARRAY<INT>",
    "M": "MAP<STRING, INT>",
    "ST": "STRUCT<A INT, X STRUCT<Y STRING>>",
    "TS": "TIMESTAMP",
    "DEC": "DECIMAL(6, 2)",
}
ROW: dict[str, Any] = {
    "I": 7,
    "B": 1 << 40,
    "D": 2.5,
    "S": "Hello",
    "N": None,
    "T": True,
    "ARR": [1, 2, 3],
    "M": {"k": 5},
    "ST": {"A": 1, "X": {"Y": "deep"}},
    "TS": datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC),
    "DEC": Decimal("12.50"),
}
SCOPE = Scope({("R", name): (name, type_of(parse_type(kind))) for name, kind in TYPES.items()})


def evaluated(text: str) -> Any:
    return compile_expression(parse_expression(text), SCOPE).evaluate(ROW)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("i / d", 2.8),
        ("i / 0", None),
        ("n || 'x'", "x"),
        ("s || ' ' || i", "Hello 7"),
        ("s + '!'", "Hello!"),
        ("dec * 2", Decimal("25.00")),
        ("dec + d", 15.0),
        ("1.5", Decimal("1.5")),
        ("i = 7 AND s <> 'x'", True),
        ("n = 'x'", None),
        ("n = 'x' AND FALSE", False),
        ("n = 'x' OR TRUE", True),
        ("n = 'x' OR FALSE", None),
        ("NOT n = 'x'", None),
        ("n IS NULL", True),
        ("s IS NOT NULL", True),
        ("i BETWEEN 5 AND 7", True),
        ("i NOT BETWEEN 5 AND 7", False),
        ("i IN (1, 7)", True),
        ("i IN (1, NULL)", None),
        ("i NOT IN (1, 2)", True),
        ("s LIKE 'H_l%'", True),
        ("s LIKE 'h%'", False),
        ("s LIKE '%.%'", False),
        ("CASE WHEN i > 5 THEN 'big' ELSE 'small' END", "big"),
        ("CASE i WHEN 1 THEN 'one' WHEN 7 THEN 'seven' END", "seven"),
        ("CASE i WHEN 1 THEN 'one' END", None),
        ("CAST('12' AS INT)", 12),
        ("CAST('x' AS INT)", None),
        ("CAST(99999999999 AS INT)", None),
        ("CAST(i AS STRING)", "7"),
        ("CAST(t AS STRING)", "true"),
        ("CAST('2026-01-02' AS DATE)", date(2026, 1, 2)),
        ("CAST(1.239 AS DECIMAL(4, 2))", Decimal("1.24")),
        ("ts > '2026-01-01'", True),
        ("'2026-01-01T00:00:00' > ts", False),
        ("arr[1]", 1),
        ("arr[-1]", 3),
        ("arr[0]", None),
        ("arr[9]", None),
        ("m['k']", 5),
        ("m['z']", None),
        ("st->a", 1),
        ("st->x->y", "deep"),
        ("ARRAY[1, i]", [1, 7]),
        ("STRUCT(a := i, b := s)", {"A": 7, "B": "Hello"}),
        ("r.i", 7),
        ("UCASE(s)", "HELLO"),
        ("SUBSTRING(s, 2, 3)", "ell"),
        ("SUBSTRING(s, -3)", "llo"),
        ("COALESCE(n, s)", "Hello"),
        ("IFNULL(n, 'none')", "none"),
        ("UCASE(n)", None),
        ("LEN(s)", 5),
        ("ROUND(2.5)", 3),
        ("ROUND(-2.5)", -2),
        ("GREATEST(1, NULL, 5)", 5),
        ("SPLIT('a,b', ',')", ["a", "b"]),
        ("EXTRACTJSONFIELD('{\"a\": {\"b\": [1, 2]}}', '$.a.b[1]')", "2"),
        ("FORMAT_TIMESTAMP(ts, 'yyyy-MM-dd HH:mm:ss.SSS')", "2026-01-02 03:04:05.678"),
        ("UNIX_TIMESTAMP(PARSE_TIMESTAMP('1970-01-02', 'yyyy-MM-dd'))", 86_400_000),
        ("TIMESTAMPTOSTRING(0, 'yyyy')", "1970"),
        ("ARRAY_CONTAINS(arr, 2)", True),
        ("MASK('Ab-1')", "Xx-n"),
        ("REGEXP_EXTRACT('l+', s)", "ll"),
        ("LPAD('7', 3, '0')", "007"),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert evaluated(text) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("i + 1", "INTEGER"),
        ("i + b", "BIGINT"),
        ("b + d", "DOUBLE"),
        ("i + dec", "DECIMAL(6, 2)"),
        ("s = 'x'", "BOOLEAN"),
        ("arr", "ARRAY<INTEGER>"),
        ("st->x", "STRUCT<Y VARCHAR(STRING)>"),
        ("SPLIT(s, 'l')", "ARRAY<VARCHAR(STRING)>"),
        ("CASE WHEN t THEN 1 ELSE 2.5 END", "DECIMAL(2, 1)"),
    ],
)
def test_types(text: str, kind: str) -> None:
    assert str(compile_expression(parse_expression(text), SCOPE).type) == kind


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nope", "no column NOPE"),
        ("x.i", "no column X.I"),
        ("NOPE(i)", "no function NOPE"),
        ("UCASE(s, s)", "takes 1 to 1"),
        ("s * 2", "needs numbers"),
        ("s = 1", "compares"),
        ("st->nope", "no field NOPE"),
        ("i[1]", "only arrays and maps"),
        ("s LIKE n", "text in quotes"),
        ("CASE WHEN t THEN 1 ELSE 'x' END", "in common"),
        ("EXISTS (SELECT 1 FROM t)", "cannot be used"),
    ],
)
def test_what_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(SqlError, match=complaint):
        compile_expression(parse_expression(text), SCOPE)


def test_a_condition_is_true_or_false() -> None:
    assert compile_condition(parse_expression("n = 'x'"), SCOPE)(ROW) is False
    with pytest.raises(SqlError, match="true or false"):
        compile_condition(parse_expression("i"), SCOPE)


def test_a_name_in_two_sources_needs_its_source() -> None:
    both = Scope(
        {("A", "X"): ("A.X", type_of(parse_type("INT"))), ("B", "X"): ("B.X", type_of(parse_type("INT")))}
    )
    with pytest.raises(SqlError, match=r"ambiguous: say A\.X and B\.X"):
        compile_expression(parse_expression("x"), both)
    assert compile_expression(parse_expression("b.x"), both).evaluate({"B.X": 3}) == 3
