"""Scalar functions by name: what they take, what type they give, and the Python that does it.

Invariant: pure, so that a query that is repeated after a failure gives the same rows; a function that gets
NULL gives NULL, unless its row says that it takes NULL itself.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from moldau.base.re2.searching import compile_search
from moldau.sql.errors import SqlError
from moldau.sql.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    STRING,
    TIMESTAMP,
    SqlType,
    array_of,
    map_of,
    to_json,
    wider,
)

Types = Sequence[SqlType]


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    fewest: int
    most: int
    gives: Callable[[Types], SqlType]
    call: Callable[..., Any]
    help: str
    takes_null: bool = False


_MANY = 1_000
#: What a function may be asked for: no statement takes all memory or all time.
_MOST_DIGITS = 300
_LONGEST_TEXT = 1 << 20
_HALF = Decimal("0.5")
FUNCTIONS: dict[str, Function] = {}
#: What an argument may be, by a letter; the last letter stands for all that follow, too.
_KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "n": ("a number", ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE", "NULL")),
    "w": ("a whole number", ("INTEGER", "BIGINT", "NULL")),
    "t": ("a text", ("STRING", "NULL")),
    "b": ("a text or bytes", ("STRING", "BYTES", "NULL")),
    "a": ("an array", ("ARRAY",)),
    "m": ("a map", ("MAP",)),
    "c": ("an array or a map", ("ARRAY", "MAP")),
    "s": ("a timestamp", ("TIMESTAMP", "NULL")),
    "d": ("a timestamp or a date", ("TIMESTAMP", "DATE", "NULL")),
    "y": ("a timestamp, a date or milliseconds", ("TIMESTAMP", "DATE", "INTEGER", "BIGINT", "NULL")),
    "*": ("anything", ()),
}


def _fixed(given: SqlType) -> Callable[[Types], SqlType]:
    return lambda types: given


def _first(types: Types) -> SqlType:
    return types[0]


def _common(types: Types) -> SqlType:
    found = NULL
    for each in types:
        found = wider(found, each)
    return found


def _item(types: Types) -> SqlType:
    if types[0].name != "ARRAY":
        raise SqlError(f"An array is expected, not {types[0]}.")
    return types[0].parts[0]


def add(
    name: str,
    arguments: tuple[int, int] | tuple[int, int, str],
    gives: SqlType | Callable[[Types], SqlType],
    call: Callable[..., Any],
    text: str,
    *,
    takes_null: bool = False,
) -> None:
    """Makes a function known, also one of a user; of ``arguments`` the fewest, the most, and their kinds."""
    result = _fixed(gives) if isinstance(gives, SqlType) else gives
    fewest, most, *kinds = arguments
    for each in kinds:
        result = _checked(name, str(each), result)
    FUNCTIONS[name.upper()] = Function(name.upper(), int(fewest), int(most), result, call, text, takes_null)


def _checked(name: str, kinds: str, result: Callable[[Types], SqlType]) -> Callable[[Types], SqlType]:
    def gives(types: Types) -> SqlType:
        for number, given in enumerate(types):
            what, names = _KINDS[kinds[min(number, len(kinds) - 1)]]
            if names and given.name not in names:
                raise SqlError(f"Argument {number + 1} of {name} is {what}, not {given}. CAST may help.")
        return result(types)

    return gives


# --- numbers --------------------------------------------------------------------------------------


def _round(value: Any, digits: int | None = None) -> Any:
    """To the nearest, and what is in the middle up, as ksqlDB does."""
    if digits is None and isinstance(value, int):
        return value
    if digits is None:
        return math.floor(value + (_HALF if isinstance(value, Decimal) else 0.5))
    if abs(digits) > _MOST_DIGITS:
        raise ValueError("nobody needs so many digits")
    if isinstance(value, float):
        factor = 10.0**digits
        return math.floor(value * factor + 0.5) / factor
    unit = Decimal(1).scaleb(-digits)
    return type(value)(math.floor(Decimal(value) / unit + _HALF) * unit)


add("ABS", (1, 1, "n"), _first, abs, "the number without its sign")
add("CEIL", (1, 1, "n"), _first, lambda x: type(x)(math.ceil(x)), "the next whole number above")
add("FLOOR", (1, 1, "n"), _first, lambda x: type(x)(math.floor(x)), "the next whole number below")
add(
    "ROUND",
    (1, 2, "nw"),
    lambda types: BIGINT if len(types) == 1 else types[0],
    _round,
    "rounded to so many digits",
)
add("SQRT", (1, 1, "n"), DOUBLE, lambda x: math.sqrt(x) if x >= 0 else math.nan, "the square root")
add("EXP", (1, 1, "n"), DOUBLE, math.exp, "e to the power of x")
add("LN", (1, 1, "n"), DOUBLE, lambda x: math.log(x) if x > 0 else math.nan, "the natural logarithm")
add(
    "LOG",
    (1, 2, "n"),
    DOUBLE,
    lambda *given: math.log(given[-1]) / (math.log(given[0]) if len(given) > 1 else 1),
    "the logarithm, to a base if one is given",
)
add("POWER", (2, 2, "n"), DOUBLE, lambda x, y: float(x) ** y, "x to the power of y")
add("SIGN", (1, 1, "n"), INTEGER, lambda x: (x > 0) - (x < 0), "-1, 0 or 1")
add(
    "GREATEST",
    (1, _MANY),
    _common,
    lambda *given: max((x for x in given if x is not None), default=None),
    "the largest that is not NULL",
    takes_null=True,
)
add(
    "LEAST",
    (1, _MANY),
    _common,
    lambda *given: min((x for x in given if x is not None), default=None),
    "the smallest that is not NULL",
    takes_null=True,
)

# --- texts ----------------------------------------------------------------------------------------


def _substring(text: str, start: int, length: int | None = None) -> str:
    """From 1 on; a start below zero counts from the end."""
    at = start - 1 if start > 0 else max(len(text) + start, 0) if start < 0 else 0
    return text[at:] if length is None else text[at : at + max(length, 0)]


def _concat(*given: Any) -> str:
    return "".join(
        str(to_json(each)) if not isinstance(each, str) else each for each in given if each is not None
    )


def _concat_ws(separator: str, *given: Any) -> str | None:
    return None if separator is None else separator.join(str(each) for each in given if each is not None)


def _mask(text: str) -> str:
    return "".join("X" if c.isupper() else "x" if c.islower() else "n" if c.isdigit() else "-" for c in text)


def _initcap(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))


add("UCASE", (1, 1, "t"), STRING, str.upper, "in upper case")
add("LCASE", (1, 1, "t"), STRING, str.lower, "in lower case")
add("UPPER", (1, 1, "t"), STRING, str.upper, "in upper case")
add("LOWER", (1, 1, "t"), STRING, str.lower, "in lower case")
add("INITCAP", (1, 1, "t"), STRING, _initcap, "each word with a capital letter")
add("LEN", (1, 1, "b"), INTEGER, len, "how many characters")
add("TRIM", (1, 1, "t"), STRING, str.strip, "without white space at both ends")
add("SUBSTRING", (2, 3, "tw"), STRING, _substring, "a part of a text, counted from 1")
add("LEFT", (2, 2, "tw"), STRING, lambda text, n: text[: max(n, 0)], "the first n characters")
add("RIGHT", (2, 2, "tw"), STRING, lambda text, n: text[-n:] if n > 0 else "", "the last n characters")
add("REPLACE", (3, 3, "t"), STRING, str.replace, "with one text instead of another")
add("REVERSE", (1, 1, "t"), STRING, lambda text: text[::-1], "from the end to the beginning")
add(
    "CONCAT",
    (1, _MANY),
    STRING,
    _concat,
    "one text behind the other; NULL counts as nothing",
    takes_null=True,
)
add("CONCAT_WS", (2, _MANY), STRING, _concat_ws, "texts with a separator between them", takes_null=True)
add(
    "INSTR",
    (2, 2, "t"),
    INTEGER,
    lambda text, part: text.find(part) + 1,
    "where a part begins, from 1; 0: nowhere",
)


def _padding(text: str, length: int, by: str) -> str:
    if not 0 <= length <= _LONGEST_TEXT or not by:
        raise ValueError("no text of that length can be made")
    missing = max(length - len(text), 0)
    return (by * (missing // len(by) + 1))[:missing]


add("LPAD", (3, 3, "twt"), STRING, lambda t, n, p: _padding(t, n, p) + t[:n], "filled up from the left")
add("RPAD", (3, 3, "twt"), STRING, lambda t, n, p: t[:n] + _padding(t, n, p), "filled up from the right")
add(
    "SPLIT",
    (2, 2, "t"),
    array_of(STRING),
    lambda text, by: text.split(by) if by else list(text),
    "the parts of a text",
)
add("MASK", (1, 1, "t"), STRING, _mask, "letters and digits made unreadable")


# Expressions and texts are anybody's: the search never goes back over what it has tried, as Python's would.
def _extract(pattern: str, text: str, group: int = 0) -> str | None:
    found = compile_search(pattern).first(text)
    return None if found is None else found.group(group)


def _extract_all(pattern: str, text: str, group: int = 0) -> list[str | None]:
    return [each.group(group) for each in compile_search(pattern).all(text)]


def _split_by(text: str, pattern: str) -> list[str]:
    ends = [0]
    for found in compile_search(pattern).all(text):
        ends += found.places[:2]
    ends.append(len(text))
    return [text[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True)]


add(
    "REGEXP_EXTRACT",
    (2, 3, "ttw"),
    STRING,
    _extract,
    "the part of a text that a pattern, or a group of it, finds",
)
add(
    "REGEXP_EXTRACT_ALL",
    (2, 3, "ttw"),
    array_of(STRING),
    _extract_all,
    "all parts of a text that a pattern, or a group of it, finds",
)
add(
    "REGEXP_REPLACE",
    (3, 3, "t"),
    STRING,
    lambda text, pattern, by: compile_search(pattern).replace(text, by),
    "with what a pattern finds replaced; $1 stands for its first group",
)
add(
    "REGEXP_SPLIT_TO_ARRAY",
    (2, 2, "t"),
    array_of(STRING),
    _split_by,
    "the parts of a text between what a pattern finds",
)
#: Which argument of a function is a regular expression.
PATTERN_ARGUMENT = {
    "REGEXP_EXTRACT": 0,
    "REGEXP_EXTRACT_ALL": 0,
    "REGEXP_REPLACE": 1,
    "REGEXP_SPLIT_TO_ARRAY": 1,
}
add("CHR", (1, 1, "w"), STRING, lambda code: chr(int(code)), "the character of a number")
add("MD5", (1, 1, "t"), STRING, lambda text: hashlib.md5(text.encode()).hexdigest(), "the checksum of a text")

# --- NULL -----------------------------------------------------------------------------------------

add(
    "COALESCE",
    (1, _MANY),
    _common,
    lambda *given: next((x for x in given if x is not None), None),
    "the first that is not NULL",
    takes_null=True,
)
add(
    "IFNULL",
    (2, 2),
    _common,
    lambda value, other: other if value is None else value,
    "a value, or another where it is NULL",
    takes_null=True,
)
add(
    "NULLIF",
    (2, 2),
    _first,
    lambda one, other: None if one == other else one,
    "NULL where two are equal",
    takes_null=True,
)

# --- arrays, maps, JSON ---------------------------------------------------------------------------


def _json_at(text: str, path: str) -> str | None:
    """``$.a.b[0]`` in a JSON text, as a text."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    for name, number in re.findall(r"\.([^.\[\]]+)|\[(\d+)\]", path.removeprefix("$")):
        if name:
            value = value.get(name) if isinstance(value, dict) else None
        else:
            value = value[int(number)] if isinstance(value, list) and int(number) < len(value) else None
        if value is None:
            return None
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


