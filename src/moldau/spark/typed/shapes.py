"""The columns that a typed value fills, and how they become one Arrow array.

A shape is a tree: every node has a column, and the columns of a record, of its fields and of the branches of
a union go on together, one entry for each row, while those below an array or a map go on by themselves.

Pure. The Arrow types are exactly those that Spark takes: no large strings, no dictionaries.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Array: TypeAlias = Any
#: A column of values, and the reasons of the rows that did not decode.
Decoded: TypeAlias = tuple[pa.Array, dict[int, str]]

#: How many bytes a fixed-width Arrow value takes, and the numpy type that its entries are cut down to.
_NUMBERS: dict[pa.DataType, Any] = {
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.date32(): np.int32,
    pa.timestamp("us", tz="UTC"): np.int64,
    pa.timestamp("us"): np.int64,
}
_LEAST_CAPACITY = 64


class SchemaError(ValueError):
    """A schema that cannot be used, in one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One node; ``children`` are a record's fields, an array's items, or a map's keys and items."""

    column: int
    type: pa.DataType
    children: tuple["Shape", ...] = ()
    #: The names of an enum: its column has their numbers.
    symbols: tuple[str, ...] = ()
    #: A decimal whose entries are whole numbers without a sign, not places of bytes.
    unsigned: bool = False
    #: Whether there may be a null where its parent is there.
    nullable: bool = True

    def flat(self) -> Iterator[int]:
        """The columns that have an entry for each of this one's."""
        yield self.column
        if pa.types.is_struct(self.type):
            for child in self.children:
                yield from child.flat()

    def columns(self) -> Iterator["Shape"]:
        """This node and all below it."""
        yield self
        for child in self.children:
            yield from child.columns()


class ShapeMaker:
    """Gives out columns in turn."""

    def __init__(self) -> None:
        self._columns = 0

    def column(self) -> int:
        self._columns += 1
        return self._columns - 1

    def leaf(self, kind: pa.DataType, symbols: Sequence[str] = (), *, unsigned: bool = False) -> Shape:
        return Shape(self.column(), kind, (), tuple(symbols), unsigned)

    def record(self, names: Sequence[str], fields: Sequence[Shape]) -> Shape:
        made = [pa.field(name, each.type, each.nullable) for name, each in zip(names, fields, strict=True)]
        return Shape(self.column(), pa.struct(made), tuple(fields))

    def array(self, items: Shape) -> Shape:
        return Shape(self.column(), pa.list_(pa.field("item", items.type, items.nullable)), (items,))

    def map(self, keys: Shape, items: Shape) -> Shape:
        value = pa.field("value", items.type, items.nullable)
        return Shape(self.column(), pa.map_(keys.type, value), (keys, items))


class Store:
    """Memory for the entries of all columns of a shape; columns below arrays grow.

    An entry is a number, a second one (the size of text and bytes), and whether it is there at all.
    """

    def __init__(self, shape: Shape, rows: int) -> None:
        self.shape = shape
        self._flat = list(shape.flat())
        count = sum(1 for _ in shape.columns())
        #: Where the entries of each column begin, how many it may have, and how many it has.
        self.marks = np.zeros((count, 3), np.int64)
        self.marks[:, 1] = max(2 * rows, _LEAST_CAPACITY)
        self.marks[self._flat, 1] = rows
        self.entries = self._allocated()

    def _allocated(self) -> Array:
        ends = np.cumsum(self.marks[:, 1])
        self.marks[:, 0] = ends - self.marks[:, 1]
        return np.empty((int(ends[-1]), 3), np.int64)

    def grow(self) -> None:
        """More capacity for the columns that are half full, but not for those with one entry for each row."""
        before, entries = self.marks[:, 0].copy(), self.entries
        growing = 2 * self.marks[:, 2] >= self.marks[:, 1]
        growing[self._flat] = False
        if not growing.any():
            # One row alone is too large for what is left of a column.
            growing[:] = True
            growing[self._flat] = False
        self.marks[growing, 1] *= 4
        self.entries = self._allocated()
        for old, (now, _, used) in zip(before.tolist(), self.marks.tolist(), strict=True):
            self.entries[now : now + used] = entries[old : old + used]

    def of(self, column: int) -> tuple[Array, Array, Array]:
        """The entries of one column: numbers, sizes, and which are there."""
        start, _, used = self.marks[column].tolist()
        first, second, valid = self.entries[start : start + used].T
        return first, second, valid.astype(bool)

    def array(self, data: Array) -> pa.Array:
        """Everything as one Arrow array; ``data`` has the bytes that text and bytes point into."""
        return _array(self.shape, self, data)


def _array(shape: Shape, store: Store, data: Array) -> pa.Array:
    firsts, seconds, valid = store.of(shape.column)
    rows, kind = len(firsts), shape.type
    validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    if pa.types.is_struct(kind):
        children = [_array(child, store, data) for child in shape.children]
        return pa.Array.from_buffers(kind, rows, [validity], children=children)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        children = [_array(child, store, data) for child in shape.children]
        if pa.types.is_map(kind):
            pairs = pa.struct([kind.key_field, kind.item_field])
            children = [pa.Array.from_buffers(pairs, len(children[0]), [None], children=children)]
        offsets = np.zeros(rows + 1, np.int32)
        np.cumsum(firsts, out=offsets[1:])
        return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(offsets)], children=children)
    if pa.types.is_null(kind):
        return pa.nulls(rows)
    if shape.symbols:
        names = pa.array(shape.symbols, pa.string())
        return names.take(pa.array(np.where(valid, firsts, 0), mask=~valid))
    return pa.Array.from_buffers(kind, rows, [validity, *_buffers(shape, firsts, seconds, data)])


def _buffers(shape: Shape, firsts: Array, seconds: Array, data: Array) -> list[pa.Buffer]:
    # Imported here because only tasks need the kernels: a driver asks for types alone, and should not wait
    # for numba.
    from moldau.spark.kernels import avro as kernels

    kind = shape.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        out = np.empty(int(seconds.sum()), np.uint8)
        offsets = np.empty(len(firsts) + 1, np.int32)
        kernels.gather_pieces(data, firsts, seconds, out, offsets)
        return [pa.py_buffer(offsets), pa.py_buffer(out)]
    if pa.types.is_decimal(kind):
        wide = np.zeros((len(firsts), 16), np.uint8)
        if shape.unsigned:
            wide[:, :8] = np.ascontiguousarray(firsts).view(np.uint8).reshape(-1, 8)
            return [pa.py_buffer(wide)]
        kernels.widen_decimals(data, firsts, seconds, wide)
        return [pa.py_buffer(wide)]
    if pa.types.is_boolean(kind):
        return [pa.py_buffer(np.packbits(firsts.astype(np.uint8), bitorder="little"))]
    if pa.types.is_float32(kind):
        return [pa.py_buffer(firsts.astype(np.int32))]
    if pa.types.is_float64(kind):
        return [pa.py_buffer(np.ascontiguousarray(firsts))]
    return [pa.py_buffer(np.ascontiguousarray(firsts.astype(_NUMBERS[kind])))]
