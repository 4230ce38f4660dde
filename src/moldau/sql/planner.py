"""From a SELECT to a topology of ``moldau.streams`` and the columns of its result.

Invariant: pure; the same query and catalogue give the same plan. One plan serves the batch and the stream:
what a batch shows is what the stream would have come to.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from moldau.sql.catalogue import (
    PROPERTIES_OF_RESULTS,
    Catalogue,
    Source,
    checked_properties,
    formats_of,
)
from moldau.sql.dialect import name_of
from moldau.sql.errors import SqlError
from moldau.sql.exploding import exploded
from moldau.sql.expressions import compile_condition
from moldau.sql.formats import key_serde, value_serde
from moldau.sql.grouping import group, has_aggregates
from moldau.sql.relations import KeyPart, Reading, Relation, join_relations, place_scope, source_relation
from moldau.sql.statements import ColumnDefinition, CreateAs, InsertSelect, Kind, Query, Window
from moldau.sql.types import NULL, STRING, SqlType
from moldau.streams import Produced, Serdes, StreamsBuilder, StreamsError, Topology, TopologyError

#: Where the rows of a SELECT that is not kept go; no topic of this name is ever made.
RESULT_TOPIC = "moldau-sql-result"


@dataclass(frozen=True, slots=True)
class Plan:
    topology: Topology
    kind: Kind
    columns: tuple[ColumnDefinition, ...]
    #: Topics that are read, and the one that is written.
    topics: tuple[str, ...]
    sink: str
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class _Result:
    """The columns of a SELECT over the rows of its relation."""

    relation: Relation
    columns: tuple[tuple[str, exp.Expression], ...]


def plan_query(query: Query, catalogue: Catalogue, registry: Any = None) -> Plan:
    """A SELECT whose rows are looked at and not kept."""
    builder, result = _select(query, catalogue, registry)
    relation = result.relation
    compiled = [(name, relation.compile(each)) for name, each in result.columns]
    columns = tuple(ColumnDefinition(name, each.type) for name, each in compiled)
    evaluates = [(name, each.evaluate) for name, each in compiled]
    rows = relation.node.map_values(lambda row: {name: evaluate(row) for name, evaluate in evaluates})
    _as_stream(rows, relation).to(RESULT_TOPIC)
    return Plan(
        _built(builder), _kind(relation), columns, _topics(query, catalogue), RESULT_TOPIC, query.window
    )


def plan_create(statement: CreateAs, catalogue: Catalogue, registry: Any = None) -> tuple[Plan, Source]:
    """CREATE STREAM or TABLE … AS SELECT: the plan, and what it adds to the catalogue."""
    given = checked_properties(statement.properties, PROPERTIES_OF_RESULTS)
    builder, result = _select(statement.query, catalogue, registry)
    relation = result.relation
    if statement.kind != _kind(relation):
        right = _kind(relation)
        raise SqlError(
            f"The result of this SELECT is a {right.lower()}: use CREATE {right} {statement.name} AS …"
            + (", or GROUP BY for a table." if right == "STREAM" else ".")
        )
    like = catalogue.find(statement.query.source)
    key_format, value_format = formats_of(given, like)
    keys, values = _split(result)
    if len(keys) > 1 and key_format == "KAFKA":
        key_format = "JSON"
    source = Source(
        statement.name,
        statement.kind,
        given.get("KAFKA_TOPIC", statement.name),
        (*keys, *values),
        key_format,
        value_format,
        window=statement.query.window,
        partitions=given.get("PARTITIONS"),
        replicas=given.get("REPLICAS"),
        retention_ms=given.get("RETENTION_MS"),
        text=statement.text,
    )
    _write(result, source, registry)
    plan = Plan(
        _built(builder),
        statement.kind,
        source.columns,
        _topics(statement.query, catalogue),
        source.topic,
        statement.query.window,
    )
    return plan, source


def plan_insert(statement: InsertSelect, catalogue: Catalogue, registry: Any = None) -> Plan:
    """INSERT INTO … SELECT: the columns must be those of the stream."""
    target = catalogue.find(statement.name)
    if target.kind != "STREAM":
        raise SqlError(f"INSERT INTO … SELECT writes to streams; {target.name} is a table.")
    builder, result = _select(statement.query, catalogue, registry)
    if result.relation.is_table:
        raise SqlError("The result of this SELECT is a table; only a stream can be inserted.")
    keys, values = _split(result)
    given = {(each.name, str(each.type)) for each in (*keys, *values)}
    wanted = {(each.name, str(each.type)) for each in target.columns}
    if given != wanted:
        difference = sorted(f"{name} {kind}" for name, kind in given ^ wanted)
        raise SqlError(f"The columns of the SELECT are not those of {target.name}: {', '.join(difference)}.")
    _write(result, target, registry)
    return Plan(_built(builder), "STREAM", target.columns, _topics(statement.query, catalogue), target.topic)


# --- the parts of a SELECT --------------------------------------------------------------------------


def _select(query: Query, catalogue: Catalogue, registry: Any) -> tuple[StreamsBuilder, _Result]:
    try:
        return _selected(query, catalogue, registry)
    except ValueError as error:  # windows that cannot be, in the words of the engine
        raise SqlError(str(error)) from error


def _selected(query: Query, catalogue: Catalogue, registry: Any) -> tuple[StreamsBuilder, _Result]:
    reading = Reading(catalogue, registry)
    relation = source_relation(reading, query.source, query.alias)
    for join in query.joins:
        relation = join_relations(reading, relation, join)
    if query.where is not None:
        if any(True for _ in _aggregates_in(query.where)):
            raise SqlError("WHERE looks at single rows: conditions on aggregates stand in HAVING.")
        relation = _filtered(relation, relation.bind(query.where))
    query, relation = exploded(query, relation)
    rewrite: Callable[[exp.Expression], exp.Expression] = relation.bind
    if has_aggregates(query) or query.group_by:
        if query.partition_by:
            raise SqlError("GROUP BY and PARTITION BY do not go together.")
        relation, rewrite = group(query, relation)
        if query.having is not None:
            relation = _filtered(relation, rewrite(query.having))
    elif query.having is not None or query.window is not None:
        raise SqlError("HAVING and WINDOW need GROUP BY.")
    elif query.emit == "FINAL":
        raise SqlError("EMIT FINAL needs a WINDOW and GROUP BY.")
    elif query.partition_by:
        relation = _partitioned(query, relation)
        rewrite = relation.bind
    return reading.builder, _Result(relation, _columns(query, relation, rewrite))


def _aggregates_in(expression: exp.Expression) -> Any:
    from moldau.sql.grouping import is_aggregate

    return (node for node in expression.find_all(exp.Anonymous) if is_aggregate(node))


def _filtered(relation: Relation, condition: exp.Expression) -> Relation:
    holds = compile_condition(condition, place_scope(relation.places))
    return replace(relation, node=relation.node.filter(lambda row: holds(row)))


def _partitioned(query: Query, relation: Relation) -> Relation:
    if relation.is_table:
        raise SqlError("PARTITION BY is for streams: the key of a table stays.")
    bound = [relation.bind(each) for each in query.partition_by]
    compiled = [relation.compile(each) for each in bound]
    evaluates = [each.evaluate for each in compiled]

    def key_of(key: Any, row: Any) -> Any:
        parts = tuple(each(row) for each in evaluates)
        return parts if len(parts) > 1 else parts[0]

    definitions = [ColumnDefinition(f"K{number}", each.type) for number, each in enumerate(compiled)]
    parts = tuple(
        KeyPart(frozenset([expression.sql()]), each.type)
        for expression, each in zip(bound, compiled, strict=True)
    )
    return replace(
        relation, node=relation.node.select_key(key_of), key=parts, key_serde=key_serde("JSON", definitions)
    )


def _columns(
    query: Query, relation: Relation, rewrite: Callable[[exp.Expression], exp.Expression]
) -> tuple[tuple[str, exp.Expression], ...]:
    found: list[tuple[str, exp.Expression]] = []
    for each in query.projections:
        star = each if isinstance(each, exp.Star) else each.this if isinstance(each, exp.Column) else None
        if isinstance(star, exp.Star):
            table = each.args.get("table")
            found += _all(relation, name_of(table) if table is not None else None, prefixed=bool(query.joins))
            continue
        name = _name(each, len(found))
        found.append((name, rewrite(each.this if isinstance(each, exp.Alias) else each)))
    names = [name for name, _ in found]
    for name in names:
        if names.count(name) > 1:
            raise SqlError(f"Two columns of the result are called {name}: give one another name with AS.")
    return tuple(found)


def _all(relation: Relation, alias: str | None, *, prefixed: bool) -> list[tuple[str, exp.Expression]]:
    from moldau.sql.relations import place_column

    chosen = [each for each in relation.columns if alias in (None, each[0]) and each[0] != "$"]
    if not chosen:
        raise SqlError(f"There is no source {alias} here.")
    return [(f"{own}_{name}" if prefixed else name, place_column(place)) for own, name, place, _ in chosen]


def _name(projection: exp.Expression, number: int) -> str:
    if isinstance(projection, exp.Alias):
        return name_of(projection.args["alias"])
    if isinstance(projection, exp.Column) and not str(projection.this.this).startswith("$EXPLODE"):
        return name_of(projection.this)
    if isinstance(projection, exp.JSONExtract):
        return name_of(projection.expression)
    return f"KSQL_COL_{number}"


# --- what is written --------------------------------------------------------------------------------


def _split(result: _Result) -> tuple[list[ColumnDefinition], list[ColumnDefinition]]:
    """Columns of the key and of the value. The key has to be among the columns of a SELECT that is kept."""
    relation = result.relation
    keys: list[ColumnDefinition] = []
    for part in relation.key:
        name = next((name for name, each in result.columns if each.sql() in part.texts), None)
        if name is None:
            raise SqlError(
                "The key is missing in the SELECT: a result that is kept needs its key among its columns."
            )
        keys.append(ColumnDefinition(name, part.type, is_key=True))
    taken = {each.name for each in keys}
    values = [
        ColumnDefinition(name, _known(relation.compile(each).type))
        for name, each in result.columns
        if name not in taken and not _is_window(each)
    ]
    if not values:
        raise SqlError("A result that is kept needs a column beside its key.")
    return keys, values


def _is_window(expression: exp.Expression) -> bool:
    """WINDOWSTART and WINDOWEND are in the key already."""
    return isinstance(expression, exp.Column) and str(expression.this.this) in ("WINDOWSTART", "WINDOWEND")


def _known(kind: SqlType) -> SqlType:
    return STRING if kind == NULL else kind


def _write(result: _Result, source: Source, registry: Any) -> None:
    relation = result.relation
    by_name: Mapping[str, exp.Expression] = dict(result.columns)
    evaluates = [(each.name, relation.compile(by_name[each.name]).evaluate) for each in source.value_columns]
    serde = key_serde(source.key_format, source.key_columns, registry)
    if source.window is not None:
        serde = (
            Serdes.session_windowed(serde)
            if source.window.kind == "SESSION"
            else Serdes.time_windowed(serde, source.window.size_ms)
        )
    values = value_serde(source.value_format, source.value_columns, registry, source.name)
    rows = relation.node.map_values(lambda row: {name: evaluate(row) for name, evaluate in evaluates})
    _as_stream(rows, relation).to(source.topic, Produced.with_(serde, values))


def _as_stream(rows: Any, relation: Relation) -> Any:
    return rows.to_stream() if relation.is_table else rows


def _kind(relation: Relation) -> Kind:
    return "TABLE" if relation.is_table else "STREAM"


def _topics(query: Query, catalogue: Catalogue) -> tuple[str, ...]:
    names = [query.source, *(join.source for join in query.joins)]
    return tuple(dict.fromkeys(catalogue.find(name).topic for name in names))


def _built(builder: StreamsBuilder) -> Topology:
    try:
        return builder.build("all")
    except (StreamsError, TopologyError) as error:
        raise SqlError(str(error)) from error