add(
    "ARRAY_CONTAINS",
    (2, 2, "a*"),
    BOOLEAN,
    lambda items, item: item in items,
    "whether an array has an item",
    takes_null=False,
)
add("ARRAY_LENGTH", (1, 1, "a"), INTEGER, len, "how many items an array has")
add("CARDINALITY", (1, 1, "c"), INTEGER, len, "how many items an array or a map has")
add(
    "ARRAY_JOIN",
    (1, 2, "at"),
    STRING,
    lambda items, by=",": by.join("null" if x is None else str(x) for x in items),
    "the items of an array as one text",
)
add("ARRAY_DISTINCT", (1, 1, "a"), _first, lambda items: list(dict.fromkeys(items)), "each item once")
add(
    "ARRAY_MAX",
    (1, 1, "a"),
    _item,
    lambda items: max((x for x in items if x is not None), default=None),
    "the largest item",
)
add(
    "ARRAY_MIN",
    (1, 1, "a"),
    _item,
    lambda items: min((x for x in items if x is not None), default=None),
    "the smallest item",
)
add(
    "ARRAY_SORT",
    (1, 1, "a"),
    _first,
    lambda items: sorted(items, key=lambda x: (x is None, x)),
    "items in order",
)
add(
    "SLICE",
    (3, 3, "aw"),
    _first,
    lambda items, first, last: items[max(first, 1) - 1 : last],
    "the items from one place to another, counted from 1",
)
add(
    "MAP_KEYS",
    (1, 1, "m"),
    lambda types: array_of(types[0].parts[0]),
    lambda pairs: list(pairs),
    "the keys of a map",
)
add(
    "MAP_VALUES",
    (1, 1, "m"),
    lambda types: array_of(types[0].parts[1]),
    lambda pairs: list(pairs.values()),
    "the values of a map",
)
add(
    "AS_MAP",
    (2, 2, "a"),
    lambda types: map_of(types[1].parts[0]),
    lambda keys, values: dict(zip(keys, values, strict=False)),
    "a map of two arrays",
)
add("EXTRACTJSONFIELD", (2, 2, "t"), STRING, _json_at, "what is at a path such as $.a.b[0] in a JSON text")
add(
    "TO_JSON_STRING",
    (1, 1),
    STRING,
    lambda value: json.dumps(to_json(value), separators=(",", ":")),
    "a value as JSON",
    takes_null=True,
)

