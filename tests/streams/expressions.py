"""The expressions of the vectors, compiled to Python functions.

Invariant: integers stay integers, ``div`` always gives a float, texts are made as Java makes them.
"""

import json
import math
import re
from collections.abc import Callable
from typing import Any

from moldau.streams import Windowed

Environment = dict[str, Any]
Compiled = Callable[[Environment], Any]

_VARIABLES = {"k", "v", "l", "r", "a", "b", "agg", "x"}


def compiled(expression: Any) -> Compiled:
    """A JSON scalar is itself, an array is a call."""
    if not isinstance(expression, list):
        return lambda env: expression
    name, *arguments = expression
    if name in _VARIABLES and not arguments:
        return lambda env: env[name]
    if name == "obj":
        fields = {field: compiled(each) for field, each in arguments[0].items()}
        return lambda env: {field: fields[field](env) for field in sorted(fields)}
    if name == "foreach":
        items, body = map(compiled, arguments)
        return lambda env: [body({**env, "x": item}) for item in items(env)]
    parts = [compiled(each) for each in arguments]
    if name == "if":
        condition, yes, no = parts
        return lambda env: yes(env) if condition(env) else no(env)
    if name == "and":
        return lambda env: all(part(env) for part in parts)
    if name == "or":
        return lambda env: any(part(env) for part in parts)
    if name == "coalesce":
        return lambda env: next((value for part in parts if (value := part(env)) is not None), None)
    function = _FUNCTIONS[name]
    if len(parts) == 1:
        (only,) = parts
        return lambda env: function(only(env))
    if len(parts) == 2:
        one, other = parts
        return lambda env: function(one(env), other(env))
    return lambda env: function(*(part(env) for part in parts))


def function_of(expression: Any, *names: str) -> Callable[..., Any]:
    """The expression as a function of variables."""
    body = compiled(expression)
    if len(names) == 2:
        one, other = names
        return lambda a, b: body({one: a, other: b})
    if len(names) == 3:
        one, two, three = names
        return lambda a, b, c: body({one: a, two: b, three: c})
    return lambda: body({})


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Windowed):
        return {"key": plain(value.key), "start": value.start, "end": value.end}
    return value


def text(value: Any) -> str:
    """A value as Java's string concatenation shows it."""
    value = plain(value)
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return str(value)


def java_double(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
    size = abs(value)
    if size == 0 or 1e-3 <= size < 1e7:
        shown = repr(value)
        return shown if "." in shown or "e" in shown else f"{shown}.0"
    power = f"{value:e}".split("e")[1]
    exact = repr(value).lower().split("e")[0].replace("-", "").replace(".", "").strip("0")
    sign = "-" if value < 0 else ""
    return f"{sign}{exact[0]}.{exact[1:] or '0'}E{int(power)}"


def _get(value: Any, field: Any) -> Any:
    value = plain(value)
    if value is None:
        return None
    if isinstance(value, list):
        return value[field] if 0 <= field < len(value) else None
    return value.get(field)


def _removed(items: list[Any], value: Any) -> list[Any]:
    result = list(items)
    if value in result:
        result.remove(value)
    return result


def _split(value: str, regex: str) -> list[str]:
    """Java's: a match of nothing at the start makes no part, trailing empty parts are dropped."""
    parts: list[str] = []
    last = 0
    for match in re.finditer(regex, value, re.ASCII):
        if match.end() == 0:
            continue
        if match.start() == match.end() and match.start() >= len(value):
            continue
        parts.append(value[last : match.start()])
        last = match.end()
    if not parts and last == 0:
        return [value]
    parts.append(value[last:])
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _words(value: str | None) -> list[str]:
    return [word for word in re.split(r"\W+", (value or "").lower(), flags=re.ASCII) if word]


def _fail(message: str = "") -> Any:
    raise RuntimeError(message)


def _div(one: Any, other: Any) -> float:
    """Java's: a number divided by zero is infinite, zero by zero is no number."""
    if other == 0:
        return float("nan") if one == 0 else math.copysign(float("inf"), one)
    return float(one / other)


def _long(value: Any) -> int | None:
    return None if value is None else int(value)


def _sum(*values: Any) -> Any:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def _product(*values: Any) -> Any:
    total = values[0]
    for value in values[1:]:
        total = total * value
    return total


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "list": lambda *items: list(items),
    "get": _get,
    "append": lambda items, value: [*(items or ()), value],
    "extend": lambda items, more: [*(items or ()), *(more or ())],
    "remove": _removed,
    "not": lambda value: not value,
    "eq": lambda one, other: plain(one) == plain(other),
    "ne": lambda one, other: plain(one) != plain(other),
    "gt": lambda one, other: one > other,
    "ge": lambda one, other: one >= other,
    "lt": lambda one, other: one < other,
    "le": lambda one, other: one <= other,
    "isnull": lambda value: value is None,
    "add": _sum,
    "sub": lambda one, other: one - other,
    "mul": _product,
    "div": _div,
    "min": min,
    "max": max,
    "len": lambda value: 0 if value is None else len(value),
    "upper": lambda value: value.upper(),
    "lower": lambda value: value.lower(),
    "str": text,
    "long": _long,
    "startswith": lambda value, start: value.startswith(start),
    "contains": lambda value, part: value is not None and part in value,
    "concat": lambda *parts: "".join(text(part) for part in parts),
    "split": _split,
    "words": _words,
    "fail": _fail,
}
