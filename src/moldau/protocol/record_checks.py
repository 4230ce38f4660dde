"""Checks every record of a produced batch: its lengths, its deltas and its headers.

The offset delta of a record must be its index, and each length must lead exactly to where the record ends,
because consumers skip or stand still at anything else. This runs for every produced batch, so there are three
ways through the records: ``record_runs`` compares columns of many records of one shape at once,
``_plain_records`` takes them one by one, and ``_check_record`` takes any record and names what is wrong.

Invariant: what the quick ways accept, ``_check_record`` accepts; only it refuses. No length is trusted before
it was compared with the bytes. See ``benchmarks/records.py``. Pure.
"""

import struct
from collections.abc import Iterator
from typing import TypeAlias

from moldau.protocol.compression import Buffer
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.payload import VARINT_BYTES, VARLONG_BYTES, read_varint
from moldau.protocol.record_runs import (
    BELOW_CLAIM,
    ENCODED,
    FIELD_FIRST,
    FIELD_SECOND,
    ONE_BYTE,
    SHORTEST_RUN,
    TWO_BYTES,
    equal_records,
)

#: Attributes, two deltas, two lengths and the number of headers, after one byte of length.
SHORTEST_RECORD = 7


#: The span of the timestamp deltas of a batch: a bound below which there is none, and the highest.
TimestampDeltas: TypeAlias = tuple[int, int]


class TooManyHeaders(Exception):
    """The records have more headers than were to be looked at."""


def check_records(
    payload: Buffer, count: int, claimed_delta: int = 0, most_headers: int = 1 << 31
) -> TimestampDeltas:
    """The span of the timestamps of the ``count`` records that fill ``payload``; INVALID_RECORD for a fault.

    ``claimed_delta`` is the highest timestamp delta by the header: the check is quicker where that is right.
    ``most_headers`` bounds how many headers are looked at, one by one, before TooManyHeaders.
    """
    if count < 0:
        raise _invalid(f"a count of {count} records")
    if len(payload) <= count * _MAX_MEAN_SIZE_FOR_COPY:
        payload = bytes(payload)  # whose bytes are read twice as fast as those of a view
    if count < _FEWEST_FOR_RUNS or not isinstance(payload, bytes):
        at, index, lowest, highest, _ = _plain_records(payload, 0, 0, count, most_headers)
        if index == count and at == len(payload) and 0 <= highest < _UNSURE:
            return lowest, highest
        walk = _Walk(payload, count, claimed_delta, most_headers)
        walk.step_to(count)
    else:
        walk = _Walk(payload, count, claimed_delta, most_headers)
        walk.run()
    if walk.at != len(payload):
        left = len(payload) - walk.at
        raise _invalid(f"{left} bytes are left behind the {count} records that are counted")
    highest = walk.highest
    if walk.below_claim and highest < claimed_delta:
        highest = _NONE_SEEN  # of runs it is only known that no delta is as high as the header says
    if not 0 <= highest < _UNSURE:  # negative deltas of one byte are not looked at
        highest = max(timestamp_deltas(payload, count), default=0)
    return walk.lowest, highest


def timestamp_deltas(payload: Buffer, count: int) -> Iterator[int]:
    """The timestamp delta of each of ``count`` records, which have been checked before."""
    return (timestamp for timestamp, _, _ in record_fields(payload, count))


def keyless_records(payload: Buffer, count: int) -> Iterator[int]:
    """The indexes of the records without a key; all of them have been checked before."""
    return (index for index, (_, _, size) in enumerate(record_fields(payload, count)) if size < 0)


def record_fields(payload: Buffer, count: int) -> Iterator[tuple[int, int, int]]:
    """Timestamp delta, offset delta and key length of each record, without keeping any of them.

    For records that have been checked before; CORRUPT_MESSAGE where they make no sense.
    """
    at = 0
    try:
        for _ in range(count):
            length, at = read_varint(payload, at)
            if length < 0:
                raise IndexError
            end = at + length
            timestamp, at = read_varint(payload, at + 1, VARLONG_BYTES)
            offset, at = read_varint(payload, at)
            yield timestamp, offset, read_varint(payload, at)[0]
            at = end
    except IndexError:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the records end in the middle") from None


