"""JsonSchemaConverter: values as JSON in Confluent's wire format, with JSON Schemas in a registry.

Invariant: a schema that was written is read back as the same schema; what a JSON Schema of others says that
Connect has no word for is a DataException.
"""

import json
from typing import Any

from moldau.connect.config.definition import Settings
from moldau.connect.converters.json import JsonConverter
from moldau.connect.converters.registered import (
    MAX_KEPT,
    PREFIX_BYTES,
    RegistryConverter,
    schema_id_of,
)
from moldau.connect.data.schema import NOTHING, Schema, SchemaAndValue, array, map_of
from moldau.connect.data.types import Type, type_without_schema
from moldau.connect.errors import DataException
from moldau.schemas.schema_id import id_prefix

_KINDS = {
    Type.INT8: "integer",
    Type.INT16: "integer",
    Type.INT32: "integer",
    Type.INT64: "integer",
    Type.FLOAT32: "number",
    Type.FLOAT64: "number",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "string",
}
_TYPES = {"integer": Type.INT64, "number": Type.FLOAT64, "boolean": Type.BOOLEAN, "string": Type.STRING}
_NULL = {"type": "null"}
_DEPTH = 50


class JsonSchemaConverter(RegistryConverter):
    schema_type = "JSON"

    def configure(self, settings: Settings) -> None:
        super().configure(settings)
        self._json = JsonConverter({"schemas.enable": "false"}, self.kind, self.compatibility)
        self._prefixes: dict[tuple[str, Schema], bytes] = {}
        self._schemas: dict[int, Schema] = {}

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        if value is None and (schema is None or schema.default is None):
            return None
        if schema is None:
            schema = _inferred(value)
        prefix = self._prefixes.get((topic, schema))
        if prefix is None:
            text = json.dumps(json_schema_of(schema, self._json), separators=(",", ":"))
            prefix = id_prefix(self.registered_id(topic, text))
            if len(self._prefixes) >= MAX_KEPT:
                self._prefixes.clear()
            self._prefixes[topic, schema] = prefix
        return prefix + (self._json.from_connect(topic, schema, value) or b"null")

    def to_connect(self, topic: str, raw: bytes | None) -> SchemaAndValue:
        if raw is None:
            return NOTHING
        schema_id = schema_id_of(raw, topic, "JSON")
        schema = self._schemas.get(schema_id)
        if schema is None:
            found = self.schema_with(schema_id)
            if found.references:
                raise DataException(f"The schema {schema_id} has references, which are not supported")
            schema = connect_of(json.loads(found.text), self._json)
            if len(self._schemas) >= MAX_KEPT:
                self._schemas.clear()
            self._schemas[schema_id] = schema
        try:
            node = json.loads(raw[PREFIX_BYTES:], parse_float=_exact)
        except ValueError as error:
            raise DataException(f"Failed to deserialize data for topic {topic} to JSON: {error}") from error
        return SchemaAndValue(schema, self._json.value_of(schema, node))


def _exact(text: str) -> object:
    from decimal import Decimal

    return Decimal(text)


def _inferred(value: object) -> Schema:
    kind = type_without_schema(value)
    if kind is None or kind in (Type.ARRAY, Type.MAP, Type.STRUCT):
        raise DataException("JsonSchemaConverter needs a schema for lists, maps and structs")
    return Schema(kind, optional=True)


# --- Connect to JSON Schema ---------------------------------------------------------------------------


def json_schema_of(schema: Schema, values: JsonConverter) -> dict[str, Any]:
    node = _plain(schema, values)
    return {"oneOf": [_NULL, node]} if schema.optional else node


def _plain(schema: Schema, values: JsonConverter) -> dict[str, Any]:
    node = _shape(schema, values)
    if schema.name is not None:
        node["title"] = schema.name
    if schema.version is not None:
        node["connect.version"] = schema.version
    if schema.doc is not None:
        node["description"] = schema.doc
    if schema.parameters is not None:
        node["connect.parameters"] = dict(schema.parameters)
    if schema.default is not None:
        node["default"] = values.node_of(schema, schema.default)
    return node


