"""Protobuf values to columns, by one interpreter over tables of messages and fields.

Each message is looked through once, to find where its fields are; then its fields are appended in the order
of the reader's message. What is rare (a message field that comes twice and has to be merged, groups, two
members of one oneof, an enum's number without a name) is not done here: such a row is ``UNUSUAL``, and the
caller reads it with Protobuf's own library.

Invariant: arrays in, arrays out; every length is a claim until the bytes bear it out.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call"
from typing import Any, TypeAlias

import numpy as np

from moldau.spark.kernels.avro import (
    CUT_OFF,
    FINE,
    FULL,
    NOT_TEXT,
    OUT_OF_RANGE,
    append,
    compiled,
    fill,
    inlined,
    is_text,
    little_endian,
    restore,
)

Array: TypeAlias = Any
UNUSUAL = -20
BAD_TAG = -21

#: Columns of the table of fields.
NUMBER, WIRE, KIND, COLUMN, CHILD, REPEATED, PRESENCE, GROUP, A, B, LIST_COLUMN = range(11)
FIELD_COLUMNS = 11
#: The types of fields.
(
    INT64,
    INT32,
    UINT32,
    SINT,
    BOOL,
    ENUM,
    FIXED32,
    SFIXED32,
    FIXED64,
    FLOAT,
    TEXT,
    BYTES,
    MESSAGE,
    TIMESTAMP,
) = range(14)
VARINT, EIGHT_BYTES, SIZED, GROUP_BEGIN, GROUP_END, FOUR_BYTES = range(6)
#: The position of a field that is not in the message.
_NOWHERE = -1
#: What PRESENCE says of a map: how its keys, whose column is COLUMN, are compared.
NUMBER_KEYS, TEXT_KEYS = 1, 2
_MOST_KEYS = 64
MAX_FIELDS = 256
MAX_GROUPS = 32
MAX_DEPTH = 32
_LARGEST_SECONDS = 9_223_372_036_854


@inlined
def _varint(data: Array, at: int, end: int) -> Any:
    result = np.uint64(0)
    shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        result |= np.uint64(byte & 0x7F) << np.uint64(shift)
        if byte < 128:
            return np.int64(result), at
        shift += 7
    return np.int64(0), CUT_OFF


@inlined
def _behind(wire: int, data: Array, at: int, end: int) -> Any:
    """The position behind a value, and where it begins and its size."""
    if wire == VARINT:
        _, behind = _varint(data, at, end)
        return behind, at, behind - at
    if wire == SIZED:
        size, start = _varint(data, at, end)
        if start < 0 or size < 0 or size > end - start:
            return CUT_OFF, start, size
        return start + size, start, size
    size = 8 if wire == EIGHT_BYTES else 4
    return (at + size if at + size <= end else CUT_OFF), at, size


@inlined
def _scan(
    data: Array, at: int, end: int, first: int, count: int, fields: Array, slots: Array, groups: Array
) -> Any:
    """Finds the fields of one message: a slot has how often, the first tag, the last value and its size."""
    for index in range(count):
        slots[index, 0] = 0
    for index in range(MAX_GROUPS):
        groups[index] = _NOWHERE
    hint = 0
    while at < end:
        tag_at = at
        tag, at = _varint(data, at, end)
        if at < 0:
            return CUT_OFF
        number, wire = (tag >> 3) & 0x1FFFFFFF, tag & 7
        if number == 0 or wire > FOUR_BYTES or tag >> 32:
            return BAD_TAG
        if wire in (GROUP_BEGIN, GROUP_END):
            return UNUSUAL
        behind, start, size = _behind(wire, data, at, end)
        if behind < 0:
            return CUT_OFF
        at = behind
        found = _NOWHERE
        for step in range(count):
            index = hint + step if hint + step < count else hint + step - count
            if fields[first + index, NUMBER] == number:
                found = index
                break
        if found < 0:
            continue
        hint = found
        field = first + found
        packed = fields[field, REPEATED] and wire == SIZED
        if wire != fields[field, WIRE] and not packed:
            continue
        slot = slots[found]
        if fields[field, KIND] >= MESSAGE and not fields[field, REPEATED] and slot[0] > 0:
            return UNUSUAL
        group = fields[field, GROUP]
        if group >= 0:
            if groups[group] != _NOWHERE and groups[group] != found:
                return UNUSUAL
            groups[group] = found
        if slot[0] == 0:
            slot[1] = tag_at
        slot[0] += 1
        slot[2], slot[3] = start, size
    return FINE


@inlined
def _enum(number: Any, table: Array, start: int, count: int) -> Any:
    """The place of a number among an enum's; _NOWHERE where it has no name."""
    for index in range(count):
        if table[start + index] == number:
            return index
    return _NOWHERE


