"""Schemas of what a query writes, for a registry: Avro and JSON Schema, with the columns' own names.

Invariant: every column may be NULL, as in SQL.
"""

from collections.abc import Sequence
from typing import Any

from moldau.sql.errors import SqlError
from moldau.sql.statements import ColumnDefinition
from moldau.sql.types import SqlType

_AVRO: dict[str, Any] = {
    "BOOLEAN": "boolean",
    "INTEGER": "int",
    "BIGINT": "long",
    "DOUBLE": "double",
    "STRING": "string",
    "BYTES": "bytes",
    "TIMESTAMP": {"type": "long", "logicalType": "timestamp-millis"},
    "DATE": {"type": "int", "logicalType": "date"},
    "TIME": {"type": "int", "logicalType": "time-millis"},
}
_PROTOBUF = {
    "BOOLEAN": "bool",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "DOUBLE": "double",
    "STRING": "string",
    "BYTES": "bytes",
}
_JSON = {
    "BOOLEAN": "boolean",
    "INTEGER": "integer",
    "BIGINT": "integer",
    "DOUBLE": "number",
    "DECIMAL": "number",
    "STRING": "string",
    "BYTES": "string",
    "TIMESTAMP": "integer",
    "DATE": "string",
    "TIME": "string",
}


def avro_schema(columns: Sequence[ColumnDefinition], name: str) -> dict[str, Any]:
    record = "".join(c if c.isalnum() else "_" for c in name) or "Row"
    return {
        "type": "record",
        "name": f"{record}Value",
        "namespace": "moldau.sql",
        "fields": [_avro_field(each.name, each.type, f"{record}_{each.name}") for each in columns],
    }


def _avro_field(name: str, kind: SqlType, path: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", _avro(kind, path)], "default": None}


def _avro(kind: SqlType, path: str) -> Any:
    match kind.name:
        case "DECIMAL":
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": kind.precision,
                "scale": kind.scale,
            }
        case "ARRAY":
            return {"type": "array", "items": ["null", _avro(kind.parts[0], f"{path}_item")]}
        case "MAP":
            return {"type": "map", "values": ["null", _avro(kind.parts[1], f"{path}_value")]}
        case "STRUCT":
            pairs = zip(kind.fields, kind.parts, strict=True)
            return {
                "type": "record",
                "name": path,
                "fields": [_avro_field(name, part, f"{path}_{name}") for name, part in pairs],
            }
    if kind.name not in _AVRO:
        raise SqlError(f"Avro has no {kind}.")
    return _AVRO[kind.name]


def json_schema(columns: Sequence[ColumnDefinition], name: str) -> dict[str, Any]:
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": name,
        "type": "object",
        "properties": {each.name: _json(each.type) for each in columns},
    }


def _json(kind: SqlType) -> dict[str, Any]:
    match kind.name:
        case "ARRAY":
            return {"type": ["array", "null"], "items": _json(kind.parts[0])}
        case "MAP":
            return {"type": ["object", "null"], "additionalProperties": _json(kind.parts[1])}
        case "STRUCT":
            pairs = zip(kind.fields, kind.parts, strict=True)
            return {"type": ["object", "null"], "properties": {name: _json(part) for name, part in pairs}}
    # NaN, and digits that a number of JSON does not keep, are texts.
    also = ["string"] if kind.name in ("DOUBLE", "DECIMAL") else []
    return {"type": [_JSON[kind.name], *also, "null"]}


def protobuf_schema(columns: Sequence[ColumnDefinition], name: str) -> str:
    """A .proto file whose one message has the columns; NULL is a field that is not there."""
    record = "".join(c if c.isalnum() else "_" for c in name) or "Row"
    lines = ['syntax = "proto3";', "package moldau.sql;", f"message {record}Value {{"]
    lines += _protobuf_fields([(each.name, each.type) for each in columns], "  ")
    return "\n".join([*lines, "}", ""])


def _protobuf_fields(fields: Sequence[tuple[str, SqlType]], indent: str) -> list[str]:
    lines: list[str] = []
    for number, (name, kind) in enumerate(fields, 1):
        if kind.name == "ARRAY":
            rule, inner = "repeated ", kind.parts[0]
        elif kind.name == "MAP":
            rule, inner = "", kind.parts[1]
        else:
            rule, inner = "optional ", kind
        written = _PROTOBUF.get(inner.name)
        if inner.name == "STRUCT":
            written = f"{name}_Struct"
            parts = list(zip(inner.fields, inner.parts, strict=True))
            lines += [f"{indent}message {written} {{", *_protobuf_fields(parts, indent + "  "), f"{indent}}}"]
        if written is None:
            raise SqlError(f"PROTOBUF has no {kind} here; use STRING, or another format.")
        if kind.name == "MAP":
            written = f"map<string, {written}>"
        lines.append(f"{indent}{rule}{written} {name} = {number};")
    return lines
