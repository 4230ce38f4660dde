"""The notation of the vectors: schemas, values and records as JSON that names the type of everything.

A value is an object with one key, its type; ``[1]`` of 32-bit numbers is ``{"list": [{"int32": 1}]}``.
"""

import base64
from collections.abc import Callable
from decimal import Decimal
from typing import Any, ClassVar

from moldau.connect.data.numbers import float_text, parse_double, parse_float
from moldau.connect.data.schema import DECIMAL, Schema, Struct
from moldau.connect.data.types import (
    BigInteger,
    Float32,
    Float64,
    Instant,
    Int8,
    Int16,
    Int32,
    Int64,
    Type,
)
from moldau.connect.records import ConnectRecord, Header, SinkRecord, SourceRecord


class ListOfVector(list[object]):
    """The list that the vectors were made with, which messages name."""

    java_class: ClassVar[str] = "java.util.Arrays$ArrayList"


class MapOfVector(dict[object, object]):
    java_class: ClassVar[str] = "java.util.LinkedHashMap"


class Opaque:
    """A value of a Java class that Connect does not know."""

    def __init__(self, java_class: str, text: str) -> None:
        self.java_class = java_class
        self._text = text

    def __str__(self) -> str:
        return self._text


# --- schemas ----------------------------------------------------------------------------------------


def schema_of(node: dict[str, Any] | None) -> Schema | None:
    if node is None:
        return None
    fields = [(field["name"], known(field["schema"])) for field in node.get("fields", ())]
    options: dict[str, Any] = {
        "optional": node["optional"],
        **{name: node[name] for name in ("name", "version", "doc", "parameters") if name in node},
    }
    inner = {
        "fields": fields,
        "keys": schema_of(node.get("keys")),
        "values": schema_of(node.get("items", node.get("values"))),
    }
    plain = Schema(Type[node["type"]], **inner, **options)
    if "default" not in node:
        return plain
    return Schema(Type[node["type"]], default=value_of(node["default"], plain), **inner, **options)


def known(node: dict[str, Any]) -> Schema:
    schema = schema_of(node)
    assert schema is not None
    return schema


def schema_node(schema: Schema | None) -> dict[str, Any] | None:
    if schema is None:
        return None
    node: dict[str, Any] = {"type": schema.type.name, "optional": schema.optional}
    for name in ("name", "version", "doc", "parameters"):
        if getattr(schema, name) is not None:
            node[name] = getattr(schema, name)
    if schema.default is not None:
        node["default"] = value_node(schema.default)
    if schema.type is Type.STRUCT:
        node["fields"] = [
            {"name": field.name, "schema": schema_node(field.schema)} for field in schema.fields
        ]
    if schema.type is Type.ARRAY:
        node["items"] = schema_node(schema.values)
    if schema.type is Type.MAP:
        node["keys"], node["values"] = schema_node(schema.keys), schema_node(schema.values)
    return node


# --- values -----------------------------------------------------------------------------------------

SINGLE: dict[str, Callable[[Any], object]] = {
    "boolean": bool,
    "int8": Int8,
    "int16": Int16,
    "int32": Int32,
    "int64": Int64,
    "float32": parse_float,
    "float64": lambda text: Float64(parse_double(text)),
    "string": str,
    "bytes": base64.b64decode,
    "bytebuffer": lambda text: memoryview(base64.b64decode(text)),
    "bigint": lambda text: BigInteger(text),
    "date_ms": Instant,
}


def value_of(node: dict[str, Any] | None, schema: Schema | None) -> object:
    """The value of a node; the schema tells which struct it is, and the scale of a decimal."""
    if node is None:
        return None
    ((kind, content),) = node.items()
    if kind in SINGLE:
        return SINGLE[kind](content)
    if kind == "decimal":
        return decimal_of(content, schema)
    if kind == "list":
        items = schema.values if schema is not None and schema.type is Type.ARRAY else None
        return ListOfVector(value_of(item, items) for item in content)
    if kind == "map":
        keys, values = (
            (schema.keys, schema.values) if schema is not None and schema.type is Type.MAP else (None, None)
        )
        return MapOfVector((value_of(key, keys), value_of(item, values)) for key, item in content)
    if kind == "struct":
        return struct_of(content, schema)
    return Opaque(kind.removeprefix("java:"), str(content))


