"""AvroConverter: values in Confluent's wire format, with their schemas in a registry.

Invariant: a schema is registered, fetched and compiled once. What the registry cannot be asked for now may be
tried again; what cannot be written or read is a DataException.
"""

import json
from typing import Any, NamedTuple

from moldau.connect.config.definition import Settings
from moldau.connect.converters.avro_schemas import avro_of, connect_of
from moldau.connect.converters.avro_values import from_avro, to_avro
from moldau.connect.converters.registered import (
    MAX_KEPT,
    PREFIX_BYTES,
    RegistryConverter,
    schema_id_of,
)
from moldau.connect.data.schema import NOTHING, Schema, SchemaAndValue
from moldau.connect.data.types import Type, type_without_schema
from moldau.connect.errors import DataException
from moldau.schemas.avro.parse import parse_with_texts
from moldau.schemas.limits import InvalidSchema
from moldau.schemas.schema_id import id_prefix
from moldau.serde.compiled_avro.decode import Decode, compile_decoder
from moldau.serde.compiled_avro.encode import Encode, compile_encoder
from moldau.serde.errors import SerdeError

_ALONE = "value"


class _Writer(NamedTuple):
    prefix: bytes
    encode: Encode
    wrapped: bool


class _Reader(NamedTuple):
    schema: Schema
    decode: Decode
    wrapped: bool


class AvroConverter(RegistryConverter):
    def configure(self, settings: Settings) -> None:
        super().configure(settings)
        self._writers: dict[tuple[str, Schema], _Writer] = {}
        self._readers: dict[int, _Reader] = {}

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        if value is None and (schema is None or schema.default is None):
            return None
        if schema is None:
            schema = _inferred(value)
        writer = self._writers.get((topic, schema)) or self._prepared_writer(topic, schema)
        made = to_avro(schema, value)
        try:
            return writer.encode(writer.prefix, {_ALONE: made} if writer.wrapped else made)
        except SerdeError as error:
            raise DataException(f"Failed to serialize Avro data from topic {topic}: {error}") from error

    def to_connect(self, topic: str, raw: bytes | None) -> SchemaAndValue:
        if raw is None:
            return NOTHING
        schema_id = schema_id_of(raw, topic, "Avro")
        reader = self._readers.get(schema_id) or self._prepared_reader(schema_id)
        try:
            found = reader.decode(bytes(raw), PREFIX_BYTES)
        except SerdeError as error:
            raise DataException(f"Failed to deserialize data for topic {topic} to Avro: {error}") from error
        return SchemaAndValue(
            reader.schema, from_avro(reader.schema, found[_ALONE] if reader.wrapped else found)
        )

    def _prepared_writer(self, topic: str, schema: Schema) -> _Writer:
        node = avro_of(schema)
        schema_id = self.registered_id(topic, json.dumps(node, separators=(",", ":")))
        plain, wrapped = _without_logical_types(node)
        writer = _Writer(id_prefix(schema_id), compile_encoder(_parsed(plain)), wrapped)
        if len(self._writers) >= MAX_KEPT:
            self._writers.clear()
        self._writers[topic, schema] = writer
        return writer

    def _prepared_reader(self, schema_id: int) -> _Reader:
        found = self.schema_with(schema_id)
        if found.references:
            raise DataException(f"The schema {schema_id} is no Avro schema without references")
        node = json.loads(found.text)
        plain, wrapped = _without_logical_types(node)
        schema = connect_of(_parsed(node).root)
        reader = _Reader(schema, compile_decoder(_parsed(plain)), wrapped)
        if len(self._readers) >= MAX_KEPT:
            self._readers.clear()
        self._readers[schema_id] = reader
        return reader


def _inferred(value: object) -> Schema:
    kind = type_without_schema(value)
    if kind is None or kind in (Type.ARRAY, Type.MAP, Type.STRUCT):
        raise DataException("AvroConverter needs a schema for lists, maps and structs")
    return Schema(kind, optional=True)


def _parsed(node: Any) -> Any:
    try:
        return parse_with_texts(json.dumps(node), lenient=True)
    except InvalidSchema as error:
        raise DataException(f"The Avro schema cannot be used: {error}") from error


def _without_logical_types(node: Any) -> tuple[Any, bool]:
    """The schema of the bytes alone. Logical bytes at the top have a length that plain ones have not: they
    are wrapped into a record, which takes no bytes."""
    if isinstance(node, dict) and node.get("type") == "bytes" and "logicalType" in node:
        fields = [{"name": _ALONE, "type": "bytes"}]
        return {"type": "record", "name": "Alone", "fields": fields}, True
    return _stripped(node), False


def _stripped(node: Any) -> Any:
    if isinstance(node, list):
        return [_stripped(each) for each in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if key != "logicalType"}
    for part in ("type", "items", "values", "fields"):
        if part in kept:
            kept[part] = _stripped(kept[part])
    return kept
