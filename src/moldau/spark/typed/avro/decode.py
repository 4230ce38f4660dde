"""Avro values of a batch to one Arrow array, whatever schemas they were written with.

Pure but for the question what a schema id means, which the caller answers. A row that does not decode
is null and comes with its reason; the others are as the reader's schema has them, in the order of the rows.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from moldau.schemas.avro.types import AvroType
from moldau.spark.kernels import avro as kernels
from moldau.spark.typed.avro.programs import Programs
from moldau.spark.typed.avro.schema import reader_shape
from moldau.spark.typed.shapes import SchemaError, Store
from moldau.spark.write.rows import Pieces

Array: TypeAlias = Any
#: The parsed schema of an id; SchemaError with the reason where there is none.
WriterSchema = Callable[[int], AvroType]

REASONS = {
    kernels.CUT_OFF: "the value ends before its schema does",
    kernels.TRAILING: "bytes are left over behind the value",
    kernels.NO_BRANCH: "a union has no branch of the number that is written",
    kernels.NO_SYMBOL: "an enum has no symbol of the number that is written",
    kernels.NOT_TEXT: "a string is not UTF-8",
    kernels.NEGATIVE_SIZE: "a size is below zero",
    kernels.OUT_OF_RANGE: "a number lies beyond what its type holds",
    kernels.TOO_MANY_ITEMS: f"an array or map has more than {kernels.MAX_ITEMS} items",
    kernels.NO_NULL: "null was written, and the reader's schema does not allow it",
    kernels.MISMATCH: "a branch of a union was written that the reader's schema does not have",
}


class AvroDecoder:
    """Reads values by one reader's schema; keeps the programs of the writers' schemas that it met."""

    def __init__(self, reader: AvroType) -> None:
        self._shape = reader_shape(reader)
        self._programs = Programs(reader, self._shape)
        #: Where the program of an id begins, or why there is none.
        self._entries: dict[int, int | str] = {}

    @property
    def type(self) -> pa.DataType:
        return self._shape.type

    def decode(
        self, values: Pieces, ids: Array, skip: Array, schema_of: WriterSchema
    ) -> tuple[pa.Array, dict[int, str]]:
        """One array and the reasons of the rows that did not decode.

        ``ids`` has the schema of each row and ``skip`` how many bytes stand before its value; a size below 0
        is a null, and so is an id below 0.
        """
        reasons: dict[int, str] = {}
        entries = np.full(len(ids), -1, np.int64)
        there = values.sizes >= 0
        for schema_id in np.unique(ids[there]).tolist():
            if schema_id < 0:
                continue
            which = there & (ids == schema_id)
            entry = self._entry(schema_id, schema_of)
            if isinstance(entry, str):
                reasons |= dict.fromkeys(np.flatnonzero(which).tolist(), entry)
            else:
                entries[which] = entry
        array, status = self._run(values, entries, skip)
        for row in np.flatnonzero(status < 0).tolist():
            reasons[row] = REASONS[int(status[row])]
        return array, reasons

    def _entry(self, schema_id: int, schema_of: WriterSchema) -> int | str:
        found = self._entries.get(schema_id)
        if found is None:
            try:
                found = self._programs.add(schema_of(schema_id))
            except SchemaError as error:
                found = str(error)
            self._entries[schema_id] = found
        return found

    def _run(self, values: Pieces, entries: Array, skip: Array) -> tuple[pa.Array, Array]:
        code, table, fills, constants = self._programs.arrays
        data = values.data
        if constants:
            data = np.concatenate([data, np.frombuffer(constants, np.uint8)])
        starts, ends = values.at + skip, values.at + np.maximum(values.sizes, 0)
        store = Store(self._shape, len(entries))
        status = np.zeros(len(entries), np.int64)
        saved, stack = np.empty(len(store.marks), np.int64), np.empty((kernels.MAX_DEPTH, 2), np.int64)
        row = 0
        while row < len(entries):
            row = kernels.decode_rows(
                data,
                starts,
                ends,
                entries,
                len(values.data),
                code,
                table,
                fills,
                self._programs.all_columns,
                store.marks,
                store.entries,
                saved,
                stack,
                status,
                row,
            )
            if row < len(entries):
                store.grow()
        return store.array(data), status
