"""ProtobufConverter: structs as messages in Confluent's wire format, with their schemas in a registry.

Fields are numbered in their order; those that may be null are ``optional``. Messages of others are read as
they are: enums are texts, unsigned numbers the next larger ones, wrappers and ``Timestamp`` what they hold.

Invariant: what Protobuf cannot carry (decimals, nulls in lists, values that are no struct) is a
DataException.
"""

import datetime
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from moldau.connect.config.definition import Settings
from moldau.connect.converters.registered import MAX_KEPT, PREFIX_BYTES, RegistryConverter, schema_id_of
from moldau.connect.data.schema import (
    DATE,
    DECIMAL,
    NOTHING,
    TIME,
    TIMESTAMP,
    Schema,
    SchemaAndValue,
    Struct,
    array,
    map_of,
    struct,
    timestamp,
)
from moldau.connect.data.types import EXACT, Instant, Int64, Type
from moldau.connect.errors import DataException
from moldau.schemas.protobuf import descriptors
from moldau.schemas.protobuf.text import proto_text
from moldau.schemas.schema_id import InvalidFrame, SchemaRef, id_prefix, read_indexes, write_indexes
from moldau.serde.errors import SerdeError
from moldau.serde.protobuf import file_of, message_at

_FIELD = descriptor_pb2.FieldDescriptorProto
_NUMBERS = {
    Type.INT8: _FIELD.TYPE_INT32,
    Type.INT16: _FIELD.TYPE_INT32,
    Type.INT32: _FIELD.TYPE_INT32,
    Type.INT64: _FIELD.TYPE_INT64,
    Type.FLOAT32: _FIELD.TYPE_FLOAT,
    Type.FLOAT64: _FIELD.TYPE_DOUBLE,
    Type.BOOLEAN: _FIELD.TYPE_BOOL,
    Type.STRING: _FIELD.TYPE_STRING,
    Type.BYTES: _FIELD.TYPE_BYTES,
}
_TYPES = {
    _FIELD.TYPE_INT32: Type.INT32,
    _FIELD.TYPE_SINT32: Type.INT32,
    _FIELD.TYPE_SFIXED32: Type.INT32,
    _FIELD.TYPE_UINT32: Type.INT64,
    _FIELD.TYPE_FIXED32: Type.INT64,
    _FIELD.TYPE_INT64: Type.INT64,
    _FIELD.TYPE_SINT64: Type.INT64,
    _FIELD.TYPE_SFIXED64: Type.INT64,
    _FIELD.TYPE_UINT64: Type.INT64,
    _FIELD.TYPE_FIXED64: Type.INT64,
    _FIELD.TYPE_FLOAT: Type.FLOAT32,
    _FIELD.TYPE_DOUBLE: Type.FLOAT64,
    _FIELD.TYPE_BOOL: Type.BOOLEAN,
    _FIELD.TYPE_STRING: Type.STRING,
    _FIELD.TYPE_BYTES: Type.BYTES,
}
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPER = re.compile(r"google\.protobuf\.(\w+)Value\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DEPTH = 50


class _Writer(NamedTuple):
    prefix: bytes
    made: Any


class _Reader(NamedTuple):
    schema: Schema
    made: Any
    read: Callable[[Any], object]


class ProtobufConverter(RegistryConverter):
    schema_type = "PROTOBUF"

    def configure(self, settings: Settings) -> None:
        super().configure(settings)
        self._writers: dict[tuple[str, Schema], _Writer] = {}
        self._readers: dict[tuple[int, tuple[int, ...]], _Reader] = {}

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, Struct):
            raise DataException("ProtobufConverter needs a struct with a schema. Next: HoistField")
        wanted = value.schema
        writer = self._writers.get((topic, wanted))
        if writer is None:
            file = file_for(wanted)
            made = descriptors.message_class(descriptors.message_at(descriptors.file_in_pool([file]), (0,)))
            prefix = id_prefix(self.registered_id(topic, proto_text(file))) + write_indexes((0,))
            writer = _Writer(prefix, made)
            if len(self._writers) >= MAX_KEPT:
                self._writers.clear()
            self._writers[topic, wanted] = writer
        message = writer.made()
        _fill(message, value)
        return writer.prefix + bytes(message.SerializeToString())

    def to_connect(self, topic: str, raw: bytes | None) -> SchemaAndValue:
        if raw is None:
            return NOTHING
        schema_id = schema_id_of(raw, topic, "Protobuf")
        try:
            indexes, start = read_indexes(bytes(raw), PREFIX_BYTES)
            reader = self._readers.get((schema_id, indexes)) or self._prepared(schema_id, indexes)
            message = reader.made.FromString(bytes(raw[start:]))
        except (DecodeError, SerdeError, InvalidFrame, ValueError) as error:
            raise DataException(
                f"Failed to deserialize data for topic {topic} to Protobuf: {error}"
            ) from error
        return SchemaAndValue(reader.schema, reader.read(message))

    def _prepared(self, schema_id: int, indexes: tuple[int, ...]) -> _Reader:
        found = self.schema_with(schema_id)
        file = self.asked(lambda: file_of(self.registry, found, SchemaRef(schema_id=schema_id)))
        descriptor = message_at(file, indexes)
        schema, read = _message(descriptor, optional=False, depth=0)
        reader = _Reader(schema, descriptors.message_class(descriptor), read)
        if len(self._readers) >= MAX_KEPT:
            self._readers.clear()
        self._readers[schema_id, indexes] = reader
        return reader


