"""One column of bytes to one column of values, for each of the formats.

Invariant: a decoder answers with an array of its type and the reasons of the rows that did not decode, and
never raises for what a record holds. What is wrong with the schema itself is told when the decoder is made.
"""

from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from moldau.client.registry.schema_registry import RegistryClient
from moldau.schemas.avro.types import AvroType
from moldau.schemas.schema_id import ID_SIZE
from moldau.spark.typed.avro.decode import AvroDecoder
from moldau.spark.typed.avro.schema import parse
from moldau.spark.typed.frames import framed_rows, read_frames
from moldau.spark.typed.options import RegistryOptions
from moldau.spark.typed.registry import SchemaText, client_of, written_schema
from moldau.spark.write.rows import Pieces, pieces_of

Decoded: TypeAlias = tuple[pa.Array, dict[int, str]]


class Decoder(Protocol):
    @property
    def type(self) -> pa.DataType: ...

    def decode(self, column: pa.Array) -> Decoded: ...


def decoder_of(
    kind: str, schema: SchemaText | None, message: str | None, registry: RegistryOptions | None
) -> Decoder:
    """The decoder of a format; ``schema`` is the reader's."""
    if kind == "bytes":
        return BytesColumn()
    if kind == "string":
        return TextColumn()
    assert schema is not None, f"{kind} has a schema"
    if kind == "avro":
        return AvroColumn(schema, registry)
    if kind == "json":
        from moldau.spark.typed.json.decode import JsonColumn
        from moldau.spark.typed.json.schema import json_type

        return JsonColumn(json_type(schema.text, dict(schema.uses)))
    from moldau.spark.typed.protobuf.decode import ProtobufColumn

    return ProtobufColumn(schema, message, registry)


class BytesColumn:
    type = pa.binary()

    def decode(self, column: pa.Array) -> Decoded:
        return column, {}


class TextColumn:
    type = pa.string()

    def decode(self, column: pa.Array) -> Decoded:
        """Text where it is UTF-8."""
        try:
            return column.cast(pa.string()), {}
        except pa.ArrowInvalid:
            return self._one_by_one(column)

    def _one_by_one(self, column: pa.Array) -> Decoded:
        texts: list[str | None] = []
        reasons = {}
        for row, value in enumerate(column.to_pylist()):
            try:
                texts.append(None if value is None else value.decode())
            except UnicodeDecodeError as error:
                texts.append(None)
                reasons[row] = f"it is not UTF-8: {error.reason} at byte {error.start}"
        return pa.array(texts, pa.string()), reasons


class AvroColumn:
    """With a registry the id before each value says its writer's schema; without, the reader's is both."""

    def __init__(self, schema: SchemaText, registry: RegistryOptions | None) -> None:
        self._reader = parse(schema.text, [text for _, text in schema.uses])
        self._decoder = AvroDecoder(self._reader)
        self._registry = registry
        self._client: RegistryClient | None = None

    @property
    def type(self) -> pa.DataType:
        return self._decoder.type

    def decode(self, column: pa.Array) -> Decoded:
        values = pieces_of(column, "value")
        if self._registry is None:
            return self._without_ids(values)
        ids, unframed = read_frames(values)
        skip = np.full(len(ids), ID_SIZE, np.int64)
        array, reasons = self._decoder.decode(values, ids, skip, self._written)
        return array, reasons | unframed

    def _written(self, schema_id: int) -> AvroType:
        if self._client is None:
            assert self._registry is not None
            self._client = client_of(self._registry)
        found = written_schema(self._client, schema_id, "AVRO")
        return parse(found.text, [text for _, text in found.uses])

    def _without_ids(self, values: Pieces) -> Decoded:
        """Values as they are; those that do not decode so and begin as a frame does are tried behind it."""
        ids, skip = np.zeros(len(values.at), np.int64), np.zeros(len(values.at), np.int64)
        array, reasons = self._decoder.decode(values, ids, skip, self._own)
        framed = framed_rows(values)
        again = [row for row in reasons if framed[row]]
        if not again:
            return array, reasons
        skip[again] = ID_SIZE
        array, second = self._decoder.decode(values, ids, skip, self._own)
        return array, {row: reasons[row] for row in second}

    def _own(self, _: int) -> AvroType:
        return self._reader