def struct_of(content: dict[str, Any], schema: Schema | None) -> Struct:
    assert schema is not None
    struct = Struct(schema)
    for field in schema.fields:
        struct.set_unchecked(field, value_of(content.get(field.name), field.schema))
    return struct


def decimal_of(text: str, schema: Schema | None) -> Decimal:
    """The notation writes 5E+2 as 500; a schema with a scale below zero tells them apart."""
    number = Decimal(text)
    if schema is not None and schema.name == DECIMAL and schema.parameters:
        scale = int(schema.parameters["scale"])
        if scale < 0:
            return number.scaleb(scale).quantize(Decimal(1)).scaleb(-scale)
    return number


def value_node(value: object) -> dict[str, Any] | None:
    if value is None:
        return None
    for kind, name in (
        (bool, "boolean"),
        (Int8, "int8"),
        (Int16, "int16"),
        (Int32, "int32"),
        (BigInteger, "bigint"),
        (int, "int64"),
        (str, "string"),
    ):
        if isinstance(value, kind):
            return {name: str(int(value)) if kind is BigInteger else kind(value)}
    if isinstance(value, float):
        return {"float32" if isinstance(value, Float32) else "float64": float_text(value)}
    if isinstance(value, bytes | bytearray):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, memoryview):
        return {"bytebuffer": base64.b64encode(value).decode()}
    if isinstance(value, Decimal):
        return {"decimal": format(value, "f")}
    if isinstance(value, Instant):
        return {"date_ms": value.epoch_ms}
    if isinstance(value, Struct):
        return {"struct": {field.name: value_node(item) for field, item in value.items()}}
    if isinstance(value, dict):
        return {"map": [[value_node(key), value_node(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [value_node(item) for item in value]}
    assert isinstance(value, Opaque)
    return {f"java:{value.java_class}": str(value)}


# --- records ----------------------------------------------------------------------------------------


def record_of(node: dict[str, Any], kind: str) -> ConnectRecord:
    key_schema, value_schema = schema_of(node["keySchema"]), schema_of(node["valueSchema"])
    common: dict[str, Any] = {
        "topic": node["topic"],
        "partition": node.get("partition"),
        "timestamp": node.get("timestamp"),
        "key_schema": key_schema,
        "key": value_of(node["key"], key_schema),
        "value_schema": value_schema,
        "value": value_of(node["value"], value_schema),
        "headers": tuple(header_of(header) for header in node["headers"]),
    }
    return SinkRecord(offset=node["offset"], **common) if kind == "sink" else SourceRecord(**common)


def header_of(node: dict[str, Any]) -> Header:
    schema = schema_of(node["schema"])
    return Header(node["key"], schema, value_of(node["value"], schema))


def record_node(record: ConnectRecord) -> dict[str, Any]:
    node: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "timestamp": record.timestamp,
        "keySchema": schema_node(record.key_schema),
        "key": value_node(record.key),
        "valueSchema": schema_node(record.value_schema),
        "value": value_node(record.value),
        "headers": [
            {"key": header.key, "schema": schema_node(header.schema), "value": value_node(header.value)}
            for header in record.headers
        ],
    }
    if isinstance(record, SinkRecord):
        node["offset"] = record.offset
    return node


def without_order(node: Any) -> Any:
    """The node with the entries of maps sorted, so that two of them compare without order."""
    if isinstance(node, dict):
        if node.keys() == {"map"} and isinstance(node["map"], list):
            entries = [without_order(entry) for entry in node["map"]]
            return {"map": sorted(entries, key=repr)}
        return {name: without_order(item) for name, item in node.items()}
    return [without_order(item) for item in node] if isinstance(node, list) else node