# --- Connect to Protobuf ------------------------------------------------------------------------------


def file_for(schema: Schema) -> Any:
    """The file of a struct's message, named as the struct."""
    package, _, name = (schema.name or "ConnectDefault1").rpartition(".")
    parts = [*filter(None, package.split(".")), name]
    if not all(_NAME.match(part) for part in parts):
        raise DataException(f"{schema.name} is no name of a message. Next: SetSchemaMetadata")
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=package, syntax="proto3")
    _declare(file.message_type.add(), name, schema, file, f".{package}" if package else "")
    return file


def _declare(message: Any, name: str, schema: Schema, file: Any, scope: str) -> None:
    message.name = name
    for field in schema.fields:
        if not _NAME.match(field.name):
            raise DataException(f"{field.name} is no name of a field in Protobuf. Next: ReplaceField")
        made = message.field.add(name=field.name, number=field.index + 1, label=_FIELD.LABEL_OPTIONAL)
        _type_field(made, field.schema, message, file, f"{scope}.{name}")
        plain = made.label == _FIELD.LABEL_OPTIONAL and made.type != _FIELD.TYPE_MESSAGE
        if field.schema.optional and plain:
            made.proto3_optional = True
            made.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")


def _type_field(made: Any, schema: Schema, message: Any, file: Any, scope: str) -> None:
    if schema.name == DECIMAL:
        raise DataException("Protobuf has no decimals. Next: Cast, or AvroConverter")
    if schema.name == TIMESTAMP:
        made.type, made.type_name = _FIELD.TYPE_MESSAGE, f".{_TIMESTAMP}"
        if "google/protobuf/timestamp.proto" not in file.dependency:
            file.dependency.append("google/protobuf/timestamp.proto")
        return
    inner = f"{made.name[:1].upper()}{made.name[1:]}"
    match schema.type:
        case Type.STRUCT:
            _declare(message.nested_type.add(), f"{inner}Struct", schema, file, scope)
            made.type, made.type_name = _FIELD.TYPE_MESSAGE, f"{scope}.{inner}Struct"
        case Type.ARRAY:
            assert schema.values is not None
            if schema.values.type in (Type.ARRAY, Type.MAP):
                raise DataException("Protobuf has no lists of lists or of maps")
            _type_field(made, schema.values, message, file, scope)
            made.label = _FIELD.LABEL_REPEATED
        case Type.MAP:
            assert schema.keys is not None
            assert schema.values is not None
            entry = message.nested_type.add(name=f"{_camel(made.name)}Entry")
            entry.options.map_entry = True
            for number, (name, part) in enumerate((("key", schema.keys), ("value", schema.values)), 1):
                field = entry.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
                _type_field(field, part, message, file, scope)
            made.type, made.type_name = _FIELD.TYPE_MESSAGE, f"{scope}.{entry.name}"
            made.label = _FIELD.LABEL_REPEATED
        case _:
            made.type = _NUMBERS[schema.type]


