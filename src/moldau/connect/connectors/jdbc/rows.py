"""A record as a row: which columns it has, which of them are the key, and whether the row goes.

Invariant: pure; what is no row is a DataException.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moldau.connect.connectors.jdbc.dialect import Dialect
from moldau.connect.data.schema import Schema, Struct
from moldau.connect.data.types import Type, type_without_schema
from moldau.connect.errors import DataException
from moldau.connect.records import SinkRecord

_KAFKA = ("__connect_topic", "__connect_partition", "__connect_offset")


@dataclass(frozen=True, slots=True)
class RowRules:
    key_mode: str
    key_fields: tuple[str, ...]
    fields: frozenset[str]
    deletes: bool

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "RowRules":
        return cls(
            settings["pk.mode"],
            tuple(settings["pk.fields"]),
            frozenset(settings["fields.whitelist"]),
            settings["delete.enabled"],
        )


@dataclass(frozen=True, slots=True)
class Row:
    """Names, schemas and values of columns; a row to delete has its key only."""

    keys: tuple[str, ...]
    names: tuple[str, ...]
    schemas: tuple[Schema, ...]
    values: tuple[object, ...]
    deleted: bool = False

    @property
    def others(self) -> tuple[str, ...]:
        return self.names[len(self.keys) :]


def row_of(record: SinkRecord, rules: RowRules, dialect: Dialect) -> Row:
    deleted = record.value is None
    if deleted and not rules.deletes:
        raise DataException(
            "A tombstone is no row. Next: delete.enabled=true with pk.mode=record_key, or a transform that "
            "drops tombstones"
        )
    fields = {} if deleted else _fields(record.value_schema, record.value, "value")
    keys = _keys(record, rules, fields)
    if deleted:
        chosen = keys
    else:
        wanted = {
            name: each
            for name, each in fields.items()
            if name not in keys and (not rules.fields or name in rules.fields)
        }
        chosen = {**keys, **wanted}
    if not chosen:
        raise DataException("The record has no fields to write")
    return Row(
        tuple(keys),
        tuple(chosen),
        tuple(schema for schema, _ in chosen.values()),
        tuple(dialect.written(schema, value) for schema, value in chosen.values()),
        deleted,
    )


_Fields = dict[str, tuple[Schema, object]]


def _fields(schema: Schema | None, value: object, what: str) -> _Fields:
    if isinstance(value, Struct):
        return {field.name: (field.schema, value.get(field.name)) for field in value.schema.fields}
    if isinstance(value, dict) and schema is None:
        return {str(name): (_guessed(item), item) for name, item in value.items()}
    raise DataException(
        f"The {what} of a record has to be a struct or a JSON object to become columns. "
        f"Next: a converter that gives one, or HoistField${what.capitalize()}"
    )


def _guessed(value: object) -> Schema:
    """JSON has no schema: whole numbers are bigint, others double, nested things JSON, all may be null."""
    kind = Type.STRING if value is None else type_without_schema(value)
    return Schema(
        kind if kind not in (None, Type.STRUCT, Type.ARRAY, Type.MAP) else Type.STRING, optional=True
    )


def _keys(record: SinkRecord, rules: RowRules, fields: _Fields) -> _Fields:
    match rules.key_mode:
        case "none":
            return {}
        case "kafka":
            names = rules.key_fields or _KAFKA
            values: list[tuple[Type, object]] = [
                (Type.STRING, record.topic),
                (Type.INT32, record.partition),
                (Type.INT64, record.offset),
            ]
            pairs = zip(names, values, strict=True)
            return {name: (Schema(kind), value) for name, (kind, value) in pairs}
        case "record_value":
            return _chosen(fields, rules.key_fields or tuple(fields), "value")
    if record.key is None:
        raise DataException("The record has no key, and pk.mode is record_key")
    if isinstance(record.key, Struct | dict):
        found = _fields(record.key_schema, record.key, "key")
        return _chosen(found, rules.key_fields or tuple(found), "key")
    if len(rules.key_fields) != 1:
        raise DataException("A key that is a single value needs one name in pk.fields")
    schema = record.key_schema or Schema(type_without_schema(record.key) or Type.STRING)
    return {rules.key_fields[0]: (schema, record.key)}


def _chosen(fields: _Fields, names: tuple[str, ...], what: str) -> _Fields:
    missing = [name for name in names if name not in fields]
    if missing:
        raise DataException(f"The {what} has no field {missing[0]}, which pk.fields names")
    return {name: fields[name] for name in names}
