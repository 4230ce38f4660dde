"""AvroConverter: values in Confluent's wire format, with their schemas in a registry.

Invariant: a schema is registered, fetched and compiled once. What the registry cannot be asked for now may be
tried again; what cannot be written or read is a DataException.
"""

import json
from typing import Any, NamedTuple

from moldau.client.registry.errors import RegistryError
from moldau.client.registry.schema_registry import RegistryClient
from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.converters.avro_schemas import avro_of, connect_of
from moldau.connect.converters.avro_values import from_avro, to_avro
from moldau.connect.converters.base import CONVERTER_TYPE, Converter
from moldau.connect.data.schema import NOTHING, Schema, SchemaAndValue
from moldau.connect.data.types import Type, type_without_schema
from moldau.connect.errors import DataException, RetriableException
from moldau.schemas.avro.parse import parse_with_texts
from moldau.schemas.limits import InvalidSchema
from moldau.schemas.schema_id import id_prefix
from moldau.serde.compiled_avro.decode import Decode, compile_decoder
from moldau.serde.compiled_avro.encode import Encode, compile_encoder
from moldau.serde.errors import SerdeError

MAX_KEPT = 1000
_PREFIX_BYTES = 5
_ALONE = "value"


class _Writer(NamedTuple):
    prefix: bytes
    encode: Encode
    wrapped: bool


class _Reader(NamedTuple):
    schema: Schema
    decode: Decode
    wrapped: bool


class AvroConverter(Converter):
    config = ConfigDef(
        CONVERTER_TYPE,
        ConfigKey(
            "schema.registry.url",
            ConfigType.LIST,
            importance=Importance.HIGH,
            doc="Addresses of the schema registry, separated by commas.",
        ),
        ConfigKey(
            "basic.auth.user.info",
            ConfigType.PASSWORD,
            None,
            Importance.MEDIUM,
            "Name and password for the registry, such as ann:secret.",
        ),
        ConfigKey(
            "auto.register.schemas",
            ConfigType.BOOLEAN,
            True,
            Importance.MEDIUM,
            "Whether schemas that the registry does not know are registered.",
        ),
    )

    def configure(self, settings: Settings) -> None:
        info = settings["basic.auth.user.info"]
        user, _, password = info.secret.partition(":") if info is not None else ("", "", "")
        self.registry = RegistryClient(
            ",".join(settings["schema.registry.url"]), user=user or None, password=password or None
        )
        self._registers: bool = settings["auto.register.schemas"]
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
        if len(raw) < _PREFIX_BYTES or raw[0] != 0:
            raise DataException(
                f"Failed to deserialize data for topic {topic} to Avro: there is no schema id before it"
            )
        schema_id = int.from_bytes(raw[1:_PREFIX_BYTES], "big")
        reader = self._readers.get(schema_id) or self._prepared_reader(schema_id)
        try:
            found = reader.decode(bytes(raw), _PREFIX_BYTES)
        except SerdeError as error:
            raise DataException(f"Failed to deserialize data for topic {topic} to Avro: {error}") from error
        return SchemaAndValue(
            reader.schema, from_avro(reader.schema, found[_ALONE] if reader.wrapped else found)
        )

    def _prepared_writer(self, topic: str, schema: Schema) -> _Writer:
        node = avro_of(schema)
        subject = f"{topic}-{self.kind}"
        text = json.dumps(node, separators=(",", ":"))
        schema_id = self._asked(
            lambda: (
                self.registry.register(subject, text)
                if self._registers
                else self.registry.lookup(subject, text).schema_id
            )
        )
        plain, wrapped = _without_logical_types(node)
        writer = _Writer(id_prefix(schema_id), compile_encoder(_parsed(plain)), wrapped)
        if len(self._writers) >= MAX_KEPT:
            self._writers.clear()
        self._writers[topic, schema] = writer
        return writer

    def _prepared_reader(self, schema_id: int) -> _Reader:
        found = self._asked(lambda: self.registry.by_id(schema_id))
        if found.schema_type != "AVRO" or found.references:
            raise DataException(f"The schema {schema_id} is no Avro schema without references")
        node = json.loads(found.text)
        plain, wrapped = _without_logical_types(node)
        schema = connect_of(_parsed(node).root)
        reader = _Reader(schema, compile_decoder(_parsed(plain)), wrapped)
        if len(self._readers) >= MAX_KEPT:
            self._readers.clear()
        self._readers[schema_id] = reader
        return reader

    def _asked(self, question: Any) -> Any:
        try:
            return question()
        except RegistryError as error:
            if error.status == 0 or error.status >= 500:
                raise RetriableException(f"The schema registry cannot be asked: {error}") from error
            raise DataException(f"The schema registry refuses the schema: {error}") from error


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
