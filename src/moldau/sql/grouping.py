"""GROUP BY: aggregates over streams, windows of them, and tables.

Invariant: pure; after grouping a row has the places ``$G0`` … of the group's columns and ``$A0`` … of the
aggregates, and expressions are rewritten to name those.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from moldau.sql.aggregates import AGGREGATES, Aggregate
from moldau.sql.errors import SqlError
from moldau.sql.expressions import Compiled
from moldau.sql.formats import StateSerde, key_serde, row_serde
from moldau.sql.lambdas import is_variable
from moldau.sql.relations import WINDOW_COLUMNS, KeyPart, Relation, place_column
from moldau.sql.statements import ColumnDefinition, Query, Window
from moldau.sql.types import SqlType, bounded
from moldau.streams import (
    Grouped,
    Materialized,
    Serdes,
    SessionWindows,
    Suppressed,
    TimeWindows,
    Windowed,
)

#: Late records are taken for a day, as in ksqlDB.
_DEFAULT_GRACE_MS = 86_400_000


def is_aggregate(node: Any) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).upper() in AGGREGATES


def has_aggregates(query: Query) -> bool:
    expressions = [*query.projections, *([query.having] if query.having else [])]
    return any(is_aggregate(node) for each in expressions for node in each.find_all(exp.Anonymous))


class _Call:
    """One aggregate of a query: the function and its arguments, over rows before grouping."""

    def __init__(self, number: int, node: exp.Anonymous, relation: Relation) -> None:
        self.function: Aggregate = AGGREGATES[str(node.this)]
        arguments = [each for each in node.expressions if not isinstance(each, exp.Star)]
        if arguments and isinstance(arguments[0], exp.Distinct):
            if self.function.name != "COUNT":
                raise SqlError("DISTINCT is for COUNT only.")
            self.function, arguments = AGGREGATES["COUNT_DISTINCT"], list(arguments[0].expressions)
        fewest, most = self.function.arguments
        if not fewest <= len(arguments) <= most:
            raise SqlError(f"{self.function.name} takes {fewest} to {most} arguments, not {len(arguments)}.")
        compiled = [relation.compile(each) for each in arguments]
        self.type = self.function.gives([each.type for each in compiled])
        self.place = f"$A{number}"
        #: The constants behind the first argument, such as the k of TOPK.
        self.constants = tuple(each.evaluate({}) for each in compiled[1:])
        if not all(type(each) is int and each > 0 for each in self.constants):
            raise SqlError(f"{self.function.name} takes a number from 1 behind its first argument.")
        self.argument: Compiled | None = compiled[0] if compiled else None
        self.column = f"A{number}"

    def add(self, state: Any, row: dict[str, Any]) -> Any:
        return self._change(self.function.add, state, row)

    def undo(self, state: Any, row: dict[str, Any]) -> Any:
        assert self.function.undo is not None
        return self._change(self.function.undo, state, row)

    def _change(self, work: Callable[..., Any], state: Any, row: dict[str, Any]) -> Any:
        if self.argument is None:
            return work(state)
        value = row.get(self.column)
        if value is None and not self.function.takes_null:
            return state
        return work(state, value, *self.constants)

    def merge(self, one: Any, other: Any) -> Any:
        merged = self.function.merge(one, other)
        return merged[: self.constants[0]] if self.constants else merged


def group(query: Query, relation: Relation) -> tuple[Relation, Callable[[exp.Expression], exp.Expression]]:
    """The aggregated table, and how an expression over rows becomes one over groups."""
    if not query.group_by:
        raise SqlError("An aggregate function needs GROUP BY.")
    if relation.is_windowed:
        raise SqlError("What has windows already cannot be grouped again yet.")
    keys = [relation.bind(each) for each in query.group_by]
    calls = _calls(query, relation)
    if not calls:
        raise SqlError("GROUP BY needs an aggregate function in the SELECT, such as COUNT(*).")
    compiled = [relation.compile(each) for each in keys]
    definitions = [ColumnDefinition(f"G{number}", each.type) for number, each in enumerate(compiled)]
    serde = key_serde("JSON", definitions)
    table = _aggregated(query, relation, keys, compiled, list(calls.values()), serde)
    window = query.window
    node = table.map_values(_to_row(list(calls.values()), len(keys), window is not None))
    columns = [("", f"$G{number}", f"$G{number}", each.type) for number, each in enumerate(compiled)]
    columns += [("", each.place, each.place, each.type) for each in calls.values()]
    pseudo: dict[tuple[str, str], tuple[str, SqlType]] = (
        {("", name): (name, kind) for name, kind in WINDOW_COLUMNS.items()} if window else {}
    )
    parts = tuple(
        KeyPart(frozenset([place_column(f"$G{number}").sql()]), each.type)
        for number, each in enumerate(compiled)
    )
    grouped = Relation(
        node, True, tuple(columns), pseudo, parts, _windowed_serde(serde, window), window is not None
    )
    places = {each.sql(): f"$G{number}" for number, each in enumerate(keys)}
    places |= {text: call.place for text, call in calls.items()}
    with_windows = replace(relation, pseudo={**relation.pseudo, **pseudo})
    return grouped, lambda expression: _rewritten(with_windows.bind(expression), places)


def _calls(query: Query, relation: Relation) -> dict[str, _Call]:
    calls: dict[str, _Call] = {}
    extra = {("", name): (name, kind) for name, kind in WINDOW_COLUMNS.items()} if query.window else {}
    scope = replace(relation, pseudo={**relation.pseudo, **extra})
    for each in [*query.projections, *([query.having] if query.having else [])]:
        if isinstance(each, exp.Star):
            raise SqlError("SELECT * and GROUP BY do not go together: name the columns.")
        for node in scope.bind(each).find_all(exp.Anonymous):
            if is_aggregate(node) and node.sql() not in calls:
                calls[node.sql()] = _Call(len(calls), node, relation)
    return calls


def _rewritten(expression: exp.Expression, places: dict[str, str]) -> exp.Expression:
    def change(node: exp.Expression) -> exp.Expression:
        place = places.get(node.sql())
        return node if place is None else place_column(place)

    found = expression.transform(change)
    known = {*places.values(), *WINDOW_COLUMNS}
    for column in found.find_all(exp.Column):
        if str(column.this.this) not in known and not is_variable(str(column.this.this)):
            name = str(column.this.this).rsplit(".", 1)[-1]
            raise SqlError(f"Column {name} must stand in GROUP BY or inside an aggregate function.")
    return found


class _Aggregation:
    """All aggregates of a query as one: their states in a list."""

    def __init__(self, calls: list[_Call]) -> None:
        self._calls = calls
        arguments = [(call.column, call.argument) for call in calls if call.argument is not None]
        #: What is kept of a row on its way to its group.
        self.columns = [ColumnDefinition(column, each.type) for column, each in arguments]
        self._arguments = [(column, each.evaluate) for column, each in arguments]

    def needed(self, row: Any) -> dict[str, Any]:
        return {column: evaluate(row) for column, evaluate in self._arguments}

    def start(self) -> Any:
        return [call.function.start for call in self._calls]

    def add(self, key: Any, row: Any, states: Any) -> Any:
        return [call.add(state, row) for call, state in zip(self._calls, states, strict=True)]

    def undo(self, key: Any, row: Any, states: Any) -> Any:
        return [call.undo(state, row) for call, state in zip(self._calls, states, strict=True)]

    def merge(self, key: Any, one: Any, other: Any) -> Any:
        return [call.merge(a, b) for call, a, b in zip(self._calls, one, other, strict=True)]

    def check_undo(self) -> None:
        for call in self._calls:
            if call.function.undo is None:
                raise SqlError(f"{call.function.name} cannot be used over a table, whose rows change.")


def _aggregated(
    query: Query,
    relation: Relation,
    keys: list[exp.Expression],
    compiled: list[Compiled],
    calls: list[_Call],
    serde: Any,
) -> Any:
    all_of = _Aggregation(calls)
    evaluates = [each.evaluate for each in compiled]

    def regroup(key: Any, row: Any) -> tuple[Any, dict[str, Any]]:
        """The key is NULL where any part of it is, which leaves the row out."""
        parts = tuple(each(row) for each in evaluates)
        return None if None in parts else parts if len(parts) > 1 else parts[0], all_of.needed(row)

    grouped = Grouped.with_(serde, row_serde(all_of.columns))
    materialized = Materialized.with_(serde, StateSerde())
    if relation.is_table:
        if query.window is not None:
            raise SqlError("WINDOW is for streams: a table has no windows.")
        all_of.check_undo()
        table = relation.node.group_by(regroup, grouped)
        return table.aggregate(all_of.start, all_of.add, all_of.undo, materialized)
    has_key = len(relation.key) == len(keys) and all(
        key.sql() in part.texts for key, part in zip(keys, relation.key, strict=True)
    )
    narrowed = relation.node.map_values(all_of.needed) if has_key else relation.node.map(regroup)
    groups = narrowed.group_by_key(grouped)
    if query.window is not None:
        return _windowed(query, query.window, groups, all_of, materialized)
    if query.emit == "FINAL":
        raise SqlError("EMIT FINAL needs a WINDOW: without one nothing is ever final.")
    return groups.aggregate(all_of.start, all_of.add, materialized)


def _windowed(
    query: Query, window: Window, groups: Any, all_of: _Aggregation, materialized: Materialized
) -> Any:
    windowed = groups.windowed_by(_windows(window))
    if window.retention_ms is not None:
        materialized = materialized.with_retention(window.retention_ms)
    merger = all_of.merge if window.kind == "SESSION" else None
    table = windowed.aggregate(all_of.start, all_of.add, materialized, merger=merger)
    if query.emit != "FINAL":
        return table
    # As ksqlDB does it. On window close a store may have forgotten what closes, after a jump in time: Kafka
    # Streams' own trap. What is suppressed until then is not forgotten.
    return table.suppress(Suppressed.until_window_closes())


def _windows(window: Window) -> Any:
    grace = _DEFAULT_GRACE_MS if window.grace_ms is None else window.grace_ms
    if window.kind == "SESSION":
        return SessionWindows.of_inactivity_gap_and_grace(window.size_ms, grace)
    grace = max(grace - window.size_ms, 0) if window.grace_ms is None else grace
    found = TimeWindows.of_size_and_grace(window.size_ms, grace)
    return found.advance_by(window.advance_ms) if window.advance_ms is not None else found


def _windowed_serde(serde: Any, window: Window | None) -> Any:
    if window is None:
        return serde
    if window.kind == "SESSION":
        return Serdes.session_windowed(serde)
    return Serdes.time_windowed(serde, window.size_ms)


def _to_row(calls: list[_Call], keys: int, is_windowed: bool) -> Callable[[Any, Any], Any]:
    names = [f"$G{number}" for number in range(keys)]
    results = [(call.place, call.function.result, bounded(call.type)) for call in calls]

    def to_row(key: Any, states: Any) -> Any:
        row: dict[str, Any] = {
            place: fitting(result(state))
            for (place, result, fitting), state in zip(results, states, strict=True)
        }
        if is_windowed and isinstance(key, Windowed):
            row["WINDOWSTART"], row["WINDOWEND"] = key.start, key.end
            key = key.key
        row.update(zip(names, (key,) if keys == 1 else key, strict=True))
        return row

    return to_row