# The way through a batch ------------------------------------------------------------------------------------

_FEWEST_FOR_RUNS = 32
_FIRST_WINDOW = 64
_MAX_STEPS_BETWEEN_LOOKS = 512
#: A copy of the bytes is worth it up to this mean record size.
_MAX_MEAN_SIZE_FOR_COPY = 4096

#: Deltas of one byte are not lower; the others are looked at.
_LOWEST_OF_ONE_BYTE = -64
#: Lower and higher than every timestamp delta.
_NONE_SEEN = -(1 << 64)
_UNSURE = 1 << 64


class _Walk:
    """How far the check has come, and what it has seen of the timestamps."""

    __slots__ = (
        "at",
        "below_claim",
        "claim",
        "count",
        "data",
        "headers_left",
        "highest",
        "index",
        "lowest",
    )

    def __init__(self, data: Buffer, count: int, claim: int, most_headers: int) -> None:
        self.data = data
        self.count = count
        self.claim = claim
        self.headers_left = most_headers
        self.at = 0
        self.index = 0
        self.lowest = _LOWEST_OF_ONE_BYTE
        self.highest = _NONE_SEEN
        #: Whether some deltas are only known to lie from 0 to the claim.
        self.below_claim = False

    def run(self) -> None:
        """Checks all records. Producers often send records of one size, so runs of them are looked for first;
        where there are none, less and less often.
        """
        window, steps_between_looks = _FIRST_WINDOW, SHORTEST_RUN
        while self.index < self.count:
            most = min(window, self.count - self.index)
            run = self._run_of(most)
            # The window grows only while all of it is used, so that a look never costs more than a few steps.
            window = window * 4 if run == most else _FIRST_WINDOW
            if run < SHORTEST_RUN:
                self.step_to(min(self.index + steps_between_looks, self.count))
                steps_between_looks = min(steps_between_looks * 2, _MAX_STEPS_BETWEEN_LOOKS)
            else:
                steps_between_looks = SHORTEST_RUN

    def _run_of(self, most: int) -> int:
        """Checks a run of equal records; returns how many they are."""
        assert isinstance(self.data, bytes)
        run, end, lowest, highest = equal_records(self.data, self.at, self.index, most, self.claim)
        if run:
            self.at = end
            self.index += run
            if highest is BELOW_CLAIM:
                self.below_claim = True
            else:
                self.saw(lowest, highest)
        return run

    def step_to(self, index: int) -> None:
        """Checks the records up to ``index`` one by one."""
        while self.index < index:
            self.at, self.index, lowest, highest, self.headers_left = _plain_records(
                self.data, self.at, self.index, index, self.headers_left
            )
            self.saw(lowest, highest)
            if self.index < index:
                self.at, delta, headers = _check_record(
                    self.data, self.at, self.index, self.count, self.headers_left
                )
                self.headers_left -= headers
                self.index += 1
                self.saw(delta, delta)

    def saw(self, lowest: int, highest: int) -> None:
        if lowest < self.lowest:
            self.lowest = lowest
        if highest > self.highest:
            self.highest = highest


# One by one -------------------------------------------------------------------------------------------------

#: A timestamp delta of one byte, an offset delta of one or two, and the first byte of the key's length.
_DELTAS_AND_KEY_1 = struct.Struct("<BBB").unpack_from
_DELTAS_AND_KEY_2 = struct.Struct("<BHB").unpack_from


