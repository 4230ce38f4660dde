"""Columns to Avro values: the counterpart of ``kernels.avro``, one program for all rows of a batch.

Invariant: arrays in, arrays out. A row that cannot be written (a null where the schema has none) stops the
kernel, which returns the row and the step. Where the output is full the kernel asks for more, and begins the
row again.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call"
from typing import Any, TypeAlias

import numpy as np

from moldau.spark.kernels.avro import (
    ARRAY,
    BOOLEAN,
    BYTES,
    CUT_OFF,
    DOUBLE,
    END,
    FINE,
    FIXED,
    FULL,
    LONG,
    NEXT,
    NO_NULL,
    NULLABLE,
    REQUIRED,
    WRONG_SIZE,
    compiled,
    inlined,
)

Array: TypeAlias = Any
#: A step that writes bytes which are the same for every row.
CONSTANT = 60
_ROOM = 24


@inlined
def _write_varint(out: Array, at: int, value: Any) -> Any:
    rest = np.uint64((value << 1) ^ (value >> 63))
    while rest > 127:
        out[at] = np.uint8(rest & np.uint64(127)) | np.uint8(128)
        rest >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@inlined
def _copy(data: Array, start: int, size: int, out: Array, at: int) -> Any:
    source, target = data[start : start + size], out[at : at + size]
    for byte in range(len(target)):
        target[byte] = source[byte]
    return at + size


@inlined
def _write_scalar(step: int, a: int, first: Any, second: Any, data: Array, out: Array, at: int) -> Any:
    """One value; the position behind it or what is wrong."""
    if step == LONG:
        return _write_varint(out, at, first)
    if step == BYTES:
        if at + second + _ROOM > len(out):
            return FULL
        return _copy(data, first, second, out, _write_varint(out, at, second))
    if step == FIXED:
        if second != a:
            return WRONG_SIZE
        return FULL if at + a + _ROOM > len(out) else _copy(data, first, a, out, at)
    if step == BOOLEAN:
        out[at] = np.uint8(first)
        return at + 1
    size = 8 if step == DOUBLE else 4
    bits = np.uint64(first)
    for index in range(size):
        out[at + index] = np.uint8((bits >> np.uint64(8 * index)) & np.uint64(255))
    return at + size


@inlined
def _write_row(
    index: int, data: Array, code: Array, marks: Array, entries: Array, stack: Array, out: Array, at: int
) -> Any:
    """Writes one row; the position behind it and the step that ended it."""
    depth = -1
    place = 0
    while True:
        step, column, a, b = code[place, 0], code[place, 1], code[place, 2], code[place, 3]
        if at + _ROOM > len(out):
            return FULL, place
        if step == END:
            return at, place
        entry = marks[column] + index if column >= 0 else 0
        if step == NULLABLE:
            there = entries[entry, 2] != 0
            at = _write_varint(out, at, np.int64(b if there else a))
            place = place + 1 if there else code[place, 4]
            continue
        if step == REQUIRED:
            if entries[entry, 2] == 0:
                return NO_NULL, place
        elif step == ARRAY:
            start, stop = entries[entry, 0], entries[entry, 1]
            if start == stop:
                at = _write_varint(out, at, np.int64(0))
                place = a
                continue
            at = _write_varint(out, at, stop - start)
            depth += 1
            stack[depth, 0], stack[depth, 1] = index, stop
            index = start
        elif step == NEXT:
            index += 1
            if index < stack[depth, 1]:
                place = a
                continue
            at = _write_varint(out, at, np.int64(0))
            index = stack[depth, 0]
            depth -= 1
        elif step == CONSTANT:
            if at + b + _ROOM > len(out):
                return FULL, place
            at = _copy(data, a, b, out, at)
        else:
            at = _write_scalar(step, a, entries[entry, 0], entries[entry, 1], data, out, at)
            if at < 0:
                return at, place
        place += 1


@compiled
def encode_rows(
    rows: int,
    there: Array,
    data: Array,
    header: Array,
    code: Array,
    marks: Array,
    entries: Array,
    stack: Array,
    out: Array,
    ends: Array,
    first_row: int,
    at: int,
) -> Any:
    """Writes rows until all are done or one cannot be; the row to go on with, the position, why and where.

    A row that is not there takes no bytes. ``header`` comes before every value.
    """
    for row in range(first_row, rows):
        start = at
        if there[row]:
            if at + len(header) + _ROOM > len(out):
                return row, start, FULL, 0
            at = _copy(header, 0, len(header), out, at)
            at, place = _write_row(row, data, code, marks, entries, stack, out, at)
            if at < 0:
                return row, start, at, place
        ends[row] = at
    return rows, at, FINE, CUT_OFF