def _shape(schema: Schema, values: JsonConverter) -> dict[str, Any]:
    match schema.type:
        case Type.STRUCT:
            properties = {
                field.name: {**json_schema_of(field.schema, values), "connect.index": field.index}
                for field in schema.fields
            }
            return {"type": "object", "properties": properties}
        case Type.ARRAY:
            assert schema.values is not None
            return {"type": "array", "items": json_schema_of(schema.values, values)}
        case Type.MAP:
            assert schema.keys is not None
            assert schema.values is not None
            inner = json_schema_of(schema.values, values)
            if schema.keys.type is Type.STRING and not schema.keys.optional:
                return {"type": "object", "connect.type": "map", "additionalProperties": inner}
            pair = [json_schema_of(schema.keys, values), inner]
            return {"type": "array", "connect.type": "map", "items": {"type": "array", "items": pair}}
    node: dict[str, Any] = {"type": _KINDS[schema.type]}
    if schema.type not in (Type.STRING, Type.BOOLEAN):
        node["connect.type"] = schema.type.value
        if schema.name is not None and schema.type is not Type.BYTES:
            node["type"] = "integer"
    return node


# --- JSON Schema to Connect ---------------------------------------------------------------------------


def connect_of(document: Any, values: JsonConverter) -> Schema:
    return _Reader(document, values).schema(document, optional=False, depth=0)


class _Reader:
    def __init__(self, document: Any, values: JsonConverter) -> None:
        self._document = document
        self._values = values

    def schema(self, node: Any, optional: bool, depth: int) -> Schema:
        if depth > _DEPTH:
            raise DataException("A schema that contains itself is not supported")
        if not isinstance(node, dict):
            raise DataException("A schema that allows everything has no type in Connect")
        if "$ref" in node:
            return self.schema(self._referred(str(node["$ref"])), optional, depth + 1)
        for word in ("oneOf", "anyOf"):
            if word in node:
                others = [each for each in node[word] if each != _NULL]
                if len(others) != 1:
                    raise DataException(f"{word} other than null and one schema is not supported")
                return self.schema(others[0], optional or len(others) < len(node[word]), depth + 1)
        kinds = node.get("type")
        if isinstance(kinds, list):
            others = [each for each in kinds if each != "null"]
            if len(others) != 1:
                raise DataException(f"The types {kinds} are not supported together")
            return self.schema({**node, "type": others[0]}, optional or "null" in kinds, depth + 1)
        made = self._made(node, optional, depth)
        if "default" not in node:
            return made
        default = self._values.value_of(made, node["default"])
        return self._made(node, optional, depth, default)

    def _referred(self, name: str) -> Any:
        found = self._document
        if not name.startswith("#"):
            raise DataException(f"The reference {name} leads out of the schema")
        for part in filter(None, name.removeprefix("#").split("/")):
            if not isinstance(found, dict) or part not in found:
                raise DataException(f"The schema has no {name}")
            found = found[part]
        return found

    def _made(self, node: dict[str, Any], optional: bool, depth: int, default: object = None) -> Schema:
        options: dict[str, Any] = {
            "optional": optional,
            "name": node.get("title"),
            "version": node.get("connect.version"),
            "doc": node.get("description"),
            "parameters": node.get("connect.parameters"),
            "default": default,
        }
        kind, own = node.get("type"), node.get("connect.type")
        if kind is None and "properties" in node:
            kind = "object"
        if kind == "array":
            items = node.get("items")
            if own == "map" and isinstance(items, dict):
                key, value = (self.schema(each, False, depth + 1) for each in items["items"])
                return map_of(key, value, **options)
            return array(self.schema(items, False, depth + 1), **options)
        if kind == "object":
            return self._object(node, own, options, depth)
        if kind in _TYPES:
            return Schema(Type(own) if own else _TYPES[kind], **options)
        if "enum" in node and all(isinstance(each, str) for each in node["enum"]):
            return Schema(Type.STRING, **options)
        raise DataException(f"The type {kind} of JSON Schema is not supported")

    def _object(self, node: dict[str, Any], own: object, options: dict[str, Any], depth: int) -> Schema:
        properties = node.get("properties")
        inner = node.get("additionalProperties")
        if own == "map" or (not properties and isinstance(inner, dict)):
            return map_of(Schema(Type.STRING), self.schema(inner, False, depth + 1), **options)
        required = node.get("required", [])
        found = []
        pairs = (properties or {}).items()
        for name, each in sorted(pairs, key=lambda pair: _index(pair[1])):
            # Schemas of others say what must be there, ours what may be null.
            missing = "connect.index" not in each and name not in required
            found.append((name, self.schema(each, missing, depth + 1)))
        return Schema(Type.STRUCT, fields=found, **options)


def _index(node: Any) -> int:
    return int(node.get("connect.index", 0)) if isinstance(node, dict) else 0
