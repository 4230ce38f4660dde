"""The formats of keys and values, one object each: everything that differs between them is asked of it.

Invariant: this file is loaded with the options, before anything is read or written, so what a format needs is
imported when it is used. A new format is a folder beside this file and a row in ``FORMATS``.
"""

import json
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark.typed.options import RegistryOptions
    from moldau.spark.typed.registry import SchemaText
    from moldau.spark.typed.shapes import Decoded

    Schema: TypeAlias = SchemaText | None
    Registry: TypeAlias = RegistryOptions | None


class Decoder(Protocol):
    """One column of bytes to one column of values.

    Invariant: it answers with an array of its type and the reasons of the rows that did not decode, and never
    raises for what is in a record. What is wrong with the schema itself is raised when the decoder is made.
    """

    @property
    def type(self) -> "pa.DataType": ...

    def decode(self, column: "pa.Array") -> "Decoded": ...


class Encoder(Protocol):
    """One column of values to one column of bytes.

    Invariant: a null stays a null, which is a tombstone. What cannot be written is a ``SchemaError`` that
    names the column.
    """

    def encode(self, column: "pa.Array") -> "pa.Array": ...


class Format:
    """What is true of a format that has no schema; those that have one say more."""

    name: str
    #: What a registry calls its schemas; None where there are none.
    registry_type: str | None = None
    #: Whether a schema must be known to write, too.
    writes_by_schema = False
    #: Whether a schema has several messages, of which one is named.
    has_messages = False

    @property
    def has_schema(self) -> bool:
        return self.registry_type is not None

    def type(self, schema: "Schema", message: str | None) -> "pa.DataType":
        """The type of the column that such values fill."""
        return self.decoder(schema, message, None).type

    def decoder(self, schema: "Schema", message: str | None, registry: "Registry") -> Decoder:
        """``schema`` is the reader's; with a registry an id before each value says the writer's."""
        raise NotImplementedError

    def encoder(self, schema: "Schema", message: str | None, header: bytes, column: "pa.DataType") -> Encoder:
        """For a column of this type; each value comes behind ``header``."""
        raise NotImplementedError

    def schema_text(self, column: "pa.DataType", name: str, before: "Schema") -> str:
        """The schema of a column as a registry keeps it; names are those of the version before."""
        raise NotImplementedError

    def behind_id(self, schema: "SchemaText", message: str | None) -> bytes:
        """What comes between the schema's id and the value."""
        return b""


class _Bytes(Format):
    name = "bytes"

    def decoder(self, schema: "Schema", message: str | None, registry: "Registry") -> Decoder:
        from moldau.spark.typed.plain import BytesColumn

        return BytesColumn()

    def encoder(self, schema: "Schema", message: str | None, header: bytes, column: "pa.DataType") -> Encoder:
        from moldau.spark.typed.plain import BytesEncoder

        return BytesEncoder(column)


class _String(Format):
    name = "string"

    def decoder(self, schema: "Schema", message: str | None, registry: "Registry") -> Decoder:
        from moldau.spark.typed.plain import TextColumn

        return TextColumn()

    def encoder(self, schema: "Schema", message: str | None, header: bytes, column: "pa.DataType") -> Encoder:
        from moldau.spark.typed.plain import TextEncoder

        return TextEncoder(column)


class _Json(Format):
    name = "json"
    registry_type = "JSON"

    def type(self, schema: "Schema", message: str | None) -> "pa.DataType":
        from moldau.spark.typed.json.schema import json_type

        assert schema is not None
        return json_type(schema.text, dict(schema.uses))

    def decoder(self, schema: "Schema", message: str | None, registry: "Registry") -> Decoder:
        from moldau.spark.typed.json.decode import JsonColumn

        return JsonColumn(self.type(schema, message))

    def encoder(self, schema: "Schema", message: str | None, header: bytes, column: "pa.DataType") -> Encoder:
        from moldau.spark.typed.json.write import JsonEncoder

        return JsonEncoder(column, header)

    def schema_text(self, column: "pa.DataType", name: str, before: "Schema") -> str:
        from moldau.spark.typed.json.schema import json_schema

        return json.dumps(json_schema(column, name))


class _Avro(Format):
    name = "avro"
    registry_type = "AVRO"
    writes_by_schema = True

    def type(self, schema: "Schema", message: str | None) -> "pa.DataType":
        from moldau.spark.typed.avro.schema import parse, reader_shape

        assert schema is not None
        return reader_shape(parse(schema.text, schema.used_texts)).type

    def decoder(self, schema: "Schema", message: str | None, registry: "Registry") -> Decoder:
        from moldau.spark.typed.avro.column import AvroColumn

        assert schema is not None
        return AvroColumn(schema, registry)

    def encoder(self, schema: "Schema", message: str | None, header: bytes, column: "pa.DataType") -> Encoder:
        from moldau.spark.typed.avro.schema import parse
        from moldau.spark.typed.avro.write import AvroEncoder

        assert schema is not None
        return AvroEncoder(parse(schema.text, schema.used_texts), column, header)

    def schema_text(self, column: "pa.DataType", name: str, before: "Schema") -> str:
        from moldau.spark.typed.avro.write import avro_schema

        return json.dumps(avro_schema(column, name, json.loads(before.text) if before is not None else None))


class _Protobuf(Format):
    name = "protobuf"
    registry_type = "PROTOBUF"
    writes_by_schema = True
    has_messages = True

    def decoder(self, schema: "Schema", message: str | None, registry: "Registry") -> Decoder:
        from moldau.spark.typed.protobuf.decode import ProtobufColumn

        assert schema is not None
        return ProtobufColumn(schema, message, registry)

    def encoder(self, schema: "Schema", message: str | None, header: bytes, column: "pa.DataType") -> Encoder:
        from moldau.spark.typed.protobuf.write import ProtobufEncoder

        assert schema is not None
        return ProtobufEncoder(schema, message, column, header)

    def schema_text(self, column: "pa.DataType", name: str, before: "Schema") -> str:
        from moldau.spark.typed.protobuf.write import proto_text

        return proto_text(column, name, before)

    def behind_id(self, schema: "SchemaText", message: str | None) -> bytes:
        from moldau.spark.typed.protobuf.write import message_indexes

        return message_indexes(schema, message)


FORMATS: dict[str, Format] = {
    each.name: each for each in (_Bytes(), _String(), _Json(), _Avro(), _Protobuf())
}


def format_of(registry_type: str) -> Format | None:
    """The format of the schemas that a registry calls so."""
    return next((each for each in FORMATS.values() if each.registry_type == registry_type), None)
