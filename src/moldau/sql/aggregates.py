"""Aggregate functions: a state that values are added to, and taken from again where rows of a table change.

Invariant: pure; a state is plain data that ``formats.StateSerde`` can write, and is never changed in place.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.sql.errors import SqlError
from moldau.sql.types import BIGINT, DOUBLE, SqlType, array_of, map_of

Types = Sequence[SqlType]
#: Arrays grow to this size and no further, as ksqlDB's do by default.
_MOST_ITEMS = 1_000


@dataclass(frozen=True, slots=True)
class Aggregate:
    name: str
    gives: Callable[[Types], SqlType]
    start: Any
    #: state, value -> state; NULL is not given to it, unless ``takes_null``.
    add: Callable[..., Any]
    merge: Callable[[Any, Any], Any]
    help: str
    result: Callable[[Any], Any] = lambda state: state
    #: state, value -> state without that value; None where a table cannot be aggregated so.
    undo: Callable[..., Any] | None = None
    arguments: tuple[int, int] = (1, 1)
    takes_null: bool = False


AGGREGATES: dict[str, Aggregate] = {}


def _add(aggregate: Aggregate) -> None:
    AGGREGATES[aggregate.name] = aggregate


def _number(types: Types) -> SqlType:
    if not types[0].is_number:
        raise SqlError(f"A number is expected, not {types[0]}.")
    return types[0]


def _same(types: Types) -> SqlType:
    return types[0]


def _ordered(types: Types) -> SqlType:
    if types[0].name in ("ARRAY", "MAP", "STRUCT"):
        raise SqlError(f"Values that have an order are expected, not {types[0]}.")
    return types[0]


def _sum(types: Types) -> SqlType:
    return _number(types)


def _extreme(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda state, value: value if state is None else state if value is None else choose(state, value)


def _total(state: Any, value: Any) -> Any:
    return value if state is None else state + value


def _mean_type(types: Types) -> SqlType:
    _number(types)
    return DOUBLE


def _mean(state: list[Any]) -> float | None:
    return None if state[1] == 0 else float(state[0]) / state[1]


def _without_first(items: list[Any], value: Any) -> list[Any]:
    at = items.index(value) if value in items else None
    return items if at is None else items[:at] + items[at + 1 :]


def _counted(state: dict[str, int], value: Any, by: int) -> dict[str, int]:
    count = state.get(str(value), 0) + by
    rest = {key: each for key, each in state.items() if key != str(value)}
    return {**rest, str(value): count} if count > 0 else rest


def _top(state: list[Any], value: Any, size: int, *, distinct: bool) -> list[Any]:
    items = [*state, value]
    if distinct:
        items = list(dict.fromkeys(items))
    return sorted(items, reverse=True)[:size]


_add(
    Aggregate(
        "COUNT",
        lambda types: BIGINT,
        0,
        lambda state, *value: state + 1,
        lambda a, b: a + b,
        "how many rows, or how many values that are not NULL",
        undo=lambda state, *value: state - 1,
        arguments=(0, 1),
    )
)
_add(
    Aggregate(
        "COUNT_DISTINCT",
        lambda types: BIGINT,
        {},
        lambda s, v: _counted(s, v, 1),
        lambda a, b: {**a, **{k: a.get(k, 0) + n for k, n in b.items()}},
        "how many different values",
        result=len,
        undo=lambda s, v: _counted(s, v, -1),
    )
)
_add(
    Aggregate(
        "SUM",
        _sum,
        None,
        _total,
        lambda a, b: a if b is None else _total(a, b),
        "the sum",
        undo=lambda state, value: state - value,
    )
)
_add(
    Aggregate(
        "AVG",
        _mean_type,
        [0, 0],
        lambda s, v: [s[0] + v, s[1] + 1],
        lambda a, b: [a[0] + b[0], a[1] + b[1]],
        "the mean",
        result=_mean,
        undo=lambda s, v: [s[0] - v, s[1] - 1],
    )
)
_add(Aggregate("MIN", _ordered, None, _extreme(min), _extreme(min), "the smallest value"))
_add(Aggregate("MAX", _ordered, None, _extreme(max), _extreme(max), "the largest value"))
_add(
    Aggregate(
        "COLLECT_LIST",
        lambda types: array_of(types[0]),
        [],
        lambda s, v: [*s, v][:_MOST_ITEMS],
        lambda a, b: [*a, *b][:_MOST_ITEMS],
        "all values as an array",
        undo=_without_first,
        takes_null=True,
    )
)
_add(
    Aggregate(
        "COLLECT_SET",
        lambda types: array_of(types[0]),
        [],
        lambda s, v: s if v in s else [*s, v][:_MOST_ITEMS],
        lambda a, b: [*a, *(v for v in b if v not in a)][:_MOST_ITEMS],
        "all different values as an array",
        takes_null=True,
    )
)
_add(
    Aggregate(
        "LATEST_BY_OFFSET",
        _same,
        None,
        lambda s, v: v,
        lambda a, b: a if b is None else b,
        "the value of the last row",
    )
)
_add(
    Aggregate(
        "EARLIEST_BY_OFFSET",
        _same,
        None,
        lambda s, v: v if s is None else s,
        lambda a, b: b if a is None else a,
        "the value of the first row",
    )
)
_add(
    Aggregate(
        "TOPK",
        lambda types: array_of(_ordered(types)),
        [],
        lambda s, v, n: _top(s, v, n, distinct=False),
        lambda a, b: sorted([*a, *b], reverse=True),
        "the k largest values",
        arguments=(2, 2),
    )
)
_add(
    Aggregate(
        "TOPKDISTINCT",
        lambda types: array_of(_ordered(types)),
        [],
        lambda s, v, n: _top(s, v, n, distinct=True),
        lambda a, b: sorted(set(a) | set(b), reverse=True),
        "the k largest different values",
        arguments=(2, 2),
    )
)
_add(
    Aggregate(
        "HISTOGRAM",
        lambda types: map_of(BIGINT),
        {},
        lambda s, v: _counted(s, v, 1),
        lambda a, b: {**a, **{k: a.get(k, 0) + n for k, n in b.items()}},
        "how often each value comes",
        undo=lambda s, v: _counted(s, v, -1),
    )
)
