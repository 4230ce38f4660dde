"""Arrow columns to Protobuf values, and an Arrow type to the .proto text that it is registered as.

Invariant: a null field is one that is not set. A field keeps the number that it had in the version before;
a new one gets a higher number than any there. What Protobuf has no type for is a ``SchemaError`` that names
the column.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pyarrow as pa

from moldau.schemas.protobuf import descriptors
from moldau.schemas.protobuf.descriptors import message_class
from moldau.schemas.schema_id import write_indexes
from moldau.spark.typed.protobuf.schema import message_descriptor
from moldau.spark.typed.registry import SchemaText
from moldau.spark.typed.shapes import SchemaError

Convert: TypeAlias = Callable[[Any], Any]
_TIMESTAMP = "google.protobuf.Timestamp"
_PLAIN = {
    pa.bool_(): "bool",
    pa.int8(): "int32",
    pa.int16(): "int32",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "bytes",
    pa.large_binary(): "bytes",
}
#: Protobuf keeps these numbers for itself.
_KEPT_NUMBERS = range(19_000, 20_000)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def message_indexes(schema: SchemaText, message: str | None) -> bytes:
    """Where the message is in its file, as it is written before each value."""
    return write_indexes(descriptors.message_indexes(message_descriptor(schema, message)))


# Schemas.


def proto_text(kind: pa.DataType, name: str, before: SchemaText | None = None) -> str:
    """The .proto file of a struct; numbers, and the name, are those of the version before."""
    if not pa.types.is_struct(kind):
        raise SchemaError(f"it is {kind}, and a Protobuf value is a message: make it a struct")
    known = message_descriptor(before, None) if before is not None else None
    lines = ['syntax = "proto3";']
    if known is not None and known.file.package:
        lines.append(f"package {known.file.package};")
    body = _message(kind, known.name if known is not None else name, known, "")
    if any(_TIMESTAMP in line for line in body):
        lines.append('import "google/protobuf/timestamp.proto";')
    return "\n".join([*lines, "", *body, ""])


def _message(kind: pa.DataType, name: str, known: Any, indent: str) -> list[str]:
    numbers = {field.name: field.number for field in known.fields} if known is not None else {}
    after = max(numbers.values(), default=0) + 1
    lines = [f"{indent}message {name} {{"]
    for field in kind:
        number = numbers.get(field.name)
        if number is None:
            while after in _KEPT_NUMBERS:
                after += 1
            number, after = after, after + 1
        below = known.fields_by_name.get(field.name) if known is not None else None
        nested, text = _field(field, below, indent + "  ")
        lines += [*nested, f"{indent}  {text} {field.name} = {number};"]
    return [*lines, indent + "}"]


def _field(field: pa.Field, known: Any, indent: str) -> tuple[list[str], str]:
    """The messages that a field needs, and its type."""
    kind = field.type
    below = known.message_type if known is not None else None
    if pa.types.is_map(kind):
        if below is not None:
            below = below.fields_by_name["value"].message_type if below.GetOptions().map_entry else None
        if not (pa.types.is_string(kind.key_type) or pa.types.is_integer(kind.key_type)):
            raise SchemaError(f"{field.name} is {kind}: the keys of a Protobuf map are text or whole numbers")
        nested, item = _single(field.name, kind.item_type, below, indent)
        return nested, f"map<{_PLAIN[kind.key_type]}, {item}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        nested, item = _single(field.name, kind.value_type, below, indent)
        return nested, f"repeated {item}"
    nested, text = _single(field.name, kind, below, indent)
    return nested, text if pa.types.is_nested(kind) or text == _TIMESTAMP else f"optional {text}"


def _single(name: str, kind: pa.DataType, known: Any, indent: str) -> tuple[list[str], str]:
    if pa.types.is_struct(kind):
        message = known.name if known is not None else "".join(p.capitalize() for p in name.split("_"))
        return _message(kind, message, known, indent), message
    if pa.types.is_timestamp(kind):
        return [], _TIMESTAMP
    if kind not in _PLAIN:
        raise SchemaError(f"{name} is {kind}, which Protobuf has no type for: cast the column to another")
    return [], _PLAIN[kind]


# Values.


class ProtobufEncoder:
    """Writes columns as one message, each value behind ``header``."""

    def __init__(self, schema: SchemaText, message: str | None, column: pa.DataType, header: bytes) -> None:
        descriptor = message_descriptor(schema, message)
        self._class = message_class(descriptor)
        self._header = header
        self._convert = _converter(descriptor, column, "")

    def encode(self, column: pa.Array) -> pa.Array:
        made: list[bytes | None] = []
        for row in column.to_pylist():
            if row is None:
                made.append(None)
                continue
            try:
                value = self._class(**self._convert(row))
            except (TypeError, ValueError) as error:
                raise SchemaError(f"a row does not fit {self._class.DESCRIPTOR.full_name}: {error}") from None
            made.append(self._header + value.SerializeToString())
        return pa.array(made, pa.binary())


def _converter(descriptor: Any, kind: pa.DataType, path: str) -> Convert:
    """How a row becomes what the message's class takes: fields that are null are left out."""
    name = descriptor.full_name
    if name == _TIMESTAMP:
        if not pa.types.is_timestamp(kind):
            raise SchemaError(f"{path} is {kind}, and the schema has a {name}")
        return _timestamp
    if not pa.types.is_struct(kind):
        raise SchemaError(f"{path or 'the value'} is {kind}, and the schema has the message {name}")
    parts: list[tuple[str, Convert]] = []
    for field in kind:
        place = f"{path}.{field.name}" if path else field.name
        known = descriptor.fields_by_name.get(field.name)
        if known is None:
            raise SchemaError(f"{place}: the message {name} has no such field")
        parts.append((field.name, _field_converter(known, field.type, place)))

    def convert(row: dict[str, Any]) -> dict[str, Any]:
        return {name: change(row[name]) for name, change in parts if row[name] is not None}

    return convert


def _field_converter(known: Any, kind: pa.DataType, path: str) -> Convert:
    entry = known.message_type is not None and known.message_type.GetOptions().map_entry
    if entry != pa.types.is_map(kind) or (not entry and known.is_repeated != pa.types.is_list(kind)):
        raise SchemaError(f"{path} is {kind}, and the schema has another kind of field")
    if entry:
        item = _single_converter(known.message_type.fields_by_name["value"], kind.item_type, path)
        return lambda pairs: {key: item(value) for key, value in pairs}
    if known.is_repeated:
        one = _single_converter(known, kind.value_type, path)
        return lambda items: [one(each) for each in items]
    return _single_converter(known, kind, path)


def _single_converter(known: Any, kind: pa.DataType, path: str) -> Convert:
    if known.message_type is not None:
        return _converter(known.message_type, kind, path)
    return _same


def _timestamp(value: datetime) -> dict[str, int]:
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    passed = aware - _EPOCH
    return {"seconds": passed.days * 86_400 + passed.seconds, "nanos": passed.microseconds * 1000}


def _same(value: Any) -> Any:
    return value
