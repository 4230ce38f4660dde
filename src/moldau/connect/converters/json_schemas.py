"""Schemas of Connect as JSON, as they stand beside a payload, and back."""

from collections.abc import Callable
from functools import partial
from typing import Any

from moldau.connect.data.schema import Schema, Struct, array, map_of
from moldau.connect.data.types import Int32, Type
from moldau.connect.errors import DataException, SchemaBuilderException

NAMES: dict[Type, str] = {kind: kind.value for kind in Type} | {Type.FLOAT32: "float", Type.FLOAT64: "double"}
_TYPES = {name: kind for kind, name in NAMES.items()}

#: Writes a default value by its schema, or reads one.
Write = Callable[[Schema, object], object]
Read = Callable[[Schema, object], object]
#: Reads a schema inside of another.
Inner = Callable[[object], Schema | None]


def schema_to_json(schema: Schema | None, write: Write) -> dict[str, object] | None:
    if schema is None:
        return None
    node: dict[str, object] = {"type": NAMES[schema.type]}
    if schema.type is Type.ARRAY:
        node["items"] = schema_to_json(schema.values, write)
    elif schema.type is Type.MAP:
        node["keys"] = schema_to_json(schema.keys, write)
        node["values"] = schema_to_json(schema.values, write)
    elif schema.type is Type.STRUCT:
        node["fields"] = [
            {**(schema_to_json(field.schema, write) or {}), "field": field.name} for field in schema.fields
        ]
    node["optional"] = schema.optional
    described = {"name": schema.name, "version": schema.version, "doc": schema.doc}
    node.update((name, value) for name, value in described.items() if value is not None)
    if schema.parameters is not None:
        node["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        node["default"] = write(schema, schema.default)
    return node


def schema_from_json(node: object, read: Read, struct_defaults: bool = True) -> Schema | None:
    """``struct_defaults`` says whether a struct may have a default; Apache's converter refuses those."""
    if node is None:
        return None
    if not isinstance(node, dict) or not isinstance(node.get("type"), str):
        raise DataException("Schema must contain 'type' field")
    name = node["type"]
    kind = _TYPES.get(name)
    if kind is None:
        raise DataException(f"Unknown schema type: {name}")
    plain = _without_default(
        node, kind, partial(schema_from_json, read=read, struct_defaults=struct_defaults)
    )
    if "default" not in node:
        return plain(default=None)
    default = _default(plain(default=None), node["default"], read)
    if isinstance(default, Struct) and not struct_defaults:
        raise SchemaBuilderException("Invalid default value") from DataException(
            "Struct schemas do not match."
        )
    return plain(default=default)


def _default(schema: Schema, node: object, read: Read) -> object:
    value = read(schema, node)
    if value is None and not schema.optional:
        reason = f"Invalid value: null used for required value, schema type: {schema.type.name}"
        raise SchemaBuilderException("Invalid default value") from DataException(reason)
    return value


def _without_default(node: dict[str, Any], kind: Type, inner: Inner) -> Callable[..., Schema]:
    """Makes the schema once its default is known."""
    if kind is Type.ARRAY:
        if node.get("items") is None:
            raise DataException("Array schema did not specify the element type")
        items = inner(node["items"])
        options = _options(node)
        return lambda default: array(items, default=default, **options)
    if kind is Type.MAP:
        for part, word in (("keys", "key"), ("values", "value")):
            if part not in node:
                raise DataException(f"Map schema did not specify the {word} type")
        keys, values = inner(node["keys"]), inner(node["values"])
        options = _options(node)
        return lambda default: map_of(keys, values, default=default, **options)
    fields = _fields(node, inner) if kind is Type.STRUCT else []
    options = _options(node)
    return lambda default: Schema(kind, fields=fields, default=default, **options)


def _fields(node: dict[str, Any], inner: Inner) -> list[tuple[str, Schema]]:
    fields = node.get("fields")
    if not isinstance(fields, list):
        raise DataException('Struct schema\'s "fields" argument is not an array.')
    found: list[tuple[str, Schema]] = []
    for field in fields:
        name = field.get("field") if isinstance(field, dict) else None
        if not isinstance(name, str):
            raise DataException("Struct schema's field name not specified properly")
        schema = inner(field)
        assert schema is not None
        found.append((name, schema))
    return found


def _options(node: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {"optional": node.get("optional") is True}
    for name in ("name", "doc"):
        if isinstance(node.get(name), str):
            options[name] = node[name]
    version = node.get("version")
    if isinstance(version, int) and not isinstance(version, bool):
        options["version"] = int(Int32.wrapped(version))
    parameters = node.get("parameters")
    if isinstance(parameters, dict):
        if not all(isinstance(value, str) for value in parameters.values()):
            raise DataException("Schema parameters must have string values.")
        options["parameters"] = parameters
    return options
