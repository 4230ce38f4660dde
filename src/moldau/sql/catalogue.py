"""The streams and tables that statements have made.

Invariant: immutable; a statement gives the next catalogue or SqlError, so that all statements in their order
give the same catalogue again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from moldau.sql.errors import SqlError
from moldau.sql.formats import check_format
from moldau.sql.statements import ColumnDefinition, CreateSource, Drop, Kind, Window

#: What may stand in WITH (…).
PROPERTIES = (
    "KAFKA_TOPIC",
    "FORMAT",
    "KEY_FORMAT",
    "VALUE_FORMAT",
    "PARTITIONS",
    "REPLICAS",
    "TIMESTAMP",
    "WINDOW_TYPE",
    "WINDOW_SIZE",
    "RETENTION_MS",
)
#: Those of CREATE … AS SELECT.
PROPERTIES_OF_RESULTS = tuple(
    each for each in PROPERTIES if each not in ("TIMESTAMP", "WINDOW_TYPE", "WINDOW_SIZE")
)
_NUMBERS = ("PARTITIONS", "REPLICAS", "RETENTION_MS")


@dataclass(frozen=True, slots=True)
class Source:
    """A stream or a table over a topic."""

    name: str
    kind: Kind
    topic: str
    columns: tuple[ColumnDefinition, ...]
    key_format: str = "KAFKA"
    value_format: str = "JSON"
    timestamp_column: str | None = None
    #: Of a table whose keys have windows.
    window: Window | None = None
    partitions: int | None = None
    replicas: int | None = None
    #: How long its topic keeps records, where it is made here.
    retention_ms: int | None = None
    #: The query that writes it; None for one that others write.
    query_id: str | None = None
    text: str = ""

    @property
    def key_columns(self) -> tuple[ColumnDefinition, ...]:
        return tuple(each for each in self.columns if each.is_key)

    @property
    def value_columns(self) -> tuple[ColumnDefinition, ...]:
        return tuple(each for each in self.columns if not each.is_key)


@dataclass(frozen=True, slots=True)
class Catalogue:
    sources: Mapping[str, Source] = field(default_factory=dict)

    def find(self, name: str) -> Source:
        if name not in self.sources:
            known = ", ".join(sorted(self.sources)) or "none yet"
            raise SqlError(f"There is no stream or table {name}; there are {known}.")
        return self.sources[name]

    def add(self, source: Source, *, or_replace: bool = False) -> "Catalogue":
        known = self.sources.get(source.name)
        if known is not None and not or_replace:
            raise SqlError(
                f"Cannot add {source.kind.lower()} '{source.name}': A {known.kind.lower()} with the same name"
                " already exists"
            )
        return Catalogue({**self.sources, source.name: source})

    def drop(self, statement: Drop) -> "Catalogue":
        known = self.sources.get(statement.name)
        if known is None:
            if statement.if_exists:
                return self
            raise SqlError(f"{statement.kind.capitalize()} {statement.name} does not exist.")
        if known.kind != statement.kind:
            raise SqlError(f"{statement.name} is a {known.kind.lower()}: use DROP {known.kind}.")
        return Catalogue({name: each for name, each in self.sources.items() if name != statement.name})


def source_of(statement: CreateSource) -> Source:
    """What CREATE STREAM or TABLE with columns declares."""
    given = checked_properties(statement.properties, PROPERTIES)
    if "KAFKA_TOPIC" not in given:
        raise SqlError('Missing required property "KAFKA_TOPIC" which has no default value.')
    columns = statement.columns
    if not columns:
        raise SqlError(
            f"CREATE {statement.kind} {statement.name} needs its columns, as in (id INT KEY, name STRING)."
        )
    keys = [each for each in columns if each.is_key]
    if statement.kind == "TABLE" and not keys:
        raise SqlError(f"A table needs a key: mark a column of {statement.name} as PRIMARY KEY.")
    key_format, value_format = formats_of(given)
    timestamp = given.get("TIMESTAMP")
    name = timestamp.upper() if timestamp is not None else None
    if name is not None:
        _check_timestamp(name, columns)
    if len(keys) > 1 and key_format == "KAFKA":
        key_format = "JSON"
    return Source(
        statement.name,
        statement.kind,
        str(given["KAFKA_TOPIC"]),
        columns,
        key_format,
        value_format,
        name,
        _window_of(given),
        given.get("PARTITIONS"),
        given.get("REPLICAS"),
        given.get("RETENTION_MS"),
        text=statement.text,
    )


def checked_properties(properties: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """The properties of WITH: no others than are known, each of its type."""
    unknown = sorted(set(properties) - set(known))
    if unknown:
        raise SqlError(f"WITH has no {', '.join(unknown)} here; there are {', '.join(known)}.")
    for name, value in properties.items():
        if name not in _NUMBERS:
            if not isinstance(value, str) or not value:
                raise SqlError(f"{name} takes a text, as in {name} = '…', not {value!r}.")
        elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise SqlError(f"{name} takes a number from 1, not {value!r}.")
    return dict(properties)


def _check_timestamp(name: str, columns: Sequence[ColumnDefinition]) -> None:
    column = next((each for each in columns if each.name == name), None)
    if column is None:
        raise SqlError(f"TIMESTAMP names {name}, which is not a column.")
    if column.type.name not in ("BIGINT", "TIMESTAMP"):
        raise SqlError(f"TIMESTAMP names {name}, which is {column.type}: it has to be BIGINT or TIMESTAMP.")


def formats_of(properties: Mapping[str, Any], like: Source | None = None) -> tuple[str, str]:
    """The formats of keys and values that WITH names, else those of another source."""
    both = properties.get("FORMAT")
    key = properties.get("KEY_FORMAT", both or (like.key_format if like else "KAFKA"))
    value = properties.get("VALUE_FORMAT", both or (like.value_format if like else None))
    if value is None:
        raise SqlError("WITH needs VALUE_FORMAT, as in VALUE_FORMAT = 'JSON'.")
    return check_format(key), check_format(value)


def _window_of(properties: Mapping[str, Any]) -> Window | None:
    kind = properties.get("WINDOW_TYPE")
    if kind is None:
        return None
    from moldau.sql.parser import parse_duration

    kind = kind.upper()
    if kind not in ("TUMBLING", "HOPPING", "SESSION"):
        raise SqlError(f"WINDOW_TYPE {kind} is none of TUMBLING, HOPPING, SESSION.")
    if kind != "SESSION" and "WINDOW_SIZE" not in properties:
        raise SqlError("WINDOW_TYPE needs WINDOW_SIZE, as in '1 HOUR'.")
    size = parse_duration(properties["WINDOW_SIZE"]) if "WINDOW_SIZE" in properties else 0
    return Window(kind, size)


def written_by(source: Source, query_id: str) -> Source:
    return replace(source, query_id=query_id)
