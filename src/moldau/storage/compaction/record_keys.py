"""Keys and positions of the records in a batch, at the least cost per record: for compaction only.

The loops are long on purpose: a call for each field would double the time.

Invariant: the data has passed its checksum. What cannot be parsed is a ``KafkaError`` and never guessed: a
misread key could cost a record.
"""

from collections.abc import Callable, Sequence
from struct import iter_unpack
from typing import NamedTuple, TypeAlias

from moldau.protocol.errors import ErrorCode, KafkaError

#: The values of varints of one byte.
_SMALL = tuple(byte >> 1 ^ -(byte & 1) for byte in range(128))
_MAX_VARINT_BYTES = 10
#: The varint of -1: the length of a null value.
_NULL = 1
#: The shortest run of records with the same layout that is worth the search.
_SHORTEST_RUN = 24
_SHORTEST_RECORD = 6
#: Bytes of a varint that are not its last one.
_CONTINUATION = bytes(range(128, 256))
#: The first and the second byte of the varints of all numbers that have up to two.
_ONE_BYTE = bytes(number << 1 for number in range(64))
_FIRST_BYTES = bytes(number << 1 & 127 | 128 for number in range(8192))
_SECOND_BYTES = bytes(number >> 6 for number in range(8192))


def _delta_columns(number: int) -> tuple[bytes, ...]:
    """The varints of all numbers that have as many bytes as this one, as columns of bytes."""
    return (_ONE_BYTE,) if number < len(_ONE_BYTE) else (_FIRST_BYTES, _SECOND_BYTES)


#: The last offset of a key, None for an unknown key.
Get: TypeAlias = Callable[[bytes], int | None]


class Keys(NamedTuple):
    """The records of one batch, column by column."""

    #: Records without a key are left out, here and in ``offset_deltas``.
    keys: list[bytes]
    offset_deltas: list[int]
    #: Offset deltas of records with a key and no value.
    tombstones: list[int]
    #: How many records have no key.
    without_key: int


#: Start and end of a retained record, the deltas of its offset and timestamp, and whether its value is null.
#: A plain tuple, since creating it is most of the work for such a record.
RetainedRecord: TypeAlias = tuple[int, int, int, int, bool]


def keys_of(data: bytes, count: int) -> Keys:
    """The keys of the ``count`` records that fill ``data``."""
    keys: list[bytes] = []
    deltas: list[int] = []
    tombstones: list[int] = []
    without_key = at = number = 0
    add_key, add_delta, small = keys.append, deltas.append, _SMALL
    try:
        while count - number >= _SHORTEST_RUN and (run := _keys_of_run(data, at, number, count, keys)):
            deltas += range(number, number + run[0])
            number, at = number + run[0], run[1]
        for _ in range(number, count):
            if (byte := data[at]) < 128:
                at += 1
                end = at + (byte >> 1)
            elif (second := data[at + 1]) < 128:
                at += 2
                end = at + ((byte & 127) >> 1) + (second << 6)
            else:
                length, at = _read_varint(data, at)
                end = at + length
            at += 1
            while data[at] > 127:  # the timestamp
                at += 1
            if (byte := data[at + 1]) < 128:
                delta, at = small[byte], at + 2
            elif (second := data[at + 2]) < 128 and not byte & 1:
                delta, at = ((byte & 127) >> 1) + (second << 6), at + 3
            else:
                delta, at = _read_varint(data, at + 1)
            if (byte := data[at]) < 128:
                length, at = small[byte], at + 1
            else:
                length, at = _read_varint(data, at)
            if length < 0:
                without_key += 1
                at = end
                continue
            key_end = at + length
            if key_end >= end:
                raise _corrupt("a key runs past the end of its record")
            add_key(data[at:key_end])
            add_delta(delta)
            if data[key_end] == _NULL:
                tombstones.append(delta)
            at = end
    except IndexError:
        raise _corrupt("the records end in the middle") from None
    if at != len(data):
        raise _corrupt(f"{count} records end at {at} of {len(data)} bytes")
    return Keys(keys, deltas, tombstones, without_key)


