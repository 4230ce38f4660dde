"""Sources and joins of a query as streams and tables of rows.

A row is a dict by *place*: ``ALIAS.COLUMN``. Expressions are bound first: every column in them becomes its
place, so that two expressions are the same when they are written the same.

Invariant: pure; only a topology is built, nothing runs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlglot import exp

from moldau.sql.catalogue import Catalogue, Source
from moldau.sql.dialect import name_of
from moldau.sql.errors import SqlError
from moldau.sql.expressions import Compiled, Row, Scope, compile_expression
from moldau.sql.formats import key_serde, row_serde, value_serde
from moldau.sql.lambdas import variable_place, variables_of
from moldau.sql.statements import ColumnDefinition, Join
from moldau.sql.types import BIGINT, INTEGER, NULL, SqlType, wider
from moldau.streams import (
    Consumed,
    Joined,
    JoinWindows,
    Processor,
    Record,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    Windowed,
)

#: What every row of a stream has beside its columns.
PSEUDO_COLUMNS: dict[str, SqlType] = {"ROWTIME": BIGINT, "ROWPARTITION": INTEGER, "ROWOFFSET": BIGINT}
WINDOW_COLUMNS: dict[str, SqlType] = {"WINDOWSTART": BIGINT, "WINDOWEND": BIGINT}


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One column of the key: the expressions that are equal to it, and its type."""

    texts: frozenset[str]
    type: SqlType


@dataclass(frozen=True, slots=True)
class Relation:
    """A stream or a table of rows on its way through a query."""

    node: Any
    is_table: bool
    #: Alias, name, place and type of every column, in order.
    columns: tuple[tuple[str, str, str, SqlType], ...]
    pseudo: Mapping[tuple[str, str], tuple[str, SqlType]]
    key: tuple[KeyPart, ...]
    key_serde: Any
    is_windowed: bool = False

    @property
    def scope(self) -> Scope:
        named = {(alias, name): (place, kind) for alias, name, place, kind in self.columns}
        return Scope({**named, **self.pseudo})

    @property
    def places(self) -> tuple[ColumnDefinition, ...]:
        """Everything that a row has, as columns of a serde."""
        own = [ColumnDefinition(place, kind) for _, _, place, kind in self.columns]
        return (*own, *(ColumnDefinition(place, kind) for place, kind in self.pseudo.values()))

    def bind(self, expression: exp.Expression) -> exp.Expression:
        return bind(expression, self.scope)

    def compile(self, expression: exp.Expression) -> Compiled:
        """A bound expression."""
        return compile_expression(expression, place_scope(self.places))


def place_scope(places: Sequence[ColumnDefinition]) -> Scope:
    return Scope({("", each.name): (each.name, each.type) for each in places})


def place_column(place: str) -> exp.Column:
    return exp.Column(this=exp.Identifier(this=place, quoted=True))


def bind(expression: exp.Expression, scope: Scope) -> exp.Expression:
    """The expression with places for columns and functions in upper case."""

    def change(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.JSONExtract):
            field = exp.Identifier(this=name_of(node.expression), quoted=True)
            return exp.JSONExtract(this=bind(node.this, scope), expression=field)
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            table = node.args.get("table")
            place, _ = scope.find(name_of(table) if table is not None else None, name_of(node.this))
            return place_column(place)
        if isinstance(node, exp.Anonymous):
            arguments = [bind(each, scope) for each in node.expressions]
            return exp.Anonymous(this=str(node.this).upper(), expressions=arguments)
        if isinstance(node, exp.Lambda):
            return _bound_lambda(node, scope)
        return node

    return expression.copy().transform(change)


def _bound_lambda(written: exp.Lambda, scope: Scope) -> exp.Lambda:
    """Its variables are places, too, and hide columns of the same name."""
    names = variables_of(written)
    columns = {key: place for key, place in scope.columns.items() if key[1] not in names}
    places = {("", name): (variable_place(name), NULL) for name in names}
    body = bind(written.this, Scope({**columns, **places}))
    return exp.Lambda(this=body, expressions=[exp.Identifier(this=name, quoted=True) for name in names])


# --- sources --------------------------------------------------------------------------------------


