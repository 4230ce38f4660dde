"""Arrow columns to Avro values, and an Arrow type to the Avro schema that it is registered as.

Pure. A value is written exactly as its schema says or not at all: a null, a size or a symbol
that the schema does not have is a ``SchemaError`` that names the column.
"""

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.schemas.avro.types import AvroType
from moldau.spark.kernels import avro as kernels
from moldau.spark.kernels import avro_write as write_kernels
from moldau.spark.typed.avro.programs import encode_default
from moldau.spark.typed.avro.schema import decimal_type, meaning, real_branches
from moldau.spark.typed.shapes import SchemaError
from moldau.spark.write.rows import pieces_of

Array: TypeAlias = Any
_LEAST_BYTES = 64 * 1024

_PLAIN: dict[pa.DataType, Any] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "bytes",
    pa.large_binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
}
#: The Arrow type that a leaf of each kind is brought to before it is written.
_EXPECTED = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
}


# Schemas.


def avro_schema(kind: pa.DataType, name: str, like: Any = None) -> Any:
    """The Avro schema of an Arrow type; ``like`` is the version before, whose names are kept.

    Every field may be null, but for those that could not be before and are not nullable now.
    """
    nullable = like if isinstance(like, list) else [like]
    known = next((each for each in nullable if isinstance(each, dict)), {})
    if pa.types.is_struct(kind):
        fields = {f.get("name"): f.get("type") for f in known.get("fields", ()) if isinstance(f, dict)}
        return {
            "type": "record",
            "name": known.get("name", name) if known.get("type") == "record" else name,
            **({"namespace": known["namespace"]} if known.get("namespace") else {}),
            "fields": [_field(each, f"{name}_{each.name}", fields.get(each.name)) for each in kind],
        }
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": "array", "items": ["null", avro_schema(kind.value_type, name, known.get("items"))]}
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise SchemaError(f"{name} is {kind}: the keys of an Avro map are strings, so cast them")
        return {"type": "map", "values": ["null", avro_schema(kind.item_type, name, known.get("values"))]}
    if pa.types.is_decimal(kind):
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": ("" if kind.tz else "local-") + "timestamp-micros"}
    if kind not in _PLAIN:
        raise SchemaError(f"{name} is {kind}, which Avro has no type for: cast the column to another")
    return _PLAIN[kind]


def _field(field: pa.Field, name: str, like: Any) -> dict[str, Any]:
    made = avro_schema(field.type, name, like)
    if like is not None and not isinstance(like, list) and not field.nullable:
        return {"name": field.name, "type": made}
    # A field that may be null has a default, so columns can come and go and versions stay compatible.
    return {"name": field.name, "type": ["null", made], "default": None}


# Values.


class AvroEncoder:
    """Writes columns of one Arrow type by one schema, each value behind ``header``."""

    def __init__(self, schema: AvroType, kind: pa.DataType, header: bytes = b"") -> None:
        self._schema = schema
        self._kind = kind
        self._header = np.frombuffer(header, np.uint8)
        # A small batch of this type shows what cannot be written before any row comes.
        _Layout(schema, pa.array([], kind))

    def encode(self, column: pa.Array) -> pa.Array:
        """The values as bytes; a null stays one."""
        layout = _Layout(self._schema, column)
        marks, entries, data, code = layout.arrays()
        rows = len(column)
        there = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), bool)
        out = np.empty(max(_LEAST_BYTES, len(data) + 16 * rows * (len(code) + 1)), np.uint8)
        ends = np.zeros(rows + 1, np.int32)
        stack = np.empty((kernels.MAX_DEPTH, 2), np.int64)
        row = at = 0
        while row < rows:
            row, at, outcome, place = write_kernels.encode_rows(
                rows, there, data, self._header, code, marks, entries, stack, out, ends[1:], row, at
            )
            if outcome == kernels.FULL:
                out = np.concatenate([out, np.empty(2 * len(out), np.uint8)])
            elif outcome < 0:
                raise layout.refused(int(place), int(outcome))
        valid = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
        return pa.Array.from_buffers(
            pa.binary(), rows, [valid, pa.py_buffer(ends), pa.py_buffer(out[:at].copy())]
        )


