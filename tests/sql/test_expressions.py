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
        ("REGEXP_EXTRACT('(.)l+(.)', s, 2)", "o"),
        ("REGEXP_EXTRACT('x', s)", None),
        ("REGEXP_EXTRACT('l', s, 1)", None),
        ("REGEXP_EXTRACT_ALL('[a-z]', s)", ["e", "l", "l", "o"]),
        ("REGEXP_REPLACE(s, '([a-z])l', '<$1>')", "H<e>lo"),
        ("REGEXP_SPLIT_TO_ARRAY('a1b22c', '[0-9]+')", ["a", "b", "c"]),
        # Expressions that another engine would not come back from.
        ("REGEXP_EXTRACT('(a+)+$', LPAD('!', 60, 'a'))", None),
        ("REGEXP_REPLACE(LPAD('!', 60, 'a'), '(a|aa)+$', '')", "a" * 59 + "!"),
        ("REGEXP_REPLACE(LPAD('', 100000, 'a'), 'a*b|a', '')", None),
        ("LPAD('7', 3, '0')", "007"),
        ("RPAD('7', 3, 'ab')", "7ab"),
        # What a type cannot hold is NULL, as in CAST: nobody could read the row again.
        ("2147483647 + 1", None),
        ("2147483647 - i", 2147483640),
        ("b * b", None),
        ("-9223372036854775808", -(1 << 63)),
        ("dec * dec", Decimal("156.2500")),
        ("dec / 3", Decimal("4.1666666666667")),
        ("CAST(1.5 AS DECIMAL(38, 10)) + 0.25", Decimal("1.7500000000")),
        # Nothing that a statement asks for takes all memory or all time.
        ("ROUND(1.5, 1000000000)", None),
        ("LPAD('x', 2000000000, 'y')", None),
        ("RPAD('x', 5, '')", None),
        ("EXTRACTJSONFIELD(LPAD('', 100000, '['), '$.a')", None),
        ("ROUND(dec, 1)", Decimal("12.5")),
        ("ROUND(12.55, 1)", Decimal("12.6")),
        ("ROUND(i, -1)", 10),
        ("ROUND(b)", 1 << 40),
        ("CEIL(dec)", Decimal(13)),
        ("FLOOR(d)", 2.0),
        (" AND ".join(["t"] * 500), True),
        (" OR ".join(["n = 'x'"] * 500), None),
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
        ("i + dec", "DECIMAL(13, 2)"),
        ("dec * dec", "DECIMAL(13, 4)"),
        ("dec / i", "DECIMAL(17, 13)"),
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
        ("UCASE(i)", "Argument 1 of UCASE is a text, not INTEGER"),
        ("SUBSTRING(s, d)", "Argument 2 of SUBSTRING is a whole number, not DOUBLE"),
        ("LEN(arr)", "Argument 1 of LEN is a text or bytes"),
        ("MAP_KEYS(NULL)", "is a map, not NULL"),
        ("9" * 5000, "does not fit a BIGINT"),
        ("9223372036854775809", "does not fit a BIGINT"),
        ("1e999", "does not fit a DOUBLE"),
        ("(" * 5000 + "1" + ")" * 5000, "nested too deeply"),
        ("+".join(["1"] * 5000), "nested more than 100 levels"),
        ("REGEXP_EXTRACT('(', s)", "no regular expression of RE2: missing closing"),
        (
            "REGEXP_REPLACE(s, '(?=l)', '')",
            "'\\(\\?=l\\)' is no regular expression of RE2: invalid or",
        ),
        ("CAST(s AS ARRAY)", "type of its items"),
        ("CAST(s AS MAP<INT>)", "types of keys and values"),
        ("CAST(s AS DECIMAL(99, 2))", "from 1 to 38"),
        ("CAST(s AS DECIMAL(2, 3))", "no less than the scale"),
    ],
)
def test_what_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(SqlError, match=complaint):
        compile_expression(parse_expression(text), SCOPE)


@pytest.mark.parametrize("text", ["ABS(" * 20 + "i" + ")" * 20, "i" + " + 1" * 95])
def test_what_is_nested_as_deep_as_may_be_works(text: str) -> None:
    """With room for whoever calls: the stack of Python has an end."""

    def below(frames: int) -> Any:
        return below(frames - 1) if frames else evaluated(text)

    assert below(200) in (7, 102)


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
