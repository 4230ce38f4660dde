"""A writer's and a reader's schema to the steps that the kernel runs.

Pure. Resolution is decided here, once for each writer's schema, and the kernel decides nothing. Programs of
many writers are in one table and fill the same columns. A pair of schemas that cannot be resolved is a
``SchemaError`` that names the field.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from moldau.schemas.avro.defaults import default_value
from moldau.schemas.avro.resolution import enum_symbols, matching_branch, matching_fields, same_kind
from moldau.schemas.avro.types import AvroField, AvroType
from moldau.serde.compiled_avro.encode import compile_type
from moldau.serde.errors import SerdeError
from moldau.spark.kernels import avro as kernels
from moldau.spark.typed.avro.schema import meaning, merged, real_branches
from moldau.spark.typed.shapes import SchemaError, Shape

Array: TypeAlias = Any
_NOWHERE = -1

#: By the kinds of writer and reader: the step that reads the one as the other.
_STEPS: dict[tuple[str, str], int] = {
    ("boolean", "boolean"): kernels.BOOLEAN,
    ("int", "int"): kernels.INT,
    ("int", "long"): kernels.INT,
    ("long", "long"): kernels.LONG,
    ("int", "float"): kernels.LONG_AS_FLOAT,
    ("long", "float"): kernels.LONG_AS_FLOAT,
    ("int", "double"): kernels.LONG_AS_DOUBLE,
    ("long", "double"): kernels.LONG_AS_DOUBLE,
    ("float", "float"): kernels.FLOAT,
    ("float", "double"): kernels.FLOAT_AS_DOUBLE,
    ("double", "double"): kernels.DOUBLE,
    ("bytes", "bytes"): kernels.BYTES,
    ("string", "bytes"): kernels.BYTES,
    ("bytes", "string"): kernels.TEXT,
    ("string", "string"): kernels.TEXT,
    ("fixed", "fixed"): kernels.FIXED,
    ("enum", "enum"): kernels.ENUM,
}
_SIZES = {kernels.BOOLEAN: 1, kernels.FLOAT: 4, kernels.FLOAT_AS_DOUBLE: 4, kernels.DOUBLE: 8}


class Programs:
    """The steps for all writers' schemas that were met, over the columns of one reader's schema."""

    def __init__(self, reader: AvroType, shape: Shape) -> None:
        self.reader = reader
        self.shape = shape
        self._code: list[list[int]] = []
        self._table: list[int] = []
        #: Begins with the columns of a whole row.
        self._fills: list[int] = list(shape.flat())
        self.all_columns = len(self._fills)
        self._constants = bytearray()
        self._arrays: tuple[Array, Array, Array, bytes] | None = None
        self._path: list[str] = []

    def add(self, writer: AvroType) -> int:
        """Makes the program for a writer's schema; where it begins."""
        entry = len(self._code)
        table, fills, constants = len(self._table), len(self._fills), len(self._constants)
        self._arrays = None
        try:
            self._resolve(writer, self.reader, self.shape)
        except SchemaError:
            # Half a program is never run.
            del self._code[entry:], self._table[table:], self._fills[fills:], self._constants[constants:]
            self._path.clear()
            raise
        self._step(kernels.END)
        return entry

    @property
    def arrays(self) -> tuple[Array, Array, Array, bytes]:
        """Code, table, fills and constants as a kernel takes them."""
        if self._arrays is None:
            self._arrays = (
                np.array(self._code, np.int64).reshape(-1, 4),
                np.array(self._table, np.int64),
                np.array(self._fills, np.int64),
                bytes(self._constants),
            )
        return self._arrays

    def _step(self, step: int, column: int = _NOWHERE, a: int = 0, b: int = 0) -> int:
        self._code.append([step, column, a, b])
        return len(self._code) - 1

    def _fill(self, *shapes: Shape) -> None:
        """Nulls for these and what goes with them."""
        start = len(self._fills)
        for shape in shapes:
            self._fills += shape.flat()
        if len(self._fills) > start:
            self._step(kernels.FILL, a=start, b=len(self._fills))

    @contextmanager
    def _within(self, name: str) -> Iterator[None]:
        self._path.append(name)
        yield
        self._path.pop()

    def _refused(self, reason: str) -> SchemaError:
        place = f"field {'.'.join(self._path)}" if self._path else "the value"
        return SchemaError(f"{place}: {reason}")

    # Resolution. With a shape of None a value is skipped: the reader does not have it.

    def _resolve(self, writer: AvroType, reader: AvroType, shape: Shape | None) -> None:
        if writer.kind == "union":
            self._writer_union(writer, reader, shape)
        elif shape is not None and reader.kind == "union":
            self._reader_union(writer, reader, shape)
        elif writer.kind == "record" == reader.kind:
            self._record(writer, reader, shape)
        elif writer.kind in ("array", "map") and writer.kind == reader.kind:
            self._repeated(writer, reader, shape)
        elif writer.kind == "null" == reader.kind:
            if shape is not None:
                self._fill(shape)
        else:
            self._value(writer, reader, shape)

    def _writer_union(self, writer: AvroType, reader: AvroType, shape: Shape | None) -> None:
        self._step(kernels.UNION, a=len(writer.branches), b=len(self._table))
        table = len(self._table)
        self._table += [0] * len(writer.branches)
        ends: list[int] = []
        for index, branch in enumerate(writer.branches):
            self._table[table + index] = len(self._code)
            if shape is not None and not _readable(branch, reader):
                self._step(kernels.REFUSE, a=kernels.NO_NULL if branch.kind == "null" else kernels.MISMATCH)
                continue
            self._resolve(branch, reader if shape is not None else branch, shape)
            ends.append(self._step(kernels.JUMP))
        if not ends:
            raise self._refused("no branch of what was written can be read")
        for jump in ends:
            self._code[jump][2] = len(self._code)

    def _reader_union(self, writer: AvroType, reader: AvroType, shape: Shape) -> None:
        branches = real_branches(reader)
        if writer.kind == "null":
            if not reader.nullable:
                raise self._refused("null was written and may not be read")
            self._fill(shape)
            return
        if (one := merged(branches)) is not None:
            self._resolve(writer, one, shape)
            return
        found = matching_branch(writer, branches, _alike)
        if found is None:
            raise self._refused(f"{_said(writer)} was written, and no branch of the union reads it")
        chosen = branches.index(found)
        self._step(kernels.RECORD, shape.column)
        self._fill(*(child for index, child in enumerate(shape.children) if index != chosen))
        self._resolve(writer, found, shape.children[chosen])

    def _record(self, writer: AvroType, reader: AvroType, shape: Shape | None) -> None:
        if shape is None:
            for each in writer.fields:
                self._resolve(each.type, each.type, None)
            return
        self._step(kernels.RECORD, shape.column)
        pairs, rest = matching_fields(writer, reader)
        for each, place in pairs:
            if place is None:
                self._resolve(each.type, each.type, None)
                continue
            with self._within(each.name):
                self._resolve(each.type, reader.fields[place].type, shape.children[place])
        for place in rest:
            with self._within(reader.fields[place].name):
                self._default(reader.fields[place], shape.children[place])

    def _default(self, field: AvroField, shape: Shape) -> None:
        if not field.has_default:
            raise self._refused("it was not written, and the reader's schema has no default for it")
        if field.default is None and field.type.nullable:
            self._fill(shape)
            return
        start = len(self._constants)
        try:
            self._constants += encode_default(field)
        except SchemaError as error:
            raise self._refused(str(error)) from None
        self._step(kernels.ENTER, a=start, b=len(self._constants))
        self._resolve(field.type, field.type, shape)
        self._step(kernels.LEAVE)

    def _repeated(self, writer: AvroType, reader: AvroType, shape: Shape | None) -> None:
        begin = self._step(kernels.ARRAY)
        body = len(self._code)
        if writer.kind == "map":
            self._step(kernels.TEXT, shape.children[0].column if shape is not None else _NOWHERE)
        items = shape.children[-1] if shape is not None else None
        self._resolve(writer.item, reader.item, items)
        column = shape.column if shape is not None else _NOWHERE
        self._code[begin][2] = self._step(kernels.NEXT, column, body)

    def _value(self, writer: AvroType, reader: AvroType, shape: Shape | None) -> None:
        step = _STEPS.get((writer.kind, reader.kind))
        if step is None:
            raise self._refused(f"{_said(writer)} was written and cannot be read as {_said(reader)}")
        column = shape.column if shape is not None else _NOWHERE
        a, b = _SIZES.get(step, 0), 0
        if writer.kind == "fixed":
            if writer.size != reader.size:
                raise self._refused(f"{writer.size} bytes were written and {reader.size} are to be read")
            a = writer.size
        if step == kernels.ENUM:
            a, b = len(writer.symbols), len(self._table)
            self._table += _symbols(writer, reader)
        elif shape is not None and pa.types.is_timestamp(shape.type):
            timed = writer.logical if "timestamp" in meaning(writer) else reader.logical
            step = kernels.MILLIS if timed is not None and timed.per_second == 1_000 else kernels.LONG
        elif shape is not None and pa.types.is_decimal(shape.type):
            step = kernels.FIXED_DECIMAL if writer.kind == "fixed" else kernels.DECIMAL
            b = len(self._table)
            self._table += _bounds(reader.properties["precision"])
            self._check_scale(writer, reader)
        self._step(step, column, a, b)

    def _check_scale(self, writer: AvroType, reader: AvroType) -> None:
        if writer.logical is not None:
            scale, wanted = writer.properties.get("scale", 0), reader.properties.get("scale", 0)
            if scale != wanted:
                raise self._refused(
                    f"a decimal of scale {scale} was written and cannot be read with scale {wanted}"
                )