@inlined
def _timestamp(data: Array, at: int, end: int) -> Any:
    """Microseconds of google.protobuf.Timestamp, and how it went."""
    seconds, nanos = np.int64(0), np.int64(0)
    while at < end:
        tag, at = _varint(data, at, end)
        if at < 0:
            return seconds, CUT_OFF
        if (tag & 7) in (GROUP_BEGIN, GROUP_END) or (tag & 7) > FOUR_BYTES:
            return seconds, UNUSUAL
        behind, start, _ = _behind(tag & 7, data, at, end)
        if behind < 0:
            return seconds, CUT_OFF
        if tag == 8:
            seconds, _ = _varint(data, start, end)
        elif tag == 16:
            nanos, _ = _varint(data, start, end)
        at = behind
    if seconds > _LARGEST_SECONDS or seconds < -_LARGEST_SECONDS:
        return seconds, OUT_OF_RANGE
    return seconds * 1_000_000 + np.int64(np.int32(nanos)) // 1000, FINE


@inlined
def _value(field: Array, data: Array, at: int, size: int, table: Array) -> Any:
    """The two numbers that a column keeps of a value, and how it went."""
    kind = field[KIND]
    if kind == TEXT:
        return np.int64(at), np.int64(size), FINE if is_text(data, at, at + size) else NOT_TEXT
    if kind == BYTES:
        return np.int64(at), np.int64(size), FINE
    if kind == TIMESTAMP:
        micros, outcome = _timestamp(data, at, at + size)
        return micros, np.int64(0), outcome
    if kind >= FIXED32:
        bits = little_endian(data, at, 8 if kind == FIXED64 else 4)
        if kind == SFIXED32:
            bits = np.int64(np.int32(bits))
        return bits, np.int64(0), FINE
    number, _ = _varint(data, at, at + size)
    if kind == SINT:
        number = np.int64(np.uint64(number) >> np.uint64(1)) ^ -(number & 1)
    elif kind == BOOL:
        number = np.int64(number != 0)
    elif kind == UINT32:
        number &= 0xFFFFFFFF
    elif kind != INT64:
        number = np.int64(np.int32(number))
    if kind == ENUM:
        place = _enum(number, table, field[A], field[B])
        return np.int64(place), np.int64(0), FINE if place >= 0 else UNUSUAL
    return number, np.int64(0), FINE


@inlined
def _packed(field: Array, data: Array, at: int, end: int, table: Array, marks: Array, entries: Array) -> Any:
    """The values of one packed field; how many, or what is wrong."""
    count = 0
    while at < end:
        behind, start, size = _behind(field[WIRE], data, at, end)
        if behind < 0:
            return CUT_OFF
        first, second, outcome = _value(field, data, start, size, table)
        if outcome < 0:
            return outcome
        if not append(marks, entries, field[COLUMN], first, second, 1):
            return FULL
        at = behind
        count += 1
    return count


@inlined
def _scalars(
    field: Array, slot: Array, data: Array, end: int, table: Array, marks: Array, entries: Array
) -> Any:
    """A repeated field of values: all of its places from the first on."""
    at = slot[1]
    left, count = slot[0], 0
    while left > 0:
        tag, at = _varint(data, at, end)
        wire = tag & 7
        behind, start, size = _behind(wire, data, at, end)
        if tag >> 3 == field[NUMBER] and (wire == field[WIRE] or wire == SIZED):
            left -= 1
            if wire == SIZED and field[WIRE] != SIZED:
                more = _packed(field, data, start, start + size, table, marks, entries)
                if more < 0:
                    return more
                count += more
            else:
                first, second, outcome = _value(field, data, start, size, table)
                if outcome < 0:
                    return outcome
                if not append(marks, entries, field[COLUMN], first, second, 1):
                    return FULL
                count += 1
        at = behind
    return FINE if append(marks, entries, field[LIST_COLUMN], count, 0, 1) else FULL


@inlined
def _single(field: Array, slot: Array, data: Array, table: Array, marks: Array, entries: Array) -> Any:
    """A field of one value: what was met last, null, or its default."""
    column = field[COLUMN]
    if slot[0] == 0:
        default = _enum(np.int64(0), table, field[A], field[B]) if field[KIND] == ENUM else 0
        if default < 0:
            return UNUSUAL
        there = 0 if field[PRESENCE] else 1
        return FINE if append(marks, entries, column, default, 0, there) else FULL
    first, second, outcome = _value(field, data, slot[2], slot[3], table)
    if outcome < 0:
        return outcome
    return FINE if append(marks, entries, column, first, second, 1) else FULL


@inlined
def _next_message(field: Array, data: Array, at: int, end: int) -> Any:
    """The next place of a repeated message: its beginning, its end, and where to look on."""
    while True:
        tag, at = _varint(data, at, end)
        behind, start, size = _behind(tag & 7, data, at, end)
        at = behind
        if tag >> 3 == field[NUMBER] and tag & 7 == SIZED:
            return start, start + size, at


