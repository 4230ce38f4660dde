"""A column of Avro values: the schema that each was written with, and what decodes it."""

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
from moldau.spark.typed.shapes import Decoded
from moldau.spark.write.rows import Pieces, pieces_of


class AvroColumn:
    """With a registry the id before each value says its writer's schema; without, the reader's is both."""

    def __init__(self, schema: SchemaText, registry: RegistryOptions | None) -> None:
        self._reader = parse(schema.text, schema.used_texts)
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
        return parse(found.text, found.used_texts)

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
