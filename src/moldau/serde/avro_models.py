"""Dataclasses and pydantic models as Avro records.

Pure. A class gives the same schema each time. What has no counterpart in Avro is refused with
a hint on what to write instead.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Literal, get_args, get_origin
from uuid import UUID

from moldau.schemas.avro.logical import logical_type
from moldau.serde.errors import SerdeError
from moldau.serde.models import (
    MISSING,
    Leaf,
    ModelField,
    enum_of,
    inward,
    is_model,
    item_type,
    members,
    model_fields,
    outward,
    plain,
    value_type,
)

_TYPES: dict[Any, Any] = {
    type(None): "null",
    None: "null",
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "bytes",
    datetime: {"type": "long", "logicalType": "timestamp-micros"},
    date: {"type": "int", "logicalType": "date"},
    time: {"type": "long", "logicalType": "time-micros"},
    UUID: {"type": "string", "logicalType": "uuid"},
}


@dataclass(frozen=True, slots=True)
class AvroField:
    """What a field says beyond its type: ``quantity: Annotated[int, AvroField("int")]``."""

    type: Any = None
    aliases: tuple[str, ...] = ()
    doc: str | None = None


@dataclass(frozen=True, slots=True)
class _AvroLeaves:
    """Avro's logical types know dates, decimals and uuids; an enum is its members' names."""

    names_branches: bool = True

    def leaf(self, annotation: Any) -> Leaf:
        enum = enum_of(annotation)
        if enum is None:
            return Leaf(None, None)
        return Leaf(
            lambda member: member.name if isinstance(member, enum) else member, lambda name: enum[name]
        )

    def name(self, cls: type) -> str:
        return full_name(cls)


LEAVES = _AvroLeaves()


def full_name(cls: type) -> str:
    """The class's name in the namespace that it names in ``__avro_namespace__``."""
    namespace = getattr(cls, "__avro_namespace__", None)
    return f"{namespace}.{cls.__name__}" if namespace else cls.__name__


def avro_schema_of(cls: type) -> str:
    """The Avro schema of a dataclass or a pydantic model, as JSON."""
    return json.dumps(_Schemas().of(cls))


def to_avro(cls: type) -> Callable[[Any], Any]:
    """From an instance to the dict that is encoded."""
    step = outward(cls, LEAVES)
    assert step is not None
    return step


def from_avro(cls: type) -> Callable[[Any], Any]:
    """From what was decoded, with the names of records in unions, to an instance."""
    step = inward(cls, LEAVES)
    assert step is not None
    return step


class _Schemas:
    """A named type is written out where it comes first; after that its name is enough."""

    def __init__(self) -> None:
        self._defined: dict[str, type] = {}
        self._written: set[str] = set()

    def of(self, annotation: Any) -> Any:
        annotation, extras = plain(annotation)
        for extra in extras:
            if isinstance(extra, AvroField) and extra.type is not None:
                return extra.type
        if is_model(annotation):
            return self._named(annotation, self._record)
        if (enum := enum_of(annotation)) is not None:
            return self._named(enum, self._enum)
        if (choices := members(annotation)) is not None:
            return self._union(choices)
        if (item := item_type(annotation)) is not MISSING:
            return {"type": "array", "items": self.of(item)}
        if (value := value_type(annotation)) is not MISSING:
            return {"type": "map", "values": self.of(value)}
        if get_origin(annotation) is Literal and all(isinstance(each, str) for each in get_args(annotation)):
            return "string"
        found = _TYPES.get(annotation)
        if found is None:
            raise SerdeError(f"{_shown(annotation)} has no type in Avro. {_advice(annotation)}")
        return found

    def _named(self, cls: Any, define: Callable[[Any], dict[str, Any]]) -> Any:
        name = full_name(cls)
        known = self._defined.setdefault(name, cls)
        if known is not cls:
            raise SerdeError(f"Two classes are called {name}: set __avro_namespace__ in one of them.")
        if name in self._written:
            return name
        self._written.add(name)
        return define(cls)

    def _record(self, cls: type) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "record", "name": cls.__name__}
        if namespace := getattr(cls, "__avro_namespace__", None):
            found["namespace"] = namespace
        doc = cls.__dict__.get("__doc__")
        if doc and not doc.startswith(f"{cls.__name__}("):
            found["doc"] = doc.strip()
        found["fields"] = [self._field(cls, field) for field in model_fields(cls)]
        return found

    def _field(self, cls: type, field: ModelField) -> dict[str, Any]:
        extra = next((each for each in field.extras if isinstance(each, AvroField)), AvroField())
        try:
            schema = extra.type if extra.type is not None else self.of(field.annotation)
        except SerdeError as error:
            raise SerdeError(error.message, f"{cls.__name__}.{error.path or field.name}") from None
        found: dict[str, Any] = {"name": field.name, "type": schema}
        if field.default is not MISSING:
            step = outward(field.annotation, LEAVES)
            default = field.default if step is None else step(field.default)
            if isinstance(schema, list):
                found["type"] = schema = _default_first(schema, default)
            found["default"] = _default_json(schema, default)
        if extra.aliases:
            found["aliases"] = list(extra.aliases)
        if extra.doc:
            found["doc"] = extra.doc
        return found

    def _enum(self, cls: Any) -> dict[str, Any]:
        found = {"type": "enum", "name": cls.__name__, "symbols": [member.name for member in cls]}
        namespace = getattr(cls, "__avro_namespace__", None)
        return found | ({"namespace": namespace} if namespace else {})

    def _union(self, choices: tuple[Any, ...]) -> Any:
        """None comes first, as it does nearly everywhere: with it a default of null can be added later."""
        ordered = sorted(choices, key=lambda each: each is not type(None))
        found: list[Any] = []
        for each in ordered:
            schema = self.of(each)
            if schema not in found:
                found.append(schema)
        return found if len(found) > 1 else found[0]


def _default_first(schema: list[Any], default: Any) -> list[Any]:
    """The default of a union belongs to its first branch."""
    if default is None:
        return schema
    return [*(each for each in schema if each != "null"), *(each for each in schema if each == "null")]


def _default_json(schema: Any, default: Any) -> Any:
    """A value as a schema's JSON writes it."""
    if isinstance(schema, list):
        schema = schema[0]
    if isinstance(schema, dict) and (logical := logical_type(schema["type"], schema)) is not None:
        default = logical.writer(schema, schema.get("size", 0))(default)
    if isinstance(default, bytes):
        return default.decode("latin-1")
    if isinstance(default, tuple) and len(default) == 2:
        return default[1]
    if isinstance(default, list) and isinstance(schema, dict):
        return [_default_json(schema["items"], each) for each in default]
    return default


def _shown(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or str(annotation)


def _advice(annotation: Any) -> str:
    if annotation is Decimal:
        return (
            'Say how many digits: Annotated[Decimal, AvroField({"type": "bytes", "logicalType": "decimal", '
            '"precision": 18, "scale": 2})].'
        )
    return "Say which: Annotated[..., AvroField(type)]."
