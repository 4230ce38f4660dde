"""Statements as values: what ``parser.py`` makes of a text and ``planner.py`` and ``session.py`` read.

Invariant: immutable; names are as the catalogue keeps them.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from sqlglot import exp

from moldau.sql.types import SqlType

Kind = Literal["STREAM", "TABLE"]


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    name: str
    type: SqlType
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    kind: Literal["TUMBLING", "HOPPING", "SESSION"]
    size_ms: int
    advance_ms: int | None = None
    grace_ms: int | None = None
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Within:
    """How far apart two records of a join of streams may be."""

    before_ms: int
    after_ms: int
    grace_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Join:
    source: str
    alias: str
    kind: Literal["INNER", "LEFT", "OUTER"]
    on: exp.Expression
    within: Within | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT; with ``emit`` it is a stream, without it a look at what is there now, or was ``as_of_ms``."""

    text: str
    projections: tuple[exp.Expression, ...]
    source: str
    alias: str
    joins: tuple[Join, ...] = ()
    window: Window | None = None
    where: exp.Expression | None = None
    group_by: tuple[exp.Expression, ...] = ()
    partition_by: tuple[exp.Expression, ...] = ()
    having: exp.Expression | None = None
    emit: Literal["CHANGES", "FINAL"] | None = None
    limit: int | None = None
    as_of_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CreateSource:
    kind: Kind
    name: str
    columns: tuple[ColumnDefinition, ...]
    properties: dict[str, Any]
    if_not_exists: bool = False
    or_replace: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class CreateAs:
    kind: Kind
    name: str
    query: Query
    properties: dict[str, Any] = field(default_factory=dict)
    if_not_exists: bool = False
    or_replace: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class InsertValues:
    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[exp.Expression, ...], ...]


@dataclass(frozen=True, slots=True)
class InsertSelect:
    name: str
    query: Query
    text: str = ""


@dataclass(frozen=True, slots=True)
class Drop:
    kind: Kind
    name: str
    if_exists: bool = False
    delete_topic: bool = False


@dataclass(frozen=True, slots=True)
class Show:
    """STREAMS, TABLES, TOPICS, QUERIES, FUNCTIONS or PROPERTIES."""

    what: str


@dataclass(frozen=True, slots=True)
class Describe:
    name: str
    extended: bool = False


@dataclass(frozen=True, slots=True)
class Explain:
    """A query by its id, or a statement."""

    query_id: str | None = None
    query: Query | None = None
    #: A CREATE OR REPLACE, whose upgrade is explained where there is something to replace.
    replacing: CreateAs | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """TERMINATE, PAUSE or RESUME of a query, or of all."""

    action: Literal["TERMINATE", "PAUSE", "RESUME"]
    query_id: str | None


@dataclass(frozen=True, slots=True)
class SetProperty:
    name: str
    #: None: the default again.
    value: str | None


@dataclass(frozen=True, slots=True)
class PrintTopic:
    topic: str
    from_beginning: bool = False
    limit: int | None = None


Statement = (
    Query
    | CreateSource
    | CreateAs
    | InsertValues
    | InsertSelect
    | Drop
    | Show
    | Describe
    | Explain
    | Control
    | SetProperty
    | PrintTopic
)