class RowMaker(Processor[Any, Any]):
    """From a record to a row: columns of value and key, time and place of the record."""

    def __init__(self, alias: str, to_row: Callable[[Any, Any], dict[str, Any]]) -> None:
        self._alias = alias
        self._to_row = to_row

    def process(self, record: Record) -> None:
        if record.value is None:  # a stream has no tombstones
            return
        row = self._to_row(record.key, record.value)
        metadata = self.context.record_metadata()
        row[f"{self._alias}.ROWTIME"] = record.timestamp
        row[f"{self._alias}.ROWPARTITION"] = metadata.partition
        row[f"{self._alias}.ROWOFFSET"] = metadata.offset
        self.context.forward(record.with_(value=row))


class Reading:
    """What one query reads: a topic that it names twice is read once."""

    def __init__(self, catalogue: Catalogue, registry: Any) -> None:
        self.builder = StreamsBuilder()
        self.catalogue = catalogue
        self.registry = registry
        self._nodes: dict[str, Any] = {}

    def node(self, source: Source, consumed: Consumed) -> Any:
        if source.name not in self._nodes:
            read = self.builder.table if source.kind == "TABLE" else self.builder.stream
            self._nodes[source.name] = read(source.topic, consumed=consumed)
        return self._nodes[source.name]


def source_relation(reading: Reading, name: str, alias: str) -> Relation:
    """A stream or a table as a query reads it."""
    source, registry = reading.catalogue.find(name), reading.registry
    keys, values = source.key_columns, source.value_columns
    inner = key_serde(source.key_format, keys, registry)
    serde = inner
    if source.window is not None:
        windowed = source.window
        serde = (
            Serdes.session_windowed(inner)
            if windowed.kind == "SESSION"
            else Serdes.time_windowed(inner, windowed.size_ms)
        )
    consumed = Consumed.with_(
        serde,
        value_serde(source.value_format, values, registry, source.name),
        timestamp_extractor=_extractor(source),
    )
    columns = tuple((alias, each.name, f"{alias}.{each.name}", each.type) for each in source.columns)
    key = tuple(KeyPart(_texts(f"{alias}.{each.name}"), each.type) for each in keys)
    to_row = partial(_to_row, [each.name for each in keys], alias, source.window is not None)
    pseudo = {
        (alias, name): (f"{alias}.{name}", kind)
        for name, kind in (WINDOW_COLUMNS if source.window is not None else {}).items()
    }
    if source.kind == "TABLE":
        node: Any = reading.node(source, consumed).map_values(lambda k, v: to_row(k, v))
        return Relation(node, True, columns, pseudo, key, serde, source.window is not None)
    node = reading.node(source, consumed).process_values(partial(RowMaker, alias, to_row))
    pseudo |= {(alias, name): (f"{alias}.{name}", kind) for name, kind in PSEUDO_COLUMNS.items()}
    return Relation(node, False, columns, pseudo, key, serde, source.window is not None)


def _texts(*places: str) -> frozenset[str]:
    return frozenset(place_column(place).sql() for place in places)


def _to_row(keys: list[str], alias: str, is_windowed: bool, key: Any, value: Any) -> dict[str, Any]:
    row = {f"{alias}.{name}": each for name, each in value.items()}
    if is_windowed and isinstance(key, Windowed):
        row[f"{alias}.WINDOWSTART"], row[f"{alias}.WINDOWEND"] = key.start, key.end
        key = key.key
    parts = (key,) if len(keys) == 1 else key or ()
    for name, part in zip(keys, parts, strict=False):
        row[f"{alias}.{name}"] = part
    return row


def _extractor(source: Source) -> Callable[[Any, int], int] | None:
    column = source.timestamp_column
    if column is None:
        return None
    is_key = column in {each.name for each in source.key_columns}

    def extract(record: Any, partition_time: int) -> int:
        value = record.key if is_key else (record.value or {}).get(column)
        if value is None:
            return int(record.timestamp)
        return int(value.timestamp() * 1000) if hasattr(value, "timestamp") else int(value)

    return extract


# --- joins ----------------------------------------------------------------------------------------


def join_relations(reading: Reading, left: Relation, join: Join) -> Relation:
    right = source_relation(reading, join.source, join.alias)
    columns = (*left.columns, *right.columns)
    if len({alias for alias, *_ in right.columns} & {alias for alias, *_ in left.columns}):
        raise SqlError(f"{join.alias} stands for two sources; give one of them another name with AS.")
    both = Relation(None, left.is_table, columns, {**left.pseudo, **right.pseudo}, (), None)
    left_on, right_on = _sides(join.on, both, left, right)
    if left.is_windowed or right.is_windowed:
        raise SqlError("Tables and streams with windows cannot be joined yet.")
    if left.is_table and not right.is_table:
        raise SqlError(f"A table cannot be joined with the stream {join.source}: name the stream first.")
    if left.is_table:
        node, key, serde = _join_tables(left, right, left_on, right_on, join)
    else:
        node, key, serde = _join_stream(left, right, left_on, right_on, join)
    return replace(both, node=node, key=key, key_serde=serde)


