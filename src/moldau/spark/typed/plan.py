"""How the keys and values of a query are read: decided once, on the driver, with the schemas in hand.

Invariant: what is decided here travels to the tasks as it is: a schema that is registered while the query
runs changes nothing of its columns. A subject that is not there, or a schema that cannot be read, is
reported before any task begins.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from moldau.spark.background_loop import connect
from moldau.spark.options import OptionError, ReadOptions
from moldau.spark.read.columns import COLUMNS, HEADERS_TYPE
from moldau.spark.read.sampling import newest_values
from moldau.spark.record_columns import NEVER_NULL
from moldau.spark.typed.formats import FORMATS, Decoder, format_of
from moldau.spark.typed.json.infer import infer
from moldau.spark.typed.options import LATEST_VERSION, RegistryOptions, SideOptions, TypedOptions
from moldau.spark.typed.registry import SchemaText, client_of, subject_schema, with_uses
from moldau.spark.typed.shapes import SchemaError

log = logging.getLogger("moldau.spark")

#: The columns beside a flattened value, and the connector's that they are.
_BESIDE = {
    "_key": "key",
    "_topic": "topic",
    "_partition": "partition",
    "_offset": "offset",
    "_timestamp": "timestamp",
}


@dataclass(frozen=True, slots=True)
class SidePlan:
    """Keys or values: in which format, by which schema, and whether schema ids come before them."""

    side: str
    format: str = "bytes"
    schema: SchemaText | None = None
    message: str | None = None
    registry: RegistryOptions | None = None
    #: Whether the schema is what records looked like when the query began.
    inferred: bool = False


@dataclass(frozen=True, slots=True)
class TypedPlan:
    key: SidePlan
    value: SidePlan
    decode_errors: str = "fail"
    dead_letter_topic: str | None = None
    error_column: str = "_error"
    flatten: bool = False
    include_headers: bool = False

    def decoders(self) -> tuple[Decoder, Decoder]:
        """Of keys and of values; a task makes its own."""
        return _decoder(self.key), _decoder(self.value)

    @property
    def inferred(self) -> str:
        """The schemas that were inferred, as options that say the same; empty where none was."""
        sides = (side for side in (self.key, self.value) if side.inferred and side.schema is not None)
        return "; ".join(f"{side.side}.schema={side.schema.text}" for side in sides if side.schema)

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Names and types of the columns that the query shows."""
        key, value = (_type(side) for side in (self.key, self.value))
        headers = [("headers", HEADERS_TYPE)] if self.include_headers else []
        if not self.flatten:
            own = {"key": key, "value": value}
            found = [(name, own.get(name, kind)) for name, kind in COLUMNS] + headers
        else:
            plain = dict(COLUMNS) | {"key": key}
            fields = [(f.name, f.type) for f in value] if pa.types.is_struct(value) else [("value", value)]
            found = fields + [(name, plain[of]) for name, of in _BESIDE.items()]
            found += [(f"_{name}", kind) for name, kind in headers]
        if self.decode_errors == "null":
            found.append((self.error_column, pa.string()))
        names = [name for name, _ in found]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise OptionError(
                f"there would be two columns {twice}: leave out flatten, or set error.column to another name"
            )
        return found

    def never_null(self) -> frozenset[str]:
        """Columns that every record has, as the query shows them."""
        if not self.flatten:
            return NEVER_NULL
        return frozenset(name for name, of in _BESIDE.items() if of in NEVER_NULL)

    def connector_filters(self, filters: Iterable[Any]) -> Iterator[Any]:
        """Filters on the connector's columns, under the connector's names."""
        for each in filters:
            attribute = each.attribute
            if not self.flatten:
                yield each
            elif len(attribute) == 1 and attribute[0] in _BESIDE:
                yield replace(each, attribute=(_BESIDE[attribute[0]],))

    def place(self, name: str) -> str:
        """What a column of this name is: one of the connector's, or a field of the value."""
        if not self.flatten:
            return name
        return "headers" if name == "_headers" and self.include_headers else _BESIDE.get(name, name)


def plan_reading(options: TypedOptions, read: ReadOptions) -> TypedPlan | None:
    """What the options mean now; None where keys and values are bytes."""
    if options.plain:
        return None
    plan = TypedPlan(
        _side(options.key, options, read, needed=False),
        _side(options.value, options, read, needed=True),
        options.decode_errors,
        options.dead_letter_topic,
        options.error_column,
        options.flatten,
        read.include_headers,
    )
    plan.columns()
    return plan


def _side(said: SideOptions, options: TypedOptions, read: ReadOptions, *, needed: bool) -> SidePlan:
    if said.format is None and options.registry is None:
        return SidePlan(said.side)
    if said.format is not None and not FORMATS[said.format].has_schema:
        return SidePlan(said.side, said.format)
    if said.infers:
        assert said.format is not None
        schema = SchemaText(said.inferred or inferred_schema(said, read))
        return SidePlan(said.side, said.format, schema, None, options.registry, inferred=True)
    if said.schema is not None:
        assert said.format is not None
        return SidePlan(said.side, said.format, SchemaText(said.schema), said.message, options.registry)
    assert options.registry is not None, "a format without a schema was refused before"
    client = client_of(options.registry)
    subject = said.subject or f"{_only_topic(said, read)}-{said.side}"
    version = said.version or LATEST_VERSION
    found = subject_schema(client, subject, version)
    if found is None:
        if not needed and said.format is None and said.subject is None and said.version is None:
            return SidePlan(said.side)
        raise OptionError(
            f"the registry at {options.registry.url} has no {_said(version)} of the subject {subject!r}: "
            f"name the right one with {said.side}.subject, or set {said.side}.format=bytes"
        )
    kind = format_of(found.schema_type)
    if kind is None or said.format not in (None, kind.name):
        raise OptionError(
            f"the subject {subject!r} holds {found.schema_type} schemas, not what {said.side}.format="
            f"{said.format} says"
        )
    return SidePlan(said.side, kind.name, with_uses(client, found), said.message, options.registry)


def inferred_schema(said: SideOptions, read: ReadOptions) -> str:
    """What the newest records look like; it is said in the log, with the option that keeps it."""
    name = f"{said.side}.schema"
    values = newest_values(connect(read.cluster), read, said.side)
    if not values:
        raise OptionError(f"{name}=infer: there are no records to look at yet; set {name} to the schema")
    try:
        found = infer(values)
    except SchemaError as error:
        raise OptionError(f"{name}=infer: {error}; set {name} to the schema") from None
    log.warning(
        "%s=infer: by the newest %d records it is %r; set %s to this to keep it",
        name,
        len(values),
        found,
        name,
    )
    return found


def _said(version: int | str) -> str:
    return "version" if version == LATEST_VERSION else f"version {version}"


def _only_topic(said: SideOptions, read: ReadOptions) -> str:
    topics = set(read.topics) | {partition.topic for partition in read.assignment}
    if len(topics) != 1:
        raise OptionError(
            f"several topics are read: name the subject of their schema with {said.side}.subject"
        )
    return topics.pop()


def _type(side: SidePlan) -> pa.DataType:
    """The type alone, where the format has it without what only tasks need."""
    with _named(side):
        return FORMATS[side.format].type(side.schema, side.message)


def _decoder(side: SidePlan) -> Decoder:
    with _named(side):
        return FORMATS[side.format].decoder(side.schema, side.message, side.registry)


@contextmanager
def _named(side: SidePlan) -> Iterator[None]:
    try:
        yield
    except SchemaError as error:
        raise OptionError(f"the schema of {side.side}s cannot be used: {error}") from None
