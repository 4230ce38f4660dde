"""Runs of records of one shape, checked many at once.

Producers often send records whose lengths are the same. A slice with a step takes the same byte of every
record, so that a run costs a fraction of what its records cost one by one: the columns of lengths have to be
constant, those of offset deltas have to count, and those of timestamp deltas are looked at as a whole.

Invariant: a run is accepted only if each of its records is right; what is not accepted is left to
``record_checks``. Pure.
"""

from collections.abc import Sequence

from moldau.protocol.errors import KafkaError
from moldau.protocol.payload import VARLONG_BYTES, read_varint

#: A shorter run costs less one by one.
SHORTEST_RUN = 8
#: Instead of the highest timestamp delta: all are from 0 to the claim, and none is the claim.
BELOW_CLAIM = None

# How far a field with a length goes, by the first and the second byte of the length. A length that is
# negative in two bytes, has a third byte or an unnecessary second one gets a distance out of every batch, so
# that the loop needs no further checks: the next byte that it asks for is an IndexError.
_FAR = 1 << 40
FIELD_FIRST = tuple(
    (1 if byte & 1 else 1 + (byte >> 1)) if byte < 128 else _FAR if byte & 1 else 2 + (byte - 128 >> 1)
    for byte in range(256)
)
FIELD_SECOND = tuple(byte << 6 if 0 < byte < 128 else _FAR for byte in range(256))
#: The numbers that have a varint of one or two bytes, as these bytes read as one number.
TWO_BYTES = 8192
ONE_BYTE, _THREE_BYTES = 64, 1 << 20
ENCODED = tuple(
    2 * number if number < ONE_BYTE else (2 * number & 127 | 128) + (number >> 6 << 8)
    for number in range(TWO_BYTES)
)
_NO_RUN = (0, 0, 0, 0)
_HIGH_BYTES = bytes(range(128, 256))
#: Each header has two columns or more; records with many headers are checked one by one.
_MAX_HEADERS_IN_RUNS = 8
#: For each highest delta of one byte, the bytes of the deltas from 0 on.
_DELTAS_UP_TO = tuple(bytes(range(0, 2 * highest + 1, 2)) for highest in range(ONE_BYTE))
#: The columns of the offset deltas from 0 on, as bytes of the same place in their varints.
_OFFSET_COLUMNS_1: tuple[bytes, ...] = (bytes(ENCODED[:ONE_BYTE]),)
_OFFSET_COLUMNS_2 = (
    bytes(number & 255 for number in ENCODED),
    bytes(number >> 8 for number in ENCODED),
)
_OFFSET_COLUMNS_3 = tuple(bytes(number >> shift & 255 | 128 for number in ENCODED) for shift in (0, 8))


def equal_records(
    data: bytes, at: int, index: int, most: int, claim: int
) -> tuple[int, int, int, int | None]:
    """Checks as many of the ``most`` records from ``at`` on as have the shape of the first.

    Returns how many, where they end, and the span of their timestamp deltas. None are checked where the run
    is too short to be worth it, or where anything is not as it should be.
    """
    try:
        byte = data[at]
        if byte < 128:
            body, step = at + 1, FIELD_FIRST[byte]
        else:
            body, step = at + 2, FIELD_FIRST[byte] + FIELD_SECOND[data[at + 1]]
        end = at + most * step
        if end > len(data):
            most = (len(data) - at) // step
            end = at + most * step
        run = _same(data, range(at, body), end, step, most)
        if run < SHORTEST_RUN:
            return _NO_RUN
        timestamp, offset, key, lengths = _shape(data, body, at + step)
        run = _same(data, lengths, at + run * step, step, run)
        run = _offset_run(data, offset, key, index, at, step, run)
        if run < SHORTEST_RUN:
            return _NO_RUN
        end = at + run * step
        return run, end, *_timestamp_span(data, timestamp, offset, end, step, claim)
    except (IndexError, KafkaError):
        return _NO_RUN