def _plain_records(
    data: Buffer, at: int, index: int, stop: int, headers_left: int
) -> tuple[int, int, int, int, int]:
    """Checks records from ``index`` up to ``stop``, or up to one that is longer than usual or wrong.

    Returns position and index of the first record that was not checked, the span of timestamp deltas (where
    negative ones of one byte do not count), and how many headers may still be looked at.
    """
    first, second, encoded = FIELD_FIRST, FIELD_SECOND, ENCODED
    lowest, highest = _LOWEST_OF_ONE_BYTE, _NONE_SEEN
    top = -1  # the largest timestamp delta of one byte, as that byte
    stop = stop if stop < TWO_BYTES else TWO_BYTES
    try:
        while index < stop:
            if index < ONE_BYTE:
                unpack, size, end = _DELTAS_AND_KEY_1, 4, stop if stop < ONE_BYTE else ONE_BYTE
            else:
                unpack, size, end = _DELTAS_AND_KEY_2, 5, stop
            for expected in encoded[index:end]:
                byte = data[at]
                last = at + 1 if byte > 127 else at  # the length's last byte; the attributes follow
                delta, offset, key = unpack(data, last + 2)
                field = last + size
                if delta > top:
                    if delta > 127:
                        delta, after = read_varint(data, last + 2, VARLONG_BYTES)
                        if delta > highest:
                            highest = delta
                        if delta < lowest:
                            lowest = delta
                        _, offset, key = unpack(data, after - 1)
                        field = after + size - 3
                    elif not delta & 1:
                        top = delta
                if offset != expected:
                    raise IndexError
                if key > 127:
                    field += second[data[field + 1]]
                field += first[key]
                value = data[field]
                if value > 127:
                    field += second[data[field + 1]]
                field += first[value]
                if data[field]:
                    field, headers = _after_headers(data, field, headers_left)
                    field -= 1
                    headers_left -= headers
                if byte > 127:
                    if encoded[field - last] != byte | data[last] << 8:
                        raise IndexError
                elif field - last << 1 != byte:
                    raise IndexError
                at = field + 1
                index += 1
    except (IndexError, struct.error, KafkaError):
        # ``_check_record`` has to look at it. What was taken for its timestamp may have been something else.
        highest = _UNSURE
    if top >= 0 and top >> 1 > highest:
        highest = top >> 1
    return at, index, lowest, highest, headers_left


def _after_headers(data: Buffer, at: int, most: int) -> tuple[int, int]:
    """Where the headers end whose number is at ``at``, and that number; IndexError or KafkaError where they
    do not end.
    """
    count, at = read_varint(data, at)
    if count < 0:
        raise _invalid(f"a count of {count} headers")
    if 2 * count > len(data) - at:  # a header has two lengths
        raise _invalid(f"a count of {count} headers where {len(data) - at} bytes are left")
    if count > most:
        raise TooManyHeaders
    first = FIELD_FIRST
    for _ in range(count):
        byte = data[at]
        if byte < 128 and not byte & 1:
            at += first[byte]
        else:
            size, at = read_varint(data, at)
            if size < 0:
                raise _invalid(f"a header name of {size} bytes")
            at += size
        byte = data[at]
        if byte < 128:
            at += first[byte]
        else:
            size, at = read_varint(data, at)
            at += max(size, 0)
    return at, count


def _check_record(data: Buffer, at: int, index: int, count: int, headers_left: int) -> tuple[int, int, int]:
    """Where the record at ``at`` ends, its timestamp delta and the number of its headers; INVALID_RECORD with
    what is wrong with it.
    """
    if at == len(data):
        raise _invalid(f"{index} records where {count} are counted")
    try:
        length, start = read_varint(data, at)
    except IndexError:
        raise _invalid(f"the bytes end inside the length of record {index}") from None
    except KafkaError:
        raise _invalid(f"the length of record {index} takes more than {VARINT_BYTES} bytes") from None
    left = len(data) - start
    if length > left:
        raise _invalid(f"record {index} has the length {length} where {left} bytes are left")
    if length < SHORTEST_RECORD - 1:
        raise _invalid(f"record {index} has the length {length}")
    end = start + length
    try:
        delta, at = read_varint(data, start + 1, VARLONG_BYTES)
        offset, at = read_varint(data, at)
        size, at = read_varint(data, at)
        at += max(size, 0)
        size, at = read_varint(data, at)
        at, headers = _after_headers(data, at + max(size, 0), headers_left)
    except IndexError:
        raise _invalid(f"record {index} does not end where its length says") from None
    except KafkaError as error:
        raise _invalid(f"record {index}: {error.message}") from None
    if at != end:
        raise _invalid(f"record {index} does not end where its length says")
    if offset != index:
        raise _invalid(f"record {index} has the offset delta {offset}")
    return end, delta, headers


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