def _keys_of_run(data: bytes, at: int, number: int, count: int, keys: list[bytes]) -> tuple[int, int] | None:
    """Reads the keys of a run of records with the same layout; their number and end, None if it is too short.

    Many producers send records whose keys all have one size, and whose values have another. Then the fields
    are in columns, and a slice with a step reads a column at a hundredth of the cost of a loop. The offset
    deltas count from ``number`` on, and no value is null.
    """
    length, start = _read_varint(data, at)
    step = start - at + length
    if length < _SHORTEST_RECORD:
        return None
    _, delta_at = _read_varint(data, start + 1)
    _, length_at = _read_varint(data, delta_at)
    key_length, key_at = _read_varint(data, length_at)
    key_end = key_at + key_length
    run = min(count - number, (len(data) - at) // step)
    if key_length < 0 or key_end >= at + step or length_at - delta_at > 2:
        return None
    for column in (*range(at, start), *range(length_at, key_at)):
        found = data[column : at + run * step : step]
        run = len(found) - len(found.lstrip(found[:1]))
    end = at + run * step
    columns = [data[column:end:step] for column in range(start + 1, length_at)]
    times = columns[: delta_at - start - 1]
    if (
        run < _SHORTEST_RUN
        or not times[-1].isascii()
        or any(column.translate(None, _CONTINUATION) for column in times[:-1])
        or _NULL in data[key_end:end:step]
        or columns[len(times) :] != [column[number : number + run] for column in _delta_columns(number)]
    ):
        return None
    before, behind = key_at - at, step - (key_end - at)
    keys += [key for (key,) in iter_unpack(f"{before}x{key_length}s{behind}x", data[at:end])]
    return run, end


def retained_records(
    data: bytes, count: int, base_offset: int, latest_offset: int, get: Get, keep_tombstones: bool
) -> list[RetainedRecord]:
    """All records above ``latest_offset``, and the last one of every key up to there."""
    found: list[RetainedRecord] = []
    at = 0
    add, small, last_delta = found.append, _SMALL, latest_offset - base_offset
    try:
        for _ in range(count):
            start = at
            if (byte := data[at]) < 128:
                at += 1
                end = at + (byte >> 1)
            elif (second := data[at + 1]) < 128:
                at += 2
                end = at + ((byte & 127) >> 1) + (second << 6)
            else:
                length, at = _read_varint(data, at)
                end = at + length
            at += 1
            time_at = at
            while data[at] > 127:
                at += 1
            if (byte := data[at + 1]) < 128:
                delta, at = small[byte], at + 2
            elif (second := data[at + 2]) < 128 and not byte & 1:
                delta, at = ((byte & 127) >> 1) + (second << 6), at + 3
            else:
                delta, at = _read_varint(data, at + 1)
            if (byte := data[at]) < 128:
                length, at = small[byte], at + 1
            else:
                length, at = _read_varint(data, at)
            key_end = at + length if length > 0 else at
            if key_end >= end:
                raise _corrupt("a key runs past the end of its record")
            is_null = data[key_end] == _NULL
            if delta > last_delta:
                is_null = False  # not compacted yet
            elif length < 0 or (is_null and not keep_tombstones):
                at = end
                continue
            else:
                last = get(data[at:key_end])
                if last is not None and last > base_offset + delta:
                    at = end
                    continue
            time = small[byte] if (byte := data[time_at]) < 128 else _read_varint(data, time_at)[0]
            add((start, end, delta, time, is_null))
            at = end
    except IndexError:
        raise _corrupt("the records end in the middle") from None
    if at != len(data):
        raise _corrupt(f"{count} records end at {at} of {len(data)} bytes")
    return found


def records_at(data: bytes, count: int, offset_deltas: Sequence[int]) -> list[RetainedRecord] | None:
    """The records of these offset deltas (ascending), if each record's delta is its number in the batch.

    That is so in a batch as a producer sends it, and then the other records are only skipped. None if it is
    not so. None of the records may have a null value.
    """
    found: list[RetainedRecord] = []
    at = number = 0
    try:
        for wanted in [*offset_deltas, count]:
            while number < wanted:
                byte, second = data[at], data[at + 1]
                if byte < 128:
                    at += 1 + (byte >> 1)
                elif second < 128:
                    at += 2 + ((byte & 127) >> 1) + (second << 6)
                else:
                    length, start = _read_varint(data, at)
                    at = start + length
                number += 1
            if wanted < count:
                length, start = _read_varint(data, at)
                time, start = _read_varint(data, start + 1)
                delta, start = _read_varint(data, start)
                if delta != wanted:
                    return None
                found.append((at, _read_varint(data, at)[1] + length, delta, time, False))
    except IndexError:
        raise _corrupt("the records end in the middle") from None
    return found if at == len(data) else None


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number there and the position after it."""
    byte = data[at]
    second = data[at + 1] if byte > 127 else 0
    if second < 128:
        number = byte & 127 | second << 7
        return number >> 1 ^ -(number & 1), at + (1 if byte < 128 else 2)
    number = shift = 0
    for index in range(at, at + _MAX_VARINT_BYTES):
        byte = data[index]
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number >> 1 ^ -(number & 1), index + 1
    raise _corrupt("a varint is longer than its number can be")


def _corrupt(message: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)
