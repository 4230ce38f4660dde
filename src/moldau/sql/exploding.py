"""EXPLODE in a SELECT: a row for each item of an array.

Several of them in one SELECT go side by side, and the shorter ones end with NULL, as in ksqlDB. A row whose
arrays are empty or NULL gives none.

Invariant: pure; rows become several before they are grouped, in the order of the items.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from sqlglot import exp

from moldau.sql.errors import SqlError
from moldau.sql.relations import Relation
from moldau.sql.statements import Query

HELP = "a row for each item of an array: SELECT id, EXPLODE(items) AS item"


def exploded(query: Query, relation: Relation) -> tuple[Query, Relation]:
    """The query with columns in place of its EXPLODEs, over rows that have them."""
    parts = [*query.projections, *query.group_by, *query.partition_by]
    parts += [query.having] if query.having is not None else []
    calls: dict[str, exp.Anonymous] = {}
    for each in parts:
        for node in each.find_all(exp.Anonymous):
            if _is_explode(node):
                calls.setdefault(node.sql().upper(), node)
    if not calls:
        return query, relation
    if relation.is_table:
        raise SqlError("EXPLODE is for streams: a row of a table would become several of one key.")
    columns = list(relation.columns)
    evaluates: list[tuple[str, Callable[[Any], Any]]] = []
    names: dict[str, str] = {}
    for number, (text, node) in enumerate(calls.items()):
        if len(node.expressions) != 1:
            raise SqlError("EXPLODE takes one array.")
        compiled = relation.compile(relation.bind(node.expressions[0]))
        if compiled.type.name != "ARRAY":
            raise SqlError(f"EXPLODE takes an array, not {compiled.type}.")
        names[text] = f"$EXPLODE{number}"
        columns.append(("$", names[text], names[text], compiled.type.parts[0]))
        evaluates.append((names[text], compiled.evaluate))

    def rows(row: Any) -> list[dict[str, Any]]:
        arrays = [evaluate(row) or [] for _, evaluate in evaluates]
        return [
            {**row, **dict(zip((name for name, _ in evaluates), items, strict=True))}
            for items in zip_longest(*arrays)
        ]

    return _replaced(query, names), replace(
        relation, node=relation.node.flat_map_values(rows), columns=tuple(columns)
    )


def _is_explode(node: exp.Expression) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).upper() == "EXPLODE"


def _replaced(query: Query, names: dict[str, str]) -> Query:
    def change(node: exp.Expression) -> exp.Expression:
        if not _is_explode(node):
            return node
        return exp.Column(this=exp.Identifier(this=names[node.sql().upper()], quoted=True))

    def all_of(expressions: tuple[exp.Expression, ...]) -> tuple[exp.Expression, ...]:
        return tuple(each.copy().transform(change) for each in expressions)

    return replace(
        query,
        projections=all_of(query.projections),
        group_by=all_of(query.group_by),
        partition_by=all_of(query.partition_by),
        having=None if query.having is None else query.having.copy().transform(change),
    )
