"""JSON Schemas to Arrow types and back.

Pure. An object with properties is a struct, one without is a map of its
``additionalProperties``, and what says nothing of its type is the JSON text itself. A schema that contains
itself is a ``SchemaError``.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from moldau.schemas.json_schema.documents import JsonDocuments
from moldau.schemas.limits import InvalidSchema, load_json
from moldau.spark.typed.ddl import parse_ddl
from moldau.spark.typed.shapes import SchemaError

_UTC = pa.timestamp("us", tz="UTC")
_PLAIN = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "string": pa.string(),
    "null": pa.null(),
}
_FORMATS = {"date-time": _UTC, "date": pa.date32()}
_MAX_DEPTH = 48
#: Where the text of JSON is kept as it is; the only type that has this mark.
RAW = pa.string()


def json_type(text: str, uses: Mapping[str, str] | None = None) -> pa.DataType:
    """The type of values: from a JSON Schema, or from Spark's DDL where the text is not JSON."""
    if not text.lstrip().startswith("{") and text.strip() not in ("true", "false"):
        return parse_ddl(text)
    try:
        others = {name: load_json(other) for name, other in (uses or {}).items()}
        documents = JsonDocuments(load_json(text), others)
    except InvalidSchema as error:
        raise SchemaError(f"the JSON Schema cannot be used: {error}") from None
    return _Reader(documents).type(documents.value, ())


class _Reader:
    def __init__(self, documents: JsonDocuments) -> None:
        self._documents = documents

    def type(self, schema: Any, path: tuple[str, ...]) -> pa.DataType:
        if len(path) > _MAX_DEPTH:
            raise SchemaError(f"the JSON Schema is nested more than {_MAX_DEPTH} times")
        if not isinstance(schema, dict):
            return RAW
        if "$ref" in schema:
            reference = str(schema["$ref"])
            if f"ref:{reference}" in path:
                raise SchemaError(
                    f"the JSON Schema {reference} holds itself, and Spark has no type for that: "
                    "give the types that you want as a DDL string instead"
                )
            return self.type(self._referred(schema, reference), (*path, f"ref:{reference}"))
        for several in ("oneOf", "anyOf", "allOf"):
            if several in schema and "type" not in schema:
                return self._several(schema[several], several, path)
        kind = schema.get("type")
        if isinstance(kind, list):
            real = [each for each in kind if each != "null"]
            if sorted(real) == ["integer", "number"]:
                real = ["number"]
            return self.type({**schema, "type": real[0]}, path) if len(real) == 1 else RAW
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, path)
        if kind == "array":
            items = schema.get("items")
            return pa.list_(self.type(items, (*path, "[]")))
        if kind is None and isinstance(schema.get("enum"), list):
            texts = all(isinstance(each, str) or each is None for each in schema["enum"])
            return pa.string() if texts else RAW
        if kind is None:
            return RAW
        if kind not in _PLAIN:
            raise SchemaError(f"the JSON Schema has a type {kind!r}, which there is not")
        if kind == "string":
            if schema.get("contentEncoding") == "base64":
                return pa.binary()
            return _FORMATS.get(str(schema.get("format")), pa.string())
        return _PLAIN[kind]

    def _object(self, schema: dict[str, Any], path: tuple[str, ...]) -> pa.DataType:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            return pa.struct([(name, self.type(each, (*path, name))) for name, each in properties.items()])
        more = schema.get("additionalProperties")
        return pa.map_(pa.string(), self.type(more, (*path, "{}")))

    def _several(self, schemas: Any, word: str, path: tuple[str, ...]) -> pa.DataType:
        given = [each for each in schemas if not (isinstance(each, dict) and each.get("type") == "null")]
        if len(given) == 1:
            return self.type(given[0], path)
        if word == "allOf" and given:
            found = [self.type(each, path) for each in given]
            if all(pa.types.is_struct(each) for each in found):
                return pa.struct({field.name: field.type for each in found for field in each}.items())
        return RAW

    def _referred(self, schema: Any, reference: str) -> Any:
        try:
            return self._documents.resolve(schema, reference)[0]
        except InvalidSchema:
            raise SchemaError(f"the JSON Schema refers to {reference}, which is not there") from None


def json_schema(kind: pa.DataType, title: str) -> dict[str, Any]:
    """The JSON Schema that a column is registered as; every field may be null or absent."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": title, **_schema(kind)}


def _schema(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_struct(kind):
        properties = {field.name: {"oneOf": [{"type": "null"}, _schema(field.type)]} for field in kind}
        # In an open schema, old values may have had a new field with any type: it could never be added.
        return {"type": "object", "properties": properties, "additionalProperties": False}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": "array", "items": {"oneOf": [{"type": "null"}, _schema(kind.value_type)]}}
    if pa.types.is_map(kind):
        values = {"oneOf": [{"type": "null"}, _schema(kind.item_type)]}
        return {"type": "object", "additionalProperties": values}
    if pa.types.is_boolean(kind):
        return {"type": "boolean"}
    if pa.types.is_integer(kind):
        return {"type": "integer"}
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return {"type": "number"}
    if pa.types.is_timestamp(kind):
        return {"type": "string", "format": "date-time"}
    if pa.types.is_date32(kind):
        return {"type": "string", "format": "date"}
    if pa.types.is_binary(kind):
        return {"type": "string", "contentEncoding": "base64"}
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return {"type": "string"}
    raise SchemaError(f"{kind} has no JSON Schema: cast the column to another type")