@inlined
def _row(
    data: Array,
    at: int,
    end: int,
    messages: Array,
    fields: Array,
    table: Array,
    fills: Array,
    marks: Array,
    entries: Array,
    frames: Array,
    slots: Array,
    groups: Array,
) -> Any:
    """Reads one value. A frame: message, end, the field at work, where to look on, how many are left."""
    depth, entering = 0, 0
    while True:
        frame = frames[depth]
        if entering == 0:
            if messages[frame[0], 2] >= 0 and not append(marks, entries, messages[frame[0], 2], 0, 0, 1):
                return FULL
            outcome = _scan(
                data, at, end, messages[frame[0], 0], messages[frame[0], 1], fields, slots[depth], groups
            )
            if outcome < 0:
                return outcome
            frame[1], frame[2], frame[4] = end, 0, -1
            entering = 1
        if frame[2] == messages[frame[0], 1]:
            depth -= 1
            if depth < 0:
                return FINE
            continue
        field, slot = fields[messages[frame[0], 0] + frame[2]], slots[depth, frame[2]]
        outcome = FINE
        if field[KIND] != MESSAGE:
            if field[REPEATED]:
                outcome = _scalars(field, slot, data, frame[1], table, marks, entries)
            else:
                outcome = _single(field, slot, data, table, marks, entries)
            frame[2] += 1
        else:
            outcome, at, end = _child(field, slot, data, frame, fills, marks, entries)
            if outcome > 0:
                if depth + 1 >= MAX_DEPTH:
                    return UNUSUAL
                depth += 1
                frames[depth, 0] = field[CHILD]
                entering = 0
        if outcome < 0:
            return outcome


@inlined
def _twice(field: Array, count: int, data: Array, marks: Array, entries: Array) -> bool:
    """Whether a key comes twice in a map: the last one counts then. With too many keys it may be so."""
    if count > _MOST_KEYS:
        return True
    end = marks[field[COLUMN], 0] + marks[field[COLUMN], 2]
    for one in range(end - count, end):
        for other in range(one + 1, end):
            same = entries[one, 1] == entries[other, 1]
            if field[PRESENCE] == NUMBER_KEYS:
                same = entries[one, 0] == entries[other, 0]
            elif same:
                for index in range(entries[one, 1]):
                    same = same and data[entries[one, 0] + index] == data[entries[other, 0] + index]
            if same:
                return True
    return False


@inlined
def _child(
    field: Array, slot: Array, data: Array, frame: Array, fills: Array, marks: Array, entries: Array
) -> Any:
    """Whether a message is to be entered (1), and which bytes it has; else the field is done with."""
    if not field[REPEATED]:
        frame[2] += 1
        if slot[0] > 0:
            return 1, slot[2], slot[2] + slot[3]
        if not field[PRESENCE]:
            return 1, 0, 0
        return (FINE if fill(fills, field[A], field[B], marks, entries) else FULL), 0, 0
    if frame[4] < 0:
        frame[3], frame[4] = slot[1], slot[0]
    if frame[4] == 0:
        frame[2] += 1
        frame[4] = -1
        if field[PRESENCE] and slot[0] > 1 and _twice(field, slot[0], data, marks, entries):
            return UNUSUAL, 0, 0
        return (FINE if append(marks, entries, field[LIST_COLUMN], slot[0], 0, 1) else FULL), 0, 0
    frame[4] -= 1
    start, stop, frame[3] = _next_message(field, data, frame[3], frame[1])
    return 1, start, stop


@compiled
def decode_messages(
    data: Array,
    starts: Array,
    ends: Array,
    wanted: Array,
    messages: Array,
    fields: Array,
    table: Array,
    fills: Array,
    all_columns: int,
    marks: Array,
    entries: Array,
    saved: Array,
    frames: Array,
    slots: Array,
    groups: Array,
    status: Array,
    first_row: int,
) -> Any:
    """Decodes rows until all are done or the store is full; the row to go on with.

    A row that is not wanted is one of nulls. The first message of the table is that of the rows.
    """
    for row in range(first_row, len(starts)):
        for column in range(len(marks)):
            saved[column] = marks[column, 2]
        outcome = FINE
        if wanted[row]:
            frames[0, 0] = 0
            outcome = _row(
                data,
                starts[row],
                ends[row],
                messages,
                fields,
                table,
                fills,
                marks,
                entries,
                frames,
                slots,
                groups,
            )
            if outcome == FULL:
                restore(marks, saved)
                return row
            status[row] = outcome
        if not wanted[row] or outcome < 0:
            restore(marks, saved)
            fill(fills, 0, all_columns, marks, entries)
    return len(starts)