def _said(schema: AvroType) -> str:
    return f"{schema.kind} {schema.short_name}" if schema.name else schema.kind


def _readable(writer: AvroType, reader: AvroType) -> bool:
    """Whether a branch that was written has a place in the reader's type; deep differences show later."""
    readers = reader.branches if reader.kind == "union" else (reader,)
    return any(_alike(writer, each) for each in readers)


def _alike(writer: AvroType, reader: AvroType) -> bool:
    return same_kind(writer, reader) and writer.size == reader.size


def _symbols(writer: AvroType, reader: AvroType) -> list[int]:
    """The reader's number for each of the writer's symbols; -1 where it has none."""
    numbers = {symbol: index for index, symbol in enumerate(reader.symbols)}
    return [numbers.get(symbol or "", -1) for symbol in enum_symbols(writer, reader)]


def _bounds(digits: int) -> list[int]:
    """The largest and the smallest number of so many digits, as 16 bytes each."""
    largest = 10**digits - 1
    return [*largest.to_bytes(16), *(-largest).to_bytes(16, signed=True)]


def encode_default(field: AvroField) -> bytes:
    """A default as it would have been written."""
    try:
        return compile_type(field.type)(b"", default_value(field.type, field.default))
    except (ValueError, SerdeError):
        raise SchemaError(
            f"its default {field.default!r} does not fit its type {_said(field.type)}"
        ) from None
