"""A message's descriptor to the tables that the kernel runs over, and to its columns.

Pure. A message that the kernel cannot take (too many fields) has no tables; one that contains
itself is a ``SchemaError``.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from moldau.spark.kernels import protobuf as kernels
from moldau.spark.typed.shapes import SchemaError, Shape, ShapeMaker

Array: TypeAlias = Any
TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
UTC = pa.timestamp("us", tz="UTC")
UINT64 = pa.decimal128(20, 0)
_MAX_NESTING = 24

#: By the number of the field's type in a descriptor: how it is written, what it is, and its Arrow type.
SCALARS: dict[int, tuple[int, int, pa.DataType]] = {
    1: (kernels.EIGHT_BYTES, kernels.FIXED64, pa.float64()),
    2: (kernels.FOUR_BYTES, kernels.FLOAT, pa.float32()),
    3: (kernels.VARINT, kernels.INT64, pa.int64()),
    4: (kernels.VARINT, kernels.INT64, UINT64),
    5: (kernels.VARINT, kernels.INT32, pa.int32()),
    6: (kernels.EIGHT_BYTES, kernels.FIXED64, UINT64),
    7: (kernels.FOUR_BYTES, kernels.FIXED32, pa.int64()),
    8: (kernels.VARINT, kernels.BOOL, pa.bool_()),
    9: (kernels.SIZED, kernels.TEXT, pa.string()),
    12: (kernels.SIZED, kernels.BYTES, pa.binary()),
    13: (kernels.VARINT, kernels.UINT32, pa.int64()),
    14: (kernels.VARINT, kernels.ENUM, pa.string()),
    15: (kernels.FOUR_BYTES, kernels.SFIXED32, pa.int32()),
    16: (kernels.EIGHT_BYTES, kernels.FIXED64, pa.int64()),
    17: (kernels.VARINT, kernels.SINT, pa.int32()),
    18: (kernels.VARINT, kernels.SINT, pa.int64()),
}
_MESSAGE, _GROUP = 11, 10


@dataclass(frozen=True, slots=True)
class Tables:
    messages: Array
    fields: Array
    table: Array
    fills: Array
    all_columns: int


class TableMaker:
    """Made for one message; ``tables`` is None where the kernel cannot take it."""

    def __init__(self, descriptor: Any) -> None:
        self._maker = ShapeMaker()
        self._messages: list[list[int]] = []
        self._fields: dict[int, list[list[int]]] = {}
        self._table: list[int] = []
        self._fills: list[int] = []
        self._fits = True
        number, self.shape = self._message(descriptor, ())
        assert number == 0
        self.tables = self._made() if self._fits else None

    def _made(self) -> Tables:
        rows: list[list[int]] = []
        for number, message in enumerate(self._messages):
            message[0] = len(rows)
            rows += self._fields[number]
        flat = list(self.shape.flat())
        # The columns of a whole row come first, so places of the others move up.
        for row in rows:
            if row[kernels.KIND] == kernels.MESSAGE:
                row[kernels.A] += len(flat)
                row[kernels.B] += len(flat)
        return Tables(
            np.array(self._messages, np.int64),
            np.array(rows, np.int64).reshape(-1, kernels.FIELD_COLUMNS),
            np.array(self._table, np.int64),
            np.array(flat + self._fills, np.int64),
            len(flat),
        )

    def _message(self, descriptor: Any, around: tuple[str, ...], *, bare: bool = False) -> tuple[int, Shape]:
        """A message and its shape; a bare one has no column of its own, only those of its fields."""
        name = descriptor.full_name
        if name in around or len(around) > _MAX_NESTING:
            raise SchemaError(
                f"the message {name} holds itself, and Spark has no type for that: read the value as bytes "
                "and decode it in a function of your own"
            )
        number = len(self._messages)
        self._messages.append([0, len(descriptor.fields), -1])
        rows, shapes = [], []
        groups = {each.full_name: place for place, each in enumerate(descriptor.oneofs)}
        self._fits &= len(descriptor.fields) <= kernels.MAX_FIELDS and len(groups) <= kernels.MAX_GROUPS
        for field in descriptor.fields:
            row, shape = self._field(field, (*around, name))
            if field.containing_oneof is not None:
                row[kernels.GROUP] = groups[field.containing_oneof.full_name]
            rows.append(row)
            shapes.append(shape)
        self._fields[number] = rows
        if bare:
            return number, shapes[-1]
        shape = self._maker.record([field.name for field in descriptor.fields], shapes)
        self._messages[number][2] = shape.column
        return number, shape

    def _field(self, field: Any, around: tuple[str, ...]) -> tuple[list[int], Shape]:
        row = [0] * kernels.FIELD_COLUMNS
        row[kernels.NUMBER] = field.number
        row[kernels.GROUP] = -1
        row[kernels.REPEATED] = int(field.is_repeated)
        row[kernels.PRESENCE] = int(field.has_presence)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return row, self._map(row, field, around)
        shape = self._single(row, field, around)
        if field.is_repeated:
            shape = self._maker.array(shape)
            row[kernels.LIST_COLUMN] = shape.column
        return row, shape

    def _single(self, row: list[int], field: Any, around: tuple[str, ...]) -> Shape:
        if field.type in (_MESSAGE, _GROUP):
            self._fits &= field.type == _MESSAGE
            return self._submessage(row, field.message_type, around)
        row[kernels.WIRE], row[kernels.KIND], kind = SCALARS[field.type]
        symbols: list[str] = []
        if row[kernels.KIND] == kernels.ENUM:
            values = field.enum_type.values
            row[kernels.A], row[kernels.B] = len(self._table), len(values)
            self._table += [value.number for value in values]
            symbols = [value.name for value in values]
        shape = self._maker.leaf(kind, symbols, unsigned=kind == UINT64)
        row[kernels.COLUMN] = shape.column
        return shape

    def _submessage(self, row: list[int], descriptor: Any, around: tuple[str, ...]) -> Shape:
        row[kernels.WIRE] = kernels.SIZED
        if descriptor.full_name == TIMESTAMP:
            row[kernels.KIND] = kernels.TIMESTAMP
            shape = self._maker.leaf(UTC)
            row[kernels.COLUMN] = shape.column
            return shape
        bare = descriptor.full_name in WRAPPERS
        row[kernels.KIND] = kernels.MESSAGE
        row[kernels.CHILD], shape = self._message(descriptor, around, bare=bare)
        row[kernels.A] = len(self._fills)
        self._fills += shape.flat()
        row[kernels.B] = len(self._fills)
        return shape

    def _map(self, row: list[int], field: Any, around: tuple[str, ...]) -> Shape:
        """A map is a repeated message without a column; what an entry leaves out has its default."""
        number = len(self._messages)
        self._messages.append([0, 2, -1])
        rows, shapes = [], []
        for part in field.message_type.fields:
            made = [0] * kernels.FIELD_COLUMNS
            made[kernels.NUMBER] = part.number
            made[kernels.GROUP] = -1
            shapes.append(self._single(made, part, around))
            rows.append(made)
        self._fields[number] = rows
        shape = self._maker.map(*shapes)
        row[kernels.WIRE], row[kernels.KIND] = kernels.SIZED, kernels.MESSAGE
        row[kernels.CHILD], row[kernels.LIST_COLUMN] = number, shape.column
        row[kernels.COLUMN] = shapes[0].column
        text = pa.types.is_string(shapes[0].type)
        row[kernels.PRESENCE] = kernels.TEXT_KEYS if text else kernels.NUMBER_KEYS
        return shape
