"""One column of values to one column of bytes, for each of the formats; how ``typed_write`` makes records.

Invariant: a null stays a null, which is a tombstone. What cannot be written is a ``SchemaError`` that names
the column.
"""

from typing import Protocol

import pyarrow as pa

from moldau.spark.typed.avro.schema import parse
from moldau.spark.typed.avro.write import AvroEncoder
from moldau.spark.typed.registry import SchemaText
from moldau.spark.typed.shapes import SchemaError


class Encoder(Protocol):
    def encode(self, column: pa.Array) -> pa.Array: ...


def encoder_of(
    kind: str, schema: SchemaText | None, message: str | None, header: bytes, column: pa.DataType
) -> Encoder:
    """The encoder of a format for a column of this type; each value comes behind ``header``."""
    if kind == "bytes":
        return BytesEncoder(column)
    if kind == "string":
        return TextEncoder(column)
    if kind == "json":
        from moldau.spark.typed.json.write import JsonEncoder

        return JsonEncoder(column, header)
    assert schema is not None, f"{kind} has a schema"
    if kind == "avro":
        return AvroEncoder(parse(schema.text, [text for _, text in schema.uses]), column, header)
    from moldau.spark.typed.protobuf.write import ProtobufEncoder

    return ProtobufEncoder(schema, message, column, header)


class BytesEncoder:
    """Bytes and text as they are."""

    def __init__(self, column: pa.DataType) -> None:
        if not (pa.types.is_binary(column) or pa.types.is_string(column) or pa.types.is_null(column)):
            raise SchemaError(f"it is {column}: cast it to STRING or BINARY, or name a format")

    def encode(self, column: pa.Array) -> pa.Array:
        return column


class TextEncoder:
    """What has one usual way to be written: text, numbers, dates."""

    def __init__(self, column: pa.DataType) -> None:
        if pa.types.is_nested(column):
            raise SchemaError(f"it is {column}, which has no text of its own: use the format json")

    def encode(self, column: pa.Array) -> pa.Array:
        return column if pa.types.is_binary(column.type) else column.cast(pa.string())