# --- time -----------------------------------------------------------------------------------------

#: Java's letters of a pattern, as Python writes them.
_PATTERN = (("yyyy", "%Y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"))


def _python_pattern(pattern: str) -> str:
    for java, python in _PATTERN:
        pattern = pattern.replace(java, python)
    return pattern.replace("'", "").replace("SSS", "%f")


def _format(moment: Any, pattern: str) -> str:
    text = moment.strftime(_python_pattern(pattern).replace("%f", "\ue000"))
    return str(text).replace("\ue000", f"{getattr(moment, 'microsecond', 0) // 1000:03d}")


def _parse_time(text: str, pattern: str) -> datetime:
    return datetime.strptime(text, _python_pattern(pattern)).replace(tzinfo=UTC)


add(
    "UNIX_TIMESTAMP",
    (1, 1, "s"),
    BIGINT,
    lambda moment: to_json(moment),
    "milliseconds since 1970 of a timestamp",
)
add(
    "FROM_UNIXTIME",
    (1, 1, "w"),
    TIMESTAMP,
    lambda ms: datetime.fromtimestamp(ms / 1000, UTC),
    "the timestamp of milliseconds since 1970",
)
add(
    "FORMAT_TIMESTAMP",
    (2, 2, "dt"),
    STRING,
    _format,
    "a timestamp as a text, by a pattern such as yyyy-MM-dd HH:mm:ss",
)
add("PARSE_TIMESTAMP", (2, 2, "t"), TIMESTAMP, _parse_time, "the timestamp that a text says")
add("FORMAT_DATE", (2, 2, "dt"), STRING, _format, "a date as a text")
add(
    "PARSE_DATE",
    (2, 2, "t"),
    DATE,
    lambda text, pattern: _parse_time(text, pattern).date(),
    "the date that a text says",
)
add(
    "TIMESTAMPTOSTRING",
    (2, 2, "wt"),
    STRING,
    lambda ms, pattern: _format(datetime.fromtimestamp(ms / 1000, UTC), pattern),
    "milliseconds since 1970 as a text",
)
add(
    "STRINGTOTIMESTAMP",
    (2, 2, "t"),
    BIGINT,
    lambda text, pattern: to_json(_parse_time(text, pattern)),
    "milliseconds since 1970 that a text says",
)
add("YEAR", (1, 1, "y"), INTEGER, lambda moment: _day(moment).year, "the year")
add("MONTH", (1, 1, "y"), INTEGER, lambda moment: _day(moment).month, "the month, from 1")
add("DAY", (1, 1, "y"), INTEGER, lambda moment: _day(moment).day, "the day of the month")


def _day(moment: Any) -> date:
    return moment if isinstance(moment, date) else datetime.fromtimestamp(moment / 1000, UTC)
