"""Keys and values of topics: from bytes to columns and back, by VALUE_FORMAT and KEY_FORMAT.

Invariant: a serde has ``serialize(topic, value)`` and ``deserialize(topic, data)``. A value is a dict by
column; a key is one value, or a tuple where it has several columns. What cannot be read is a SerdeError.
"""

import base64
import csv
import io
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from moldau.serde import plain
from moldau.serde.plain import PlainSerde
from moldau.sql.errors import SqlError
from moldau.sql.statements import ColumnDefinition
from moldau.sql.types import SqlType, caster, to_json

FORMATS = ("JSON", "JSON_SR", "AVRO", "PROTOBUF", "KAFKA", "DELIMITED", "NONE")

#: Formats of values whose schemas are in a registry.
WITH_SCHEMAS = ("AVRO", "JSON_SR", "PROTOBUF")

Columns = Sequence[ColumnDefinition]

_KAFKA = {
    "INTEGER": plain.INTEGER,
    "BIGINT": plain.LONG,
    "DOUBLE": plain.DOUBLE,
    "STRING": plain.STRING,
    "BYTES": plain.BYTES,
}


def check_format(name: str) -> str:
    if name.upper() not in FORMATS:
        raise SqlError(f"{name} is not a format; there are {', '.join(FORMATS)}.")
    return name.upper()


def value_serde(form: str, columns: Columns, registry: Any = None, name: str = "") -> Any:
    """The serde of values with these columns."""
    reader = _reader(columns)
    match form:
        case "JSON":
            return PlainSerde(
                "JSON", lambda row: _json(_outward(row, columns)), lambda data: reader(json.loads(data))
            )
        case "DELIMITED":
            return PlainSerde(
                "DELIMITED", lambda row: _line(row, columns), lambda data: _fields(data, columns)
            )
        case "KAFKA":
            if len(columns) != 1:
                raise SqlError("VALUE_FORMAT KAFKA has one column.")
            inner, only = _kafka(columns[0].type), columns[0].name
            return PlainSerde(
                "KAFKA",
                lambda row: inner.serialize("", row[only]) or b"",
                lambda data: {only: inner.deserialize("", data)},
            )
        case "AVRO" | "JSON_SR" | "PROTOBUF":
            return _RegistryValues(form, columns, registry, name)
        case "NONE":
            return PlainSerde("NONE", lambda row: b"", lambda data: {})
    raise SqlError(f"{form} is not a format of values.")


def key_serde(form: str, columns: Columns, registry: Any = None) -> Any:
    """The serde of keys; None for sources without a key."""
    if not columns:
        return plain.BYTES
    casts = [caster(each.type) for each in columns]
    if form == "JSON":
        if len(columns) == 1:
            cast = casts[0]
            return PlainSerde("JSON", lambda key: _json(to_json(key)), lambda data: cast(json.loads(data)))
        return PlainSerde(
            "JSON",
            lambda key: _json({c.name: to_json(v) for c, v in zip(columns, key, strict=True)}),
            lambda data: tuple(_reader(columns)(json.loads(data))[each.name] for each in columns),
        )
    if form == "DELIMITED":
        return PlainSerde(
            "DELIMITED",
            lambda key: _line(
                dict(zip((c.name for c in columns), _as_tuple(key, columns), strict=True)), columns
            ),
            lambda data: _only(tuple(_fields(data, columns).values())),
        )
    if form == "KAFKA" and len(columns) == 1:
        return _kafka(columns[0].type)
    raise SqlError(
        f"KEY_FORMAT {form} cannot hold {len(columns)} columns here; use KEY_FORMAT = 'JSON' (or DELIMITED)."
    )


def row_serde(columns: Columns) -> PlainSerde:
    """Rows between the parts of one query; nobody else reads them."""
    return value_serde("JSON", columns)  # type: ignore[no-any-return]


def _as_tuple(key: Any, columns: Columns) -> tuple[Any, ...]:
    return key if len(columns) > 1 else (key,)


def _only(key: tuple[Any, ...]) -> Any:
    return key if len(key) > 1 else key[0]


