"""Functions that take functions: TRANSFORM, FILTER and REDUCE over arrays and maps, with ``x => …``.

Invariant: a lambda sees the columns of its row and its own variables, which hide columns of the same name.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from moldau.sql.dialect import name_of
from moldau.sql.errors import SqlError
from moldau.sql.types import BOOLEAN, NULL, SqlType, array_of, map_of, wider

#: What variables are called in rows; no column has such a name.
_PREFIX = "\u03bb."

#: Compiles an expression in which more names are known: their places and types.
CompileWith = Callable[[exp.Expression, Mapping[str, SqlType]], tuple[Callable[[Any], Any], SqlType]]
Result = tuple[Callable[[Any], Any], SqlType]


def variable_place(name: str) -> str:
    return f"{_PREFIX}{name}"


def is_variable(place: str) -> bool:
    return place.startswith(_PREFIX)


def variables_of(written: exp.Lambda) -> list[str]:
    return [name_of(each) for each in written.expressions]


def compile_call(name: str, arguments: list[exp.Expression], compile_with: CompileWith) -> Result:
    """One of LAMBDA_FUNCTIONS; ``compile_with`` also compiles arguments without variables."""
    return LAMBDA_FUNCTIONS[name](arguments, compile_with)


def _lambda(
    expression: exp.Expression, types: list[SqlType], compile_with: CompileWith
) -> tuple[Callable[..., Any], SqlType]:
    """A function of a row and the values of the variables."""
    if not isinstance(expression, exp.Lambda):
        raise SqlError(f"A function is expected where {expression.sql()} stands, such as x => x + 1.")
    places = [variable_place(each) for each in variables_of(expression)]
    if len(places) != len(types):
        raise SqlError(f"{expression.sql()} has {len(places)} variables where {len(types)} are expected.")
    evaluate, kind = compile_with(expression.this, dict(zip(places, types, strict=True)))

    def call(row: Any, *values: Any) -> Any:
        return evaluate({**row, **dict(zip(places, values, strict=True))})

    return call, kind


def _whole(
    name: str, arguments: list[exp.Expression], counts: dict[str, int], compile_with: CompileWith
) -> Result:
    """The collection, which is the first argument; ``counts`` says how many arguments its kinds take."""
    if not arguments:
        raise SqlError(f"{name} takes an array or a map and a function.")
    evaluate, kind = compile_with(arguments[0], {})
    if kind.name not in counts:
        raise SqlError(f"{name} takes an array or a map, not {kind}.")
    if len(arguments) != counts[kind.name]:
        raise SqlError(f"{name} of {kind} takes {counts[kind.name]} arguments, not {len(arguments)}.")
    return evaluate, kind


def _transform(arguments: list[exp.Expression], compile_with: CompileWith) -> Result:
    whole, kind = _whole("TRANSFORM", arguments, {"ARRAY": 2, "MAP": 3}, compile_with)
    first, first_kind = _lambda(arguments[1], list(kind.parts), compile_with)
    if kind.name == "ARRAY":
        return _when_there(whole, lambda row, items: [first(row, each) for each in items]), array_of(
            first_kind
        )
    second, second_kind = _lambda(arguments[2], list(kind.parts), compile_with)
    return (
        _when_there(whole, lambda row, pairs: {first(row, *p): second(row, *p) for p in pairs.items()}),
        map_of(second_kind, first_kind),
    )


def _filter(arguments: list[exp.Expression], compile_with: CompileWith) -> Result:
    whole, kind = _whole("FILTER", arguments, {"ARRAY": 2, "MAP": 2}, compile_with)
    holds, condition = _lambda(arguments[1], list(kind.parts), compile_with)
    if condition not in (BOOLEAN, NULL):
        raise SqlError(f"The function of FILTER is true or false, not {condition}.")
    if kind.name == "ARRAY":
        return _when_there(whole, lambda row, items: [e for e in items if holds(row, e) is True]), kind
    return _when_there(
        whole, lambda row, pairs: {k: v for k, v in pairs.items() if holds(row, k, v) is True}
    ), kind


def _reduce(arguments: list[exp.Expression], compile_with: CompileWith) -> Result:
    whole, kind = _whole("REDUCE", arguments, {"ARRAY": 3, "MAP": 3}, compile_with)
    start, start_kind = compile_with(arguments[1], {})
    step, step_kind = _lambda(arguments[2], [start_kind, *kind.parts], compile_with)
    result = wider(start_kind, step_kind)

    def evaluate(row: Any) -> Any:
        items, found = whole(row), start(row)
        if items is None:
            return found
        for each in items.items() if isinstance(items, dict) else ((item,) for item in items):
            found = step(row, found, *each)
        return found

    return evaluate, result


def _when_there(whole: Callable[[Any], Any], work: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda row: None if (items := whole(row)) is None else work(row, items)


LAMBDA_FUNCTIONS: dict[str, Callable[[list[exp.Expression], CompileWith], Result]] = {
    "TRANSFORM": _transform,
    "FILTER": _filter,
    "REDUCE": _reduce,
}
#: For SHOW FUNCTIONS.
HELP = {
    "TRANSFORM": "an array or a map with a function applied to all of it: TRANSFORM(items, x => x + 1)",
    "FILTER": "the part of an array or a map for which a function is true: FILTER(items, x => x > 1)",
    "REDUCE": "one value of all of an array or a map: REDUCE(items, 0, (sum, x) => sum + x)",
}
