"""CREATE OR REPLACE of a query that is kept: what changes, whether it can be done in place, what it would do.

In place means: the same id, the same place in the topics, the same state. That is right only where the state
that is there has the shape that the new query expects; where it has not, the reasons are said.

Invariant: pure; nothing is stopped or written here.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from moldau.client.consumer.fetched import ConsumerRecord
from moldau.sql.catalogue import Catalogue, Source
from moldau.sql.grouping import is_aggregate
from moldau.sql.planner import Plan, plan_create, plan_query
from moldau.sql.running.looking import SqlRow, run_over
from moldau.sql.statements import CreateAs, Query
from moldau.sql.types import to_json

#: How many rows of each kind a dry run shows.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Upgrade:
    #: The difference, a sentence each.
    changes: tuple[str, ...]
    #: Why it cannot be done in place; none where it can.
    problems: tuple[str, ...]


def upgrade_of(old: CreateAs, new: CreateAs, catalogue: Catalogue, registry: Any = None) -> Upgrade:
    """``catalogue`` is what both statements find, so without what they make."""
    old_plan, old_source = plan_create(old, catalogue, registry)
    new_plan, new_source = plan_create(new, catalogue, registry)
    changes = [*_columns(old_source, new_source), *_clauses(old.query, new.query)]
    return Upgrade(tuple(changes), tuple(_problems((old, old_plan, old_source), (new, new_plan, new_source))))


def _columns(old: Source, new: Source) -> Iterator[str]:
    before = {each.name: str(each.type) for each in old.columns}
    after = {each.name: str(each.type) for each in new.columns}
    for name, kind in after.items():
        if name not in before:
            yield f"+ column {name} {kind}"
        elif before[name] != kind:
            yield f"~ column {name} {before[name]} becomes {kind}"
    yield from (f"- column {name} {kind}" for name, kind in before.items() if name not in after)


def _clauses(old: Query, new: Query) -> Iterator[str]:
    before, after = _parts(old), _parts(new)
    for name in before:
        if before[name] != after[name]:
            yield f"~ {name}: {before[name] or 'nothing'} becomes {after[name] or 'nothing'}"


def _parts(query: Query) -> dict[str, str]:
    sources = [query.source, *(f"{join.kind} JOIN {join.source} ON {join.on.sql()}" for join in query.joins)]
    return {
        "SELECT": _listed(query.projections),
        "FROM": " ".join(sources),
        "WINDOW": "" if query.window is None else repr(query.window),
        "WHERE": _written(query.where),
        "GROUP BY": _listed(query.group_by),
        "PARTITION BY": _listed(query.partition_by),
        "HAVING": _written(query.having),
        "EMIT": query.emit or "CHANGES",
    }


def _listed(expressions: Iterable[exp.Expression]) -> str:
    return ", ".join(each.sql() for each in expressions)


def _written(expression: exp.Expression | None) -> str:
    return "" if expression is None else expression.sql()


_Side = tuple[CreateAs, Plan, Source]


def _problems(before: _Side, after: _Side) -> Iterator[str]:
    (old, old_plan, old_source), (new, new_plan, new_source) = before, after
    if old_source.kind != new_source.kind:
        yield f"a {old_source.kind.lower()} cannot become a {new_source.kind.lower()}"
        return
    for what in ("topic", "key_format", "value_format", "window"):
        if getattr(old_source, what) != getattr(new_source, what):
            yield f"its {what.replace('_', ' ')} would be another one"
    if [(each.name, each.type) for each in old_source.key_columns] != [
        (each.name, each.type) for each in new_source.key_columns
    ]:
        yield "its key would be another one"
    later = {each.name: each.type for each in new_source.value_columns}
    for each in old_source.value_columns:
        if later.get(each.name) != each.type:
            yield f"column {each.name} would be gone or have another type for those who read it"
    if old_plan.topics != new_plan.topics:
        yield "it would read other topics"
    if (old_plan.topology.stores or new_plan.topology.stores) and _state(old, old_plan) != _state(
        new, new_plan
    ):
        yield "what it has counted so far has another shape than the new query needs"


def _state(statement: CreateAs, plan: Plan) -> Any:
    """What the saved rows of a query depend on."""
    query = statement.query
    aggregates = [
        node.sql()
        for each in (*query.projections, *([query.having] if query.having is not None else []))
        for node in each.find_all(exp.Anonymous)
        if is_aggregate(node)
    ]
    joins = [(join.source, join.kind, join.on.sql(), join.within) for join in query.joins]
    repartition = sorted(plan.topology.repartition_topics)
    return sorted(plan.topology.stores), repartition, _listed(query.group_by), aggregates, joins, query.emit


# --- the dry run ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DryRun:
    """Both queries over the same records."""

    records: int
    same: int
    only_old: tuple[SqlRow, ...]
    only_new: tuple[SqlRow, ...]

    def lines(self) -> Iterator[str]:
        yield (
            f"dry run over the last {self.records} records: {self.same} rows are the same, "
            f"{len(self.only_old)} only the old query gives, {len(self.only_new)} only the new one"
        )
        for mark, rows in (("-", self.only_old), ("+", self.only_new)):
            for row in rows[:_SHOWN]:
                yield f"  {mark} {to_json(row)}"
            if len(rows) > _SHOWN:
                yield f"  {mark} … {len(rows) - _SHOWN} more"


def dry_run(
    old: Query, new: Query, catalogue: Catalogue, records: Sequence[ConsumerRecord], registry: Any = None
) -> DryRun:
    """The rows of both queries in the end, compared as sets in which a row may be several times."""
    before = run_over(plan_query(old, catalogue, registry), records)
    after = run_over(plan_query(new, catalogue, registry), records)
    left = Counter(_frozen(row) for row in before)
    right = Counter(_frozen(row) for row in after)
    return DryRun(
        len(records),
        (left & right).total(),
        _surplus(before, right),
        _surplus(after, left),
    )


def _surplus(rows: Sequence[SqlRow], others: Counter[str]) -> tuple[SqlRow, ...]:
    remaining = Counter(others)
    found = []
    for row in rows:
        name = _frozen(row)
        if remaining[name] > 0:
            remaining[name] -= 1
        else:
            found.append(row)
    return tuple(found)


def _frozen(row: SqlRow) -> str:
    return repr(sorted(to_json(row).items()))