def _kafka(kind: SqlType) -> PlainSerde:
    if kind.name not in _KAFKA:
        raise SqlError(f"The format KAFKA has no {kind}; use JSON.")
    return _KAFKA[kind.name]


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _outward(row: dict[str, Any], columns: Columns) -> dict[str, Any]:
    return {each.name: to_json(row.get(each.name)) for each in columns}


def _reader(columns: Columns) -> Callable[[Any], dict[str, Any]]:
    """Columns of a JSON object, whose names may be in another case, as ksqlDB takes them."""
    casts = [(each.name, caster(each.type)) for each in columns]

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            if len(casts) == 1:  # a value that stands alone
                return {casts[0][0]: casts[0][1](value)}
            raise ValueError("a JSON object is expected")
        folded: dict[str, Any] | None = None
        row = {}
        for name, cast in casts:
            if name in value:
                row[name] = cast(value[name])
                continue
            if folded is None:
                folded = {str(key).upper(): each for key, each in value.items()}
            row[name] = cast(folded.get(name.upper()))
        return row

    return read


def _line(row: dict[str, Any], columns: Columns) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="")
    writer.writerow(["" if row.get(each.name) is None else to_json(row[each.name]) for each in columns])
    return text.getvalue().encode()


def _fields(data: bytes, columns: Columns) -> dict[str, Any]:
    found = next(csv.reader([data.decode()]), [])
    if len(found) != len(columns):
        raise ValueError(f"{len(found)} fields where {len(columns)} are expected")
    return {
        each.name: None if text == "" else caster(each.type)(text)
        for each, text in zip(columns, found, strict=True)
    }


class _RegistryValues:
    """Avro, Protobuf or JSON Schema by a registry; the schema of what is written comes from the columns."""

    def __init__(self, form: str, columns: Columns, registry: Any, name: str) -> None:
        if registry is None:
            raise SqlError(f"VALUE_FORMAT {form} needs a schema registry: --schema-registry URL.")
        from moldau.sql.schemas import avro_schema, json_schema, protobuf_schema
        from moldau.streams.serdes import Serdes

        if form == "AVRO":
            self._inner = Serdes.avro(registry, json.dumps(avro_schema(columns, name)))
        elif form == "PROTOBUF":
            self._inner = Serdes.protobuf_rows(registry, protobuf_schema(columns, name))
        else:
            self._inner = Serdes.json_schema(registry, json.dumps(json_schema(columns, name)))
        self._form = form
        self._columns = columns
        self._read = _reader(columns)

    def serialize(self, topic: str, row: dict[str, Any] | None) -> bytes | None:
        if row is None:
            return None
        if self._form == "AVRO":
            return self._inner.serialize(topic, {each.name: row.get(each.name) for each in self._columns})
        given = _outward(row, self._columns)
        if self._form == "PROTOBUF":  # a field that is not there is NULL
            given = _without_null(given)
        return self._inner.serialize(topic, given)

    def deserialize(self, topic: str, data: bytes | None) -> dict[str, Any] | None:
        value = self._inner.deserialize(topic, data)
        return None if value is None else self._read(value)


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_null(each) for name, each in value.items() if each is not None}
    return [_without_null(each) for each in value] if isinstance(value, list) else value


class StateSerde:
    """States of aggregates: plain data with the few types that JSON lacks."""

    def serialize(self, topic: str, state: Any) -> bytes | None:
        return None if state is None else _json(_tagged(state))

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return None if data is None else _untagged(json.loads(data))


def _tagged(value: Any) -> Any:
    if isinstance(value, dict):
        return {"$m": [[_tagged(key), _tagged(each)] for key, each in value.items()]}
    if isinstance(value, list | tuple):
        return [_tagged(each) for each in value]
    if isinstance(value, Decimal):
        return {"$d": str(value)}
    if isinstance(value, datetime):
        return {"$t": value.isoformat()}
    if isinstance(value, bytes):
        return {"$b": base64.b64encode(value).decode()}
    return value


def _untagged(value: Any) -> Any:
    if isinstance(value, list):
        return [_untagged(each) for each in value]
    if not isinstance(value, dict):
        return value
    ((tag, inner),) = value.items()
    match tag:
        case "$m":
            return {_untagged(key): _untagged(each) for key, each in inner}
        case "$d":
            return Decimal(inner)
        case "$t":
            return datetime.fromisoformat(inner)
    return base64.b64decode(inner)