class _Layout:
    """The columns of one batch as a kernel takes them, and the steps that write them."""

    def __init__(self, schema: AvroType, column: pa.Array) -> None:
        self._code: list[list[int]] = []
        self._names: list[str] = []
        self._path: list[str] = []
        self._columns: list[Array] = []
        self._data: list[Array] = []
        self._size = 0
        self._value(schema, column, top=True)
        self._step(kernels.END)

    def arrays(self) -> tuple[Array, Array, Array, Array]:
        sizes = np.array([len(each) for each in self._columns], np.int64)
        marks = np.cumsum(sizes) - sizes
        entries = np.concatenate(self._columns) if self._columns else np.empty((0, 3), np.int64)
        data = np.concatenate(self._data) if self._data else np.empty(0, np.uint8)
        return marks, entries, data, np.array(self._code, np.int64)

    def refused(self, place: int, outcome: int) -> SchemaError:
        name = self._names[place] or "the value"
        if outcome == kernels.NO_NULL:
            return SchemaError(f"{name} is null in a row, and its schema does not allow that")
        return SchemaError(f"{name} has another size in a row than its schema says")

    def _step(self, step: int, column: int = -1, a: int = 0, b: int = 0, c: int = 0) -> int:
        self._code.append([step, column, a, b, c])
        self._names.append(".".join(self._path))
        return len(self._code) - 1

    def _column(self, first: Array, second: Array | int, valid: Array) -> int:
        entries = np.empty((len(valid), 3), np.int64)
        entries[:, 0], entries[:, 1], entries[:, 2] = first, second, valid
        self._columns.append(entries)
        return len(self._columns) - 1

    def _bytes(self, data: Array) -> int:
        """Keeps bytes; where they begin."""
        self._data.append(data)
        self._size += len(data)
        return self._size - len(data)

    def _cannot(self, reason: str) -> SchemaError:
        return SchemaError(f"{'.'.join(self._path) or 'the value'}: {reason}")

    def _value(self, schema: AvroType, column: pa.Array, *, top: bool = False) -> None:
        valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.int64)
        real, begin = schema, -1
        own = self._column(0, 0, valid)
        if schema.kind == "union":
            branches = real_branches(schema)
            if len(branches) != 1 or len(schema.branches) > 2:
                raise self._cannot("a union of several types cannot be written from a column")
            real = branches[0]
            place = schema.branches.index(real)
            if len(schema.branches) == 2:
                begin = self._step(kernels.NULLABLE, own, 1 - place, place)
            else:
                self._step(write_kernels.CONSTANT, -1, self._bytes(np.zeros(1, np.uint8)), 1)
        elif not top:
            self._step(kernels.REQUIRED, own)
        self._real(real, column, valid)
        if begin >= 0:
            self._code[begin][4] = len(self._code)

    def _real(self, schema: AvroType, column: pa.Array, valid: Array) -> None:
        if schema.kind == "record":
            self._record(schema, column)
        elif schema.kind in ("array", "map"):
            self._repeated(schema, column, valid)
        elif schema.kind == "null":
            raise self._cannot("a column cannot be written as null alone")
        else:
            self._leaf(schema, column, valid)

    def _record(self, schema: AvroType, column: pa.Array) -> None:
        if not pa.types.is_struct(column.type):
            raise self._cannot(f"it is {column.type}, and the schema has the record {schema.short_name}")
        names = [field.name for field in column.type]
        known = {field.name for field in schema.fields}
        if extra := [name for name in names if name not in known]:
            raise self._cannot(f"the schema {schema.short_name} has no field {extra[0]!r}")
        for field in schema.fields:
            self._path.append(field.name)
            if field.name in names:
                self._value(field.type, column.field(names.index(field.name)))
            elif not field.has_default:
                raise self._cannot("the schema wants it, and there is no such column")
            else:
                default = np.frombuffer(encode_default(field), np.uint8)
                self._step(write_kernels.CONSTANT, -1, self._bytes(default), len(default))
            self._path.pop()

    def _repeated(self, schema: AvroType, column: pa.Array, valid: Array) -> None:
        kind = column.type
        if schema.kind == "map" and not pa.types.is_map(kind):
            raise self._cannot(f"it is {kind}, and the schema has a map")
        if schema.kind == "array" and not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            raise self._cannot(f"it is {kind}, and the schema has an array")
        offsets = column.offsets.to_numpy()[: len(column) + 1].astype(np.int64)
        if not len(offsets):
            offsets = np.zeros(len(column) + 1, np.int64)
        begin = self._step(kernels.ARRAY, self._column(offsets[:-1], offsets[1:], valid))
        body = len(self._code)
        if schema.kind == "map":
            keys = column.keys
            self._leaf(AvroType("string"), keys, np.ones(len(keys), np.int64))
            self._value(schema.item, column.items)
        else:
            self._value(schema.item, column.values)
        self._step(kernels.NEXT, a=body)
        self._code[begin][2] = len(self._code)

    def _leaf(self, schema: AvroType, column: pa.Array, valid: Array) -> None:
        step, first, second, size = self._numbers(schema, column)
        self._step(step, self._column(first, second, valid), size)

    def _numbers(self, schema: AvroType, column: pa.Array) -> tuple[int, Array, Array | int, int]:
        """The step that writes a leaf, and its two numbers for each row."""
        if meaning(schema) == "decimal":
            return self._decimals(schema, column)
        if meaning(schema):
            return kernels.LONG, self._times(schema, column), 0, 0
        expected = _EXPECTED[schema.kind]
        if column.type != expected:
            column = self._cast(column, expected)
        if schema.kind == "enum":
            return kernels.LONG, self._symbols(schema, column), 0, 0
        if schema.kind in ("string", "bytes", "fixed"):
            pieces = pieces_of(column, "value")
            at = pieces.at + self._bytes(pieces.data)
            step = kernels.FIXED if schema.kind == "fixed" else kernels.BYTES
            return step, at, np.maximum(pieces.sizes, 0), schema.size
        if schema.kind == "boolean":
            return kernels.BOOLEAN, column.fill_null(False).to_numpy(zero_copy_only=False), 0, 0
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
        if schema.kind in ("float", "double"):
            width = np.int32 if schema.kind == "float" else np.int64
            step = kernels.FLOAT if schema.kind == "float" else kernels.DOUBLE
            return step, np.ascontiguousarray(numbers).view(width), 0, 0
        return kernels.LONG, numbers, 0, 0

    def _cast(self, column: pa.Array, expected: pa.DataType) -> pa.Array:
        numbers = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        texts = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
        if not ((numbers and not pa.types.is_binary(expected) and not pa.types.is_string(expected)) or texts):
            raise self._cannot(f"it is {column.type}, and the schema wants what Arrow calls {expected}")
        try:
            return column.cast(expected)
        except pa.ArrowInvalid as error:
            raise self._cannot(f"a value does not fit its type: {error}") from None

    def _times(self, schema: AvroType, column: pa.Array) -> Array:
        logical = schema.logical
        assert logical is not None
        is_date = logical.meaning == "date"
        if not (pa.types.is_date32(column.type) if is_date else pa.types.is_timestamp(column.type)):
            raise self._cannot(f"it is {column.type}, and the schema has a {logical.name}")
        if is_date:
            return column.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
        unit = "ms" if logical.per_second == 1_000 else "us"
        scaled = column.cast(pa.timestamp(unit, tz=column.type.tz), safe=False).cast(pa.int64())
        return scaled.fill_null(0).to_numpy(zero_copy_only=False)

    def _symbols(self, schema: AvroType, column: pa.Array) -> Array:
        found = pc.index_in(column, pa.array(list(schema.symbols), pa.string()))
        unknown = column.filter(pc.and_(column.is_valid(), found.is_null()))
        if len(unknown):
            raise self._cannot(f"{unknown[0].as_py()!r} is no symbol of the enum {schema.short_name}")
        return found.fill_null(0).to_numpy(zero_copy_only=False)

    def _decimals(self, schema: AvroType, column: pa.Array) -> tuple[int, Array, Array | int, int]:
        if not pa.types.is_decimal(column.type):
            raise self._cannot(f"it is {column.type}, and the schema has a decimal")
        try:
            column = column.cast(decimal_type(schema))
        except pa.ArrowInvalid as error:
            raise self._cannot(f"a decimal does not fit its schema: {error}") from None
        raw = column.buffers()[1]
        wide = np.frombuffer(raw, np.uint8) if raw is not None else np.empty(0, np.uint8)
        wide = wide[16 * column.offset : 16 * (column.offset + len(column))].reshape(-1, 16)[:, ::-1]
        sign = wide[:, :1] >= 128
        # Leading bytes that only repeat the sign are left out.
        same = (wide[:, :-1] == np.where(sign, 255, 0)) & ((wide[:, 1:] >= 128) == sign)
        skip = np.cumprod(same, axis=1).sum(axis=1)
        start = self._bytes(np.ascontiguousarray(wide).reshape(-1))
        rows = 16 * np.arange(len(column), dtype=np.int64) + start
        if schema.kind == "bytes":
            return kernels.BYTES, rows + skip, 16 - skip, 0
        if schema.size > 16 or (len(skip) and int((16 - skip).max()) > schema.size):
            raise self._cannot(f"decimals of {schema.size} bytes cannot be written")
        return kernels.FIXED, rows + 16 - schema.size, schema.size, schema.size