def _same(data: bytes, places: Sequence[int], end: int, step: int, run: int) -> int:
    """How many of ``run`` records have the same bytes as the first at all these places."""
    for place in places:
        column = data[place:end:step]
        if column.count(data[place]) != len(column):
            run = min(run, len(column) - len(column.lstrip(column[:1])))
    return run


def _shape(data: bytes, body: int, end: int) -> tuple[int, int, int, list[int]]:
    """Where the timestamp, the offset and the length of the key of a record are, and the places of all bytes
    that are lengths; IndexError or KafkaError for a record that is wrong.
    """
    first = FIELD_FIRST
    timestamp = body + 1
    offset = timestamp + 1 if data[timestamp] < 128 else read_varint(data, timestamp, VARLONG_BYTES)[1]
    key = offset + 1 if data[offset] < 128 else read_varint(data, offset)[1]
    byte = data[key]
    if byte < 128:
        lengths = [key]
        value = key + first[byte]
    else:
        size, after = read_varint(data, key)
        lengths = [*range(key, after)]
        value = after + max(size, 0)
    byte = data[value]
    if byte < 128:
        lengths.append(value)
        headers = value + first[byte]
    else:
        size, after = read_varint(data, value)
        lengths += range(value, after)
        headers = after + max(size, 0)
    lengths.append(headers)
    at = headers + 1 if data[headers] == 0 else _header_lengths(data, headers, lengths)
    if at != end:
        raise IndexError
    return timestamp, offset, key, lengths


def _header_lengths(data: bytes, at: int, lengths: list[int]) -> int:
    """Adds the places of the lengths in headers; where they end."""
    count, at = read_varint(data, at)
    if not 0 < count <= _MAX_HEADERS_IN_RUNS:
        raise IndexError
    for part in range(2 * count):
        size, after = read_varint(data, at)
        if size < 0 and not part & 1:
            raise IndexError
        lengths += range(at, after)
        at = after + size if size > 0 else after
    return at


def _offset_run(data: bytes, offset: int, key: int, index: int, at: int, step: int, run: int) -> int:
    """How many of ``run`` records have the right offset deltas in as many bytes as the first; 0 if not all
    of these are right.
    """
    if index < ONE_BYTE:
        columns, low = _OFFSET_COLUMNS_1, index
    elif index < TWO_BYTES:
        columns, low = _OFFSET_COLUMNS_2, index
    elif index < _THREE_BYTES:
        columns = (*_OFFSET_COLUMNS_3, bytes((index // TWO_BYTES,)) * TWO_BYTES)
        low = index % TWO_BYTES
    else:
        return 0
    if key - offset != len(columns):
        return 0
    run = min(run, len(columns[0]) - low)
    end = at + run * step
    for place, column in enumerate(columns, offset):
        if data[place:end:step] != column[low : low + run]:
            return 0
    return run


def _timestamp_span(
    data: bytes, timestamp: int, offset: int, end: int, step: int, claim: int
) -> tuple[int, int | None]:
    """The lowest and the highest timestamp delta of a run; IndexError where they have different sizes or are
    wrong.
    """
    column = data[timestamp:end:step]
    if offset - timestamp == 1 and 0 <= claim < ONE_BYTE and not column.translate(None, _DELTAS_UP_TO[claim]):
        return 0, claim if 2 * claim in column else BELOW_CLAIM
    columns = [data[place:end:step] for place in range(timestamp, offset)]
    final = columns.pop()
    if not final.isascii() or any(column.translate(None, _HIGH_BYTES) for column in columns):
        raise IndexError
    numbers: Sequence[int] = final
    for column in reversed(columns):
        numbers = [number << 7 | byte & 127 for number, byte in zip(numbers, column, strict=True)]
    deltas = [number >> 1 ^ -(number & 1) for number in numbers]
    lowest, highest = min(deltas), max(deltas)
    if highest >= 1 << 63 or lowest < -(1 << 63):
        raise IndexError
    return lowest, highest
