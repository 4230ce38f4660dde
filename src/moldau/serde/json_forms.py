"""Values with a schema as JSON: from a JSON value to the bytes behind the schema id, and back.

What tools and proxies need that have no classes for what they carry: Avro in its JSON encoding, JSON as it is
(and as its schema says), Protobuf in its JSON mapping.

Invariant: whatever does not fit is a ``SerdeError``. Making an encoder may ask the registry, which blocks;
using one never does.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from moldau.client.registry.schema_registry import RegisteredSchema, RegistryClient
from moldau.schemas.schema_id import SchemaRef
from moldau.serde.errors import SerdeError
from moldau.serde.registered import referenced

#: From a JSON value to the bytes after the schema id, and from the whole data to a JSON value.
Encode: TypeAlias = Callable[[Any], bytes]
Decode: TypeAlias = Callable[[bytes, int], Any]


def encoder(client: RegistryClient, schema: RegisteredSchema, full_name: str | None = None) -> Encode:
    """``full_name`` is the message of a Protobuf file, where it is not the first."""
    match schema.schema_type:
        case "AVRO":
            from moldau.serde import avro_json
            from moldau.serde.avro import parse_avro

            avro = parse_avro(schema.text, list(referenced(client, schema.references).values()))
            return lambda value: avro_json.encode(avro, value)
        case "JSON":
            from moldau.serde.json_schema import compile_check, encode_json

            check = compile_check(schema.text, referenced(client, schema.references))

            def encode(value: Any) -> bytes:
                check(value)
                return encode_json(value)

            return encode
        case _:
            return _protobuf_encoder(client, schema, full_name)


def _protobuf_encoder(client: RegistryClient, schema: RegisteredSchema, full_name: str | None) -> Encode:
    from google.protobuf import json_format

    from moldau.schemas.protobuf.descriptors import message_class, message_indexes
    from moldau.schemas.schema_id import write_indexes
    from moldau.serde.protobuf import file_of, message_named

    file = file_of(client, schema, SchemaRef(schema_id=schema.schema_id), schema.subject)
    made = message_class(message_named(file, full_name))
    indexes = write_indexes(message_indexes(made.DESCRIPTOR))

    def encode(value: Any) -> bytes:
        try:
            message: bytes = json_format.ParseDict(value, made()).SerializeToString()
        except json_format.ParseError as error:
            raise SerdeError(str(error)) from error
        return indexes + message

    return encode


def decoder(client: RegistryClient, schema: RegisteredSchema, ref: SchemaRef) -> Decode:
    """From the place behind the schema id to the end of the data."""
    match schema.schema_type:
        case "AVRO":
            from moldau.serde import avro_json
            from moldau.serde.avro import parse_avro

            avro = parse_avro(schema.text, list(referenced(client, schema.references).values()))
            return lambda data, at: avro_json.decode(avro, data, at)
        case "JSON":
            from moldau.serde.json_schema import decode_json

            return lambda data, at: decode_json(data[at:])
        case _:
            return _protobuf_decoder(client, schema, ref)


def _protobuf_decoder(client: RegistryClient, schema: RegisteredSchema, ref: SchemaRef) -> Decode:
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError

    from moldau.schemas.protobuf.descriptors import message_class
    from moldau.serde.calls import indexes_at
    from moldau.serde.protobuf import file_of, message_at

    file = file_of(client, schema, ref)

    def decode(data: bytes, at: int) -> Any:
        indexes, at = indexes_at(data, at)
        try:
            message = message_class(message_at(file, indexes)).FromString(data[at:])
        except DecodeError as error:
            raise SerdeError(f"The data is damaged: {error}.") from error
        return json_format.MessageToDict(message, always_print_fields_with_no_presence=True)

    return decode