def _sides(
    on: exp.Expression, both: Relation, left: Relation, right: Relation
) -> tuple[exp.Expression, exp.Expression]:
    """What stands for the left and for the right in ``ON a = b``."""
    if isinstance(on, exp.Paren):
        return _sides(on.this, both, left, right)
    if not isinstance(on, exp.EQ):
        raise SqlError(f"ON {on.sql()}: a join is by one equality, as in ON a.id = b.id.")
    one, other = (both.bind(each) for each in (on.this, on.expression))
    if _owned(one, left) and _owned(other, right):
        return one, other
    if _owned(one, right) and _owned(other, left):
        return other, one
    raise SqlError(f"ON {on.sql()}: each side names columns of one source.")


def _owned(expression: exp.Expression, relation: Relation) -> bool:
    places = {each.name for each in relation.places}
    named = {str(column.this.this) for column in expression.find_all(exp.Column)}
    return bool(named) and named <= places


def _merged(left: Row | None, right: Row | None) -> dict[str, Any]:
    return {**(left or {}), **(right or {})}


def _keyed(relation: Relation, on: exp.Expression, serde: Any) -> Any:
    """The stream with this key; it stays as it is where it has it."""
    if len(relation.key) == 1 and on.sql() in relation.key[0].texts:
        return relation.node
    evaluate = relation.compile(on).evaluate
    return relation.node.select_key(lambda key, row: evaluate(row))


def _join_stream(
    left: Relation, right: Relation, left_on: exp.Expression, right_on: exp.Expression, join: Join
) -> tuple[Any, tuple[KeyPart, ...], Any]:
    kind = wider(left.compile(left_on).type, right.compile(right_on).type)
    serde = right.key_serde if right.is_table else key_serde("JSON", (ColumnDefinition("K", kind),))
    part = KeyPart(frozenset([left_on.sql(), right_on.sql()]), kind)
    name = {"INNER": "join", "LEFT": "left_join", "OUTER": "outer_join"}[join.kind]
    one = _keyed(left, left_on, serde)
    if right.is_table:
        if join.within is not None:
            raise SqlError("WITHIN is for joins of two streams.")
        if join.kind == "OUTER":
            raise SqlError("A stream and a table have no FULL OUTER JOIN.")
        _check_primary_key(right, right_on, join.source)
        node = getattr(one, name)(right.node, _merged, None, Joined.with_(serde, row_serde(left.places)))
        return node, (part,), serde
    if join.within is None:
        raise SqlError("A join of two streams needs WITHIN, as in WITHIN 1 HOUR.")
    grace = join.within.grace_ms
    windows = (
        JoinWindows.of_time_difference_and_grace(
            join.within.before_ms, 86_400_000 if grace is None else grace
        )
        .before(join.within.before_ms)
        .after(join.within.after_ms)
    )
    options = StreamJoined.with_(serde, row_serde(left.places), row_serde(right.places))
    node = getattr(one, name)(_keyed(right, right_on, serde), _merged, windows, options)
    return node, (part,), serde


def _join_tables(
    left: Relation, right: Relation, left_on: exp.Expression, right_on: exp.Expression, join: Join
) -> tuple[Any, tuple[KeyPart, ...], Any]:
    if join.within is not None:
        raise SqlError("WITHIN is for joins of two streams.")
    _check_primary_key(right, right_on, join.source)
    name = {"INNER": "join", "LEFT": "left_join", "OUTER": "outer_join"}[join.kind]
    if len(left.key) == 1 and left_on.sql() in left.key[0].texts:
        part = KeyPart(left.key[0].texts | {right_on.sql()}, left.key[0].type)
        return getattr(left.node, name)(right.node, _merged), (part,), left.key_serde
    if join.kind == "OUTER":
        raise SqlError("A join by a foreign key is an INNER or a LEFT JOIN.")
    evaluate = left.compile(left_on).evaluate
    node = getattr(left.node, name)(right.node, _merged, foreign_key=lambda key, row: evaluate(row))
    return node, left.key, left.key_serde


def _check_primary_key(table: Relation, on: exp.Expression, name: str) -> None:
    if len(table.key) != 1 or on.sql() not in table.key[0].texts:
        raise SqlError(f"The table {name} is joined by its primary key, not by {on.sql()}.")
