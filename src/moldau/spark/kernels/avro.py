"""Avro values to columns and back, by two small interpreters over tables: one pass over the rows of a batch.

A schema becomes a program, a table of steps (``typed.avro.programs`` makes it), so one compiled kernel serves
every schema, and rows of many schemas fill the same columns in one pass.

Invariant: arrays in, arrays out. Every length is a claim until the bytes bear it out: a row that does not
decode gets a status below 0 and nulls, and never disturbs its neighbours. Without numba the same functions
run as plain Python, slowly.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call"
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np

from moldau.spark.read.decoding import HAS_KERNELS

Array: TypeAlias = Any
_F = TypeVar("_F", bound=Callable[..., Any])

if HAS_KERNELS:
    import numba

    njit: Any = numba.njit
    # Nothing here makes arrays, so no references are counted: with inlined parts that is four times as fast.
    compiled = njit(cache=True, nogil=True, _nrt=False)
    inlined = njit(cache=True, nogil=True, _nrt=False, forceinline=True)
else:

    def compiled(function: _F) -> _F:
        return function

    inlined = compiled


#: What becomes of a row; below 0 it did not decode.
FINE = 0
FULL = -1
CUT_OFF = -2
TRAILING = -3
NO_BRANCH = -4
NO_SYMBOL = -5
NOT_TEXT = -6
NEGATIVE_SIZE = -7
OUT_OF_RANGE = -8
TOO_MANY_ITEMS = -9
NO_NULL = -10
MISMATCH = -11
WRONG_SIZE = -12

#: Steps that steer, and behind ``FIRST_SCALAR`` those that read one value.
END, JUMP, FILL, RECORD, UNION, REFUSE, ARRAY, NEXT, ENTER, LEAVE, NULLABLE, REQUIRED = range(12)
FIRST_SCALAR = 20
LONG, INT, MILLIS, ENUM, LONG_AS_FLOAT, LONG_AS_DOUBLE = range(20, 26)
LAST_VARINT = LONG_AS_DOUBLE
BOOLEAN, FLOAT, DOUBLE, FLOAT_AS_DOUBLE, TEXT, BYTES, FIXED, DECIMAL, FIXED_DECIMAL = range(26, 35)

#: Items of one array or map; items may take no bytes at all, so the size of the value does not bound them.
MAX_ITEMS = 1 << 24
MAX_DEPTH = 64
_LARGEST_MILLIS = 9_223_372_036_854_775


@inlined
def _varint(data: Array, at: int, end: int) -> Any:
    """The number at ``at`` and the position behind it; CUT_OFF for a position where it does not end."""
    if at < end and data[at] < 128:
        small = np.int64(data[at])
        return (small >> 1) ^ -(small & 1), at + 1
    result = np.uint64(0)
    shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        result |= np.uint64(byte & 0x7F) << np.uint64(shift)
        if byte < 128:
            return np.int64(result >> np.uint64(1)) ^ -np.int64(result & np.uint64(1)), at
        shift += 7
    return np.int64(0), CUT_OFF


@inlined
def little_endian(data: Array, at: int, size: int) -> Any:
    value = np.uint64(0)
    for index in range(size):
        value |= np.uint64(data[at + index]) << np.uint64(8 * index)
    return np.int64(value)


@inlined
def is_text(data: Array, at: int, end: int) -> bool:
    """Whether the bytes are UTF-8."""
    seen = np.uint8(0)
    for index in range(at, end):
        seen |= data[index]
    if seen < 128:
        return True
    index = at
    while index < end:
        first = data[index]
        if first < 0x80:
            index += 1
            continue
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
        elif 0xF0 <= first <= 0xF4:
            more = 3
        else:
            return False
        if index + more >= end:
            return False
        second = data[index + 1]
        low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        if second < low or second > high:
            return False
        for later in range(2, more + 1):
            if data[index + later] & 0xC0 != 0x80:
                return False
        index += more + 1
    return True


@inlined
def append(marks: Array, entries: Array, column: int, first: int, second: int, valid: int) -> bool:
    """One more entry of a column; a mark has where its entries begin, how many it may have and has."""
    index = marks[column, 2]
    if index >= marks[column, 1]:
        return False
    place = marks[column, 0] + index
    entries[place, 0] = first
    entries[place, 1] = second
    entries[place, 2] = valid
    marks[column, 2] = index + 1
    return True


@inlined
def fill(fills: Array, start: int, stop: int, marks: Array, entries: Array) -> bool:
    """A null for each of these columns."""
    fine = True
    for index in range(start, stop):
        fine = fine and append(marks, entries, fills[index], 0, 0, 0)
    return fine


@inlined
def _whole(step: int, value: Any, a: int, b: int, table: Array) -> Any:
    """What is kept of a number that was written as a varint, and how it went."""
    if step == INT and (value < -2147483648 or value > 2147483647):
        return value, OUT_OF_RANGE
    if step == MILLIS:
        if value < -_LARGEST_MILLIS or value > _LARGEST_MILLIS:
            return value, OUT_OF_RANGE
        return value * 1000, FINE
    if step == ENUM:
        if value < 0 or value >= a or table[b + value] < 0:
            return value, NO_SYMBOL
        return np.int64(table[b + value]), FINE
    if step == LONG_AS_DOUBLE:
        return np.float64(value).view(np.int64), FINE
    if step == LONG_AS_FLOAT:
        return np.int64(np.float32(value).view(np.int32)), FINE
    return value, FINE


@inlined
def _fits(data: Array, at: int, size: int, table: Array, bounds: int) -> Any:
    """Whether a big-endian number has no more digits than its type.

    ``table`` has the largest number and the smallest, 16 bytes each.
    """
    sign = 255 if size > 0 and data[at] >= 128 else 0
    for index in range(size - 16):
        if data[at + index] != sign:
            return False
    if size >= 16 and (data[at + size - 16] >= 128) != (sign == 255):
        return False
    for index in range(16):
        place = size - 16 + index
        byte = np.int64(data[at + place]) if place >= 0 else np.int64(sign)
        bound = table[bounds + index] if sign == 0 else table[bounds + 16 + index]
        if byte != bound:
            return (byte < bound) == (sign == 0)
    return True


@inlined
def _sized(
    step: int,
    column: int,
    size: int,
    bounds: int,
    data: Array,
    at: int,
    end: int,
    table: Array,
    marks: Array,
    entries: Array,
) -> Any:
    """A value whose size is known; the position behind it or what is wrong."""
    if size < 0:
        return NEGATIVE_SIZE
    if size > end - at:
        return CUT_OFF
    if column < 0:
        return at + size
    first, second = np.int64(at), np.int64(size)
    if step == TEXT:
        if not is_text(data, at, at + size):
            return NOT_TEXT
    elif step == BOOLEAN:
        first = np.int64(data[at])
        if first > 1:
            return OUT_OF_RANGE
    elif step in (FLOAT, DOUBLE):
        first = little_endian(data, at, size)
    elif step == FLOAT_AS_DOUBLE:
        bits = np.int32(little_endian(data, at, 4))
        first = np.float64(bits.view(np.float32)).view(np.int64)
    elif step >= DECIMAL and not _fits(data, at, size, table, bounds):
        return OUT_OF_RANGE
    return at + size if append(marks, entries, column, first, second, 1) else FULL


@inlined
def _scalar(
    step: int,
    column: int,
    a: int,
    b: int,
    data: Array,
    at: int,
    end: int,
    table: Array,
    marks: Array,
    entries: Array,
) -> Any:
    """Reads one value; the position behind it or what is wrong."""
    if step <= LAST_VARINT:
        value, behind = _varint(data, at, end)
        if behind < 0:
            return CUT_OFF
        value, outcome = _whole(step, value, a, b, table)
        if outcome < 0:
            return outcome
        if column >= 0 and not append(marks, entries, column, value, 0, 1):
            return FULL
        return behind
    if step in (TEXT, BYTES, DECIMAL):
        size, at = _varint(data, at, end)
        if at < 0:
            return CUT_OFF
        return _sized(step, column, size, b, data, at, end, table, marks, entries)
    return _sized(step, column, a, b, data, at, end, table, marks, entries)


@inlined
def _block(data: Array, at: int, end: int) -> Any:
    """How many items the next block of an array has; 0 ends the array."""
    count, at = _varint(data, at, end)
    if at >= 0 and count < 0:
        count = -count
        _, at = _varint(data, at, end)
    return count, at


@inlined
def _next(
    column: int,
    a: int,
    data: Array,
    at: int,
    end: int,
    stack: Array,
    depth: int,
    marks: Array,
    entries: Array,
) -> Any:
    """Whether another item comes (1), the array ends (0) or what is wrong; and the position."""
    if stack[depth, 0] == 0:
        count, at = _block(data, at, end)
        if at < 0:
            return CUT_OFF, at
        if count == 0:
            if column >= 0 and not append(marks, entries, column, stack[depth, 1], 0, 1):
                return FULL, at
            return 0, at
        stack[depth, 0] = count
        stack[depth, 1] += count
        if count < 0 or stack[depth, 1] > MAX_ITEMS:
            return TOO_MANY_ITEMS, at
    stack[depth, 0] -= 1
    return 1, at


@inlined
def _row(
    data: Array,
    at: int,
    end: int,
    place: int,
    constants_at: int,
    code: Array,
    table: Array,
    fills: Array,
    marks: Array,
    entries: Array,
    stack: Array,
) -> Any:
    """Runs the program from ``place`` on over the bytes of one value."""
    depth = -1
    outer_at, outer_end = at, end
    while True:
        step, column, a, b = code[place, 0], code[place, 1], code[place, 2], code[place, 3]
        place += 1
        if step >= FIRST_SCALAR:
            at = _scalar(step, column, a, b, data, at, end, table, marks, entries)
            if at < 0:
                return at
        elif step == UNION:
            branch, at = _varint(data, at, end)
            if at < 0:
                return CUT_OFF
            if branch < 0 or branch >= a:
                return NO_BRANCH
            place = table[b + branch]
        elif step == FILL:
            if not fill(fills, a, b, marks, entries):
                return FULL
        elif step == JUMP:
            place = a
        elif step == RECORD:
            if not append(marks, entries, column, 0, 0, 1):
                return FULL
        elif step == ARRAY:
            depth += 1
            stack[depth, 0], stack[depth, 1] = 0, 0
            place = a
        elif step == NEXT:
            more, at = _next(column, a, data, at, end, stack, depth, marks, entries)
            if more < 0:
                return more
            if more:
                place = a
            else:
                depth -= 1
        elif step == ENTER:
            outer_at, outer_end = at, end
            at, end = constants_at + a, constants_at + b
        elif step == LEAVE:
            at, end = outer_at, outer_end
        elif step == REFUSE:
            return a
        else:
            return FINE if at == end else TRAILING


@inlined
def restore(marks: Array, saved: Array) -> None:
    """Takes back what a row has appended."""
    for column in range(len(marks)):
        marks[column, 2] = saved[column]


@compiled
def decode_rows(
    data: Array,
    starts: Array,
    ends: Array,
    programs: Array,
    constants_at: int,
    code: Array,
    table: Array,
    fills: Array,
    all_columns: int,
    marks: Array,
    entries: Array,
    saved: Array,
    stack: Array,
    status: Array,
    first_row: int,
) -> Any:
    """Decodes rows until all are done or the store is full; the row to go on with.

    A program below 0 makes a row of nulls. ``fills`` begins with the columns of a whole row.
    """
    for row in range(first_row, len(starts)):
        for column in range(len(marks)):
            saved[column] = marks[column, 2]
        outcome = FINE
        program = programs[row]
        if program >= 0:
            outcome = _row(
                data, starts[row], ends[row], program, constants_at, code, table, fills, marks, entries, stack
            )
            if outcome == FULL:
                restore(marks, saved)
                return row
            status[row] = outcome
        if program < 0 or outcome < 0:
            restore(marks, saved)
            fill(fills, 0, all_columns, marks, entries)
    return len(starts)


@compiled
def gather_pieces(data: Array, at: Array, sizes: Array, out: Array, offsets: Array) -> None:
    """Copies pieces of ``data`` one behind the other, with Arrow's offsets beside them."""
    position = 0
    for index in range(len(at)):
        offsets[index] = position
        size = sizes[index]
        source, target = data[at[index] : at[index] + size], out[position : position + size]
        for byte in range(len(target)):
            target[byte] = source[byte]
        position += size
    offsets[len(at)] = position


@compiled
def widen_decimals(data: Array, at: Array, sizes: Array, out: Array) -> None:
    """Big-endian numbers of any size to the 16 little-endian bytes of Arrow; that they fit was checked."""
    for index in range(len(at)):
        start, size = at[index], sizes[index]
        sign = np.uint8(255) if size > 0 and data[start] >= 128 else np.uint8(0)
        for byte in range(16):
            from_end = start + size - 1 - byte
            out[index, byte] = data[from_end] if byte < size else sign