def _camel(name: str) -> str:
    """The name that protoc gives the entries of a map."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _fill(message: Any, value: Struct) -> None:
    for field in value.schema.fields:
        item = value.get(field.name)
        if item is not None:
            _put(message, field.name, field.schema, item)


def _put(message: Any, name: str, schema: Schema, item: object) -> None:
    if isinstance(item, Struct):
        target = getattr(message, name)
        target.SetInParent()
        _fill(target, item)
    elif isinstance(item, list | tuple):
        assert schema.values is not None
        target = getattr(message, name)
        for each in item:
            if isinstance(each, Struct):
                _fill(target.add(), each)
            elif isinstance(each, Instant) and schema.values.name == TIMESTAMP:
                target.add().FromMilliseconds(each.epoch_ms)
            else:
                target.append(_plain(schema.values, each))
    elif isinstance(item, dict):
        assert schema.keys is not None
        assert schema.values is not None
        target = getattr(message, name)
        for key, each in item.items():
            if isinstance(each, Struct):
                _fill(target[_plain(schema.keys, key)], each)
            else:
                target[_plain(schema.keys, key)] = _plain(schema.values, each)
    elif isinstance(item, Instant) and schema.name == TIMESTAMP:
        getattr(message, name).FromMilliseconds(item.epoch_ms)
    else:
        setattr(message, name, _plain(schema, item))


def _plain(schema: Schema, value: object) -> Any:
    if value is None:
        raise DataException("Protobuf has no nulls in lists and maps")
    if isinstance(value, Instant):
        days = value.epoch_ms // 86_400_000 if schema.name == DATE else value.epoch_ms
        return days if schema.name in (DATE, TIME) else value.epoch_ms
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, float) else bytes(value)  # type: ignore[call-overload]


# --- Protobuf to Connect ------------------------------------------------------------------------------

_Read = Callable[[Any], object]


def _message(descriptor: Any, optional: bool, depth: int) -> tuple[Schema, _Read]:
    if depth > _DEPTH:
        raise DataException(f"A message that contains itself is not supported: {descriptor.full_name}")
    if descriptor.full_name == _TIMESTAMP:
        return timestamp(optional=optional), _moment
    wrapper = _WRAPPER.match(descriptor.full_name)
    if wrapper is not None and "value" in descriptor.fields_by_name:
        inner, read = _single(descriptor.fields_by_name["value"], depth)
        return Schema(inner.type, optional=True), lambda message: read(message.value)
    parts = [(field.name, _field(field, depth + 1)) for field in descriptor.fields]
    schema = struct([(name, found[0]) for name, found in parts], name=descriptor.full_name, optional=optional)
    readers = [(schema.field(name), found[1]) for name, found in parts]

    def read_message(message: Any) -> object:
        made = Struct(schema)
        for field, read in readers:
            assert field is not None
            made.set_unchecked(field, read(message))
        return made

    return schema, read_message


def _field(field: Any, depth: int) -> tuple[Schema, _Read]:
    """The schema of a field, and how its value is taken out of a message."""
    name = field.name
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        (keys, read_key), (values, read_value) = (
            _single(field.message_type.fields_by_name[part], depth) for part in ("key", "value")
        )
        return map_of(keys, values, optional=True), lambda message: {
            read_key(key): read_value(value) for key, value in getattr(message, name).items()
        }
    schema, read = _single(field, depth)
    if field.is_repeated:
        return array(schema, optional=True), lambda message: [read(each) for each in getattr(message, name)]
    if field.has_presence:
        optional = _as_optional(schema)
        return optional, lambda message: read(getattr(message, name)) if message.HasField(name) else None
    return schema, lambda message: read(getattr(message, name))


def _single(field: Any, depth: int) -> tuple[Schema, _Read]:
    if field.message_type is not None:
        return _message(field.message_type, True, depth)
    if field.enum_type is not None:
        names = {each.number: each.name for each in field.enum_type.values}
        return Schema(Type.STRING), lambda number: names.get(number, str(number))
    kind = _TYPES[field.type]
    exact = EXACT.get(kind)
    if exact is None:
        return Schema(kind), lambda value: value
    return Schema(kind), lambda value: _exact(exact, value)


def _exact(kind: type, value: Any) -> object:
    if kind is Int64 and value >= 2**63:
        raise DataException(f"{value} does not fit into 64 bits with a sign")
    return kind(value)


def _as_optional(schema: Schema) -> Schema:
    return schema if schema.optional else Schema(schema.type, optional=True, **schema.basics())


def _moment(message: Any) -> Instant:
    when = datetime.timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    return Instant(when // datetime.timedelta(milliseconds=1))
