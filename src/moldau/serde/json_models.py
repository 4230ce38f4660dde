"""Dataclasses and pydantic models as JSON Schema.

Pure. A pydantic model describes itself; for a dataclass the schema is made here (draft 7). Both are closed,
as only their fields are written: so a field with a default may be added later and stays compatible.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Literal, get_args, get_origin
from uuid import UUID

from moldau.serde.errors import SerdeError
from moldau.serde.models import (
    MISSING,
    Leaf,
    enum_of,
    inward,
    is_model,
    is_pydantic,
    item_type,
    members,
    model_fields,
    outward,
    plain,
    value_type,
)

_DRAFT = "http://json-schema.org/draft-07/schema#"
_TYPES: dict[Any, dict[str, Any]] = {
    type(None): {"type": "null"},
    None: {"type": "null"},
    Any: {},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"},
    UUID: {"type": "string", "format": "uuid"},
    Decimal: {"type": "string", "format": "decimal"},
}
_LEAVES: dict[Any, Leaf] = {
    bytes: Leaf(lambda value: base64.b64encode(value).decode(), base64.b64decode),
    datetime: Leaf(datetime.isoformat, datetime.fromisoformat),
    date: Leaf(date.isoformat, date.fromisoformat),
    time: Leaf(time.isoformat, time.fromisoformat),
    UUID: Leaf(str, UUID),
    Decimal: Leaf(str, Decimal),
    float: Leaf(None, lambda value: float(value) if isinstance(value, int) else value),
}


@dataclass(frozen=True, slots=True)
class _JsonLeaves:
    """JSON knows texts and numbers only; an enum is its members' values."""

    names_branches: bool = False

    def leaf(self, annotation: Any) -> Leaf:
        enum = enum_of(annotation)
        if enum is None:
            return _LEAVES.get(annotation, Leaf(None, None))
        return Leaf(lambda member: member.value if isinstance(member, enum) else member, enum)

    def name(self, cls: type) -> str:
        return cls.__name__


LEAVES = _JsonLeaves()


def json_schema_of(cls: Any) -> str:
    """The JSON Schema of a dataclass or a pydantic model."""
    if is_pydantic(cls):
        return json.dumps(_closed(cls.model_json_schema()))
    definitions: dict[str, Any] = {}
    root = _object(cls, definitions)
    definitions.pop(cls.__name__, None) if not _names_itself(root, definitions, cls) else None
    found = {"$schema": _DRAFT, **root}
    return json.dumps(found | ({"definitions": definitions} if definitions else {}))


def to_json(cls: Any) -> Callable[[Any], Any]:
    """From an instance to what ``json`` can write."""
    if is_pydantic(cls):
        return lambda value: value.model_dump(mode="json", by_alias=True) if isinstance(value, cls) else value
    step = outward(cls, LEAVES)
    assert step is not None
    return step


def from_json(cls: Any) -> Callable[[Any], Any]:
    """From what ``json`` has read to an instance."""
    if not is_pydantic(cls):
        step = inward(cls, LEAVES)
        assert step is not None
        return step

    def make(value: Any) -> Any:
        try:
            return cls.model_validate(value)
        except ValueError as error:
            raise SerdeError(f"The data makes no {cls.__name__}: {error}") from error

    return make


def _names_itself(root: Any, definitions: dict[str, Any], cls: type) -> bool:
    return json.dumps({"$ref": f"#/definitions/{cls.__name__}"}) in json.dumps([root, definitions])


def _object(cls: type, definitions: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required = []
    found: dict[str, Any] = {"title": cls.__name__, "type": "object"}
    definitions[cls.__name__] = found  # before its fields: they may name it
    for field in model_fields(cls):
        try:
            properties[field.name] = _of(field.annotation, definitions)
        except SerdeError as error:
            raise SerdeError(error.message, f"{cls.__name__}.{error.path or field.name}") from None
        if field.default is MISSING:
            required.append(field.name)
        else:
            step = outward(field.annotation, LEAVES)
            default = field.default if step is None else step(field.default)
            properties[field.name] = {**properties[field.name], "default": default}
    found |= {"properties": properties, "additionalProperties": False}
    if required:
        found["required"] = required
    return found


def _of(annotation: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    annotation, _ = plain(annotation)
    if is_model(annotation):
        if is_pydantic(annotation):
            raise SerdeError("a pydantic model within a dataclass: use a pydantic model for both.")
        if annotation.__name__ not in definitions:
            _object(annotation, definitions)
        return {"$ref": f"#/definitions/{annotation.__name__}"}
    if (enum := enum_of(annotation)) is not None:
        return {"enum": [member.value for member in enum]}
    if get_origin(annotation) is Literal:
        return {"enum": list(get_args(annotation))}
    if (choices := members(annotation)) is not None:
        return {"anyOf": [_of(each, definitions) for each in choices]}
    if (item := item_type(annotation)) is not MISSING:
        return {"type": "array", "items": _of(item, definitions)}
    if (value := value_type(annotation)) is not MISSING:
        return {"type": "object", "additionalProperties": _of(value, definitions)}
    found = _TYPES.get(annotation)
    if found is None:
        name = getattr(annotation, "__name__", None) or str(annotation)
        raise SerdeError(f"{name} has no type in JSON Schema: use a type that it has, or pass a schema.")
    return dict(found)


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _closed(each) for name, each in schema.items()}
    if found.get("type") == "object" and "properties" in found:
        found.setdefault("additionalProperties", False)
    return found
