"""Every record of a batch is checked, and the quick ways agree with a slow one that is plainly right."""

import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.payload import append_record, encode_varint
from moldau.protocol.record_checks import (
    TooManyHeaders,
    check_records,
    keyless_records,
    timestamp_deltas,
)

Headers = tuple[tuple[str, bytes | None], ...]
#: Shapes of records: key, value, headers.
SHAPES: list[tuple[bytes | None, bytes | None, Headers]] = [
    (None, b"v" * 10, ()),
    (b"k", b"v" * 10, ()),
    (b"key", None, ()),
    (b"", b"", ()),
    (b"k" * 36, b"v" * 100, ()),
    (b"k" * 70, b"v" * 9000, ()),
    (None, b"v" * 63, (("trace", b"x" * 16), ("empty", None))),
    (b"k", b"v" * 64, (("", b""),)),
    (b"k", b"", tuple((str(number), b"y") for number in range(9))),
]
#: Steps from one timestamp to the next, so that deltas take one to five bytes, or are negative.
STEPS = [0, 1, 7, 1000, 100_000_000, -3]


# The slow way -----------------------------------------------------------------------------------------------


class Malformed(Exception):
    pass


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise Malformed
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self, bits: int) -> int:
        number = 0
        for place in range(5 if bits == 32 else 10):
            byte = self.take(1)[0]
            number |= (byte & 127) << 7 * place
            if byte < 128:
                if number >= 1 << bits:
                    raise Malformed
                return -(number + 1) // 2 if number % 2 else number // 2
        raise Malformed

    def field(self) -> bytes | None:
        size = self.varint(32)
        return self.take(size) if size >= 0 else None


def slow_deltas(data: bytes, count: int) -> list[int]:
    """The timestamp deltas of ``count`` records that fill ``data`` and are right in everything; Malformed."""
    records = Reader(data)
    deltas = []
    for index in range(count):
        size = records.varint(32)
        if size < 0:
            raise Malformed
        body = Reader(records.take(size))
        body.take(1)
        deltas.append(body.varint(64))
        if body.varint(32) != index:
            raise Malformed
        body.field()
        body.field()
        headers = body.varint(32)
        if headers < 0:
            raise Malformed
        for _ in range(headers):
            if body.field() is None:
                raise Malformed
            body.field()
        if body.at != len(body.data):
            raise Malformed
    if records.at != len(data):
        raise Malformed
    return deltas


def agrees(data: bytes, count: int, claimed: int = 0) -> bool:
    """Whether the records are right, which both ways have to say."""
    try:
        deltas = slow_deltas(data, count)
    except Malformed:
        for buffer in (data, memoryview(data)):
            with pytest.raises(KafkaError) as caught:
                check_records(buffer, count, claimed)
            assert caught.value.code is ErrorCode.INVALID_RECORD
            assert caught.value.message
        return False
    for buffer in (data, memoryview(data), bytearray(data)):
        found = check_records(buffer, count, claimed)
        if deltas:
            assert found[0] <= min(deltas)
            assert found[1] == max(deltas)
        assert list(timestamp_deltas(buffer, count)) == deltas
    return True


def payload(runs: list[tuple[int, int]], step: int = 1, first: int = 0) -> tuple[bytes, int]:
    """Records in runs of (shape, times), and how many they are."""
    buffer = bytearray()
    index = 0
    for shape, times in runs:
        key, value, headers = SHAPES[shape]
        for _ in range(times):
            append_record(buffer, first + step * (index // 5), index, key, value, headers)
            index += 1
    return bytes(buffer), index


runs = st.lists(st.tuples(st.integers(0, len(SHAPES) - 1), st.integers(1, 40)), min_size=1, max_size=6)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(runs, st.sampled_from(STEPS), st.sampled_from([0, -1, 5]), st.integers(-2, 70))
def test_right_records(runs: list[tuple[int, int]], step: int, first: int, claimed: int) -> None:
    data, count = payload(runs, step, first)
    assert agrees(data, count, claimed)
    right = max(slow_deltas(data, count))
    assert agrees(data, count, right)
    assert not agrees(data, count + 1, right)
    assert not agrees(data, count - 1, right)


damages = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.sampled_from([None, 0, 1, 2, 127, 128, 129, 255]) | st.integers(0, 255),
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(runs, st.sampled_from(STEPS), damages, st.integers(-1, 70))
def test_damaged_records(
    runs: list[tuple[int, int]], step: int, damages: list[tuple[float, int | None]], claimed: int
) -> None:
    data, count = payload([(shape if shape != 5 else 0, times) for shape, times in runs], step)
    damaged = bytearray(data)
    for place, byte in damages:
        at = int(place * len(damaged))
        if byte is None:
            del damaged[at]
        else:
            damaged[at] = byte
    agrees(bytes(damaged), count, claimed)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(
    st.integers(0, 4),
    st.integers(9, 80),
    st.sampled_from([0, 1, 1000]),
    st.data(),
)
def test_one_wrong_byte_among_equal_records(shape: int, count: int, step: int, data: st.DataObject) -> None:
    """Each byte of the structure, in the midst of a run: lengths, deltas, the number of headers."""
    right, _ = payload([(shape, count)], step)
    sizes = []
    reader = Reader(right)
    for _ in range(count):
        start = reader.at
        reader.take(reader.varint(32))
        sizes.append((start, reader.at))
    start, end = data.draw(st.sampled_from(sizes))
    at = data.draw(st.sampled_from([*range(start, min(start + 8, end)), end - 1]))
    damaged = bytearray(right)
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    agrees(bytes(damaged), count, max(slow_deltas(right, count)))


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 1000])
@pytest.mark.parametrize("shape", range(5))
def test_every_bit_of_the_structure_of_a_record_in_a_run(shape: int, step: int) -> None:
    right, count = payload([(shape, 70)], step)
    reader = Reader(right)
    starts = [0]
    for _ in range(count):
        reader.take(reader.varint(32))
        starts.append(reader.at)
    for index in (17, 69):
        start, end = starts[index], starts[index + 1]
        for at in {*range(start, min(start + 9, end)), end - 1}:
            for bit in range(8):
                damaged = bytearray(right)
                damaged[at] ^= 1 << bit
                agrees(bytes(damaged), count, max(slow_deltas(right, count)))


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(0, 20))
def test_any_bytes(data: bytes, count: int) -> None:
    agrees(data, count)


@pytest.mark.parametrize("equal", [True, False])
def test_offset_deltas_of_every_width(equal: bool) -> None:
    generator = random.Random(4)
    count = 8192 + 500
    buffer, starts = bytearray(), []
    for index in range(count):
        starts.append(len(buffer))
        append_record(buffer, 0, index, None, bytes(5 if equal else generator.randrange(9)), ())
    assert agrees(bytes(buffer), count)
    for index in (0, 1, 63, 64, 65, 8191, 8192, 8193, count - 1):
        damaged = bytearray(buffer)
        damaged[starts[index] + 3] ^= 2  # the lowest bit of the offset delta
        with pytest.raises(KafkaError, match=f"record {index} has the offset delta {index ^ 1}"):
            check_records(damaged, count)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x00\x00\x00\x04k\x01\x00", "record 0 does not end where its length says"),  # the key's length
        (b"\x00\x00\x00\x01\x04v\x00", "record 0 does not end where its length says"),  # the value's length
        (b"\x00\x00\x00\x01\x00v\x00", "record 0: a count of 59 headers where 1 bytes are left"),
        (b"\x00\x00\x02\x01\x01\x00", "record 0 has the offset delta 1"),
        (b"\x00\x00\x01\x01\x01\x00", "record 0 has the offset delta -1"),
        (b"\x00\x00\x00\x01\x01\x01", "record 0: a count of -1 headers"),
        (b"\x00\x00\x00\x01\x01\x02", "record 0: a count of 1 headers where 0 bytes are left"),
        (b"\x00\x00\x00\x01\x01\x02\x01\x01", "record 0: a header name of -1 bytes"),
        (b"\x00\x00\x00\x01\x01\x00\x00", "record 0 does not end where its length says"),
        (b"\x00" + b"\xff" * 10 + b"\x00\x01\x01\x00", "record 0: a varint is longer"),
    ],
)
def test_faults_in_words(body: bytes, reason: str) -> None:
    data = encode_varint(len(body)) + body
    assert not agrees(data, 1)
    with pytest.raises(KafkaError, match=reason):
        check_records(data, 1)


@pytest.mark.parametrize(
    ("data", "count", "error"),
    [
        (b"", 1, "0 records where 1 are counted"),
        (b"", -1, "a count of -1 records"),
        (b"\x00", 0, "1 bytes are left behind the 0 records that are counted"),
        (b"\x0c\x00\x00\x00\x01\x01\x00", 2, "1 records where 2 are counted"),
        (b"\x0cx", 1, "record 0 has the length 6 where 1 bytes are left"),
        (b"\x01x", 1, "record 0 has the length -1"),
        (b"\x0afives", 1, "record 0 has the length 5"),
        (b"\x80", 1, "the bytes end inside the length of record 0"),
        (b"\x80\x80\x80\x80\x80\x00", 1, "the length of record 0 takes more than 5 bytes"),
    ],
)
def test_lengths_and_counts_in_words(data: bytes, count: int, error: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_records(data, count)
    assert caught.value.message == error


def test_numbers_in_more_bytes_than_they_need_are_read_as_java_does() -> None:
    body = b"\x00\x80\x00\x80\x80\x00\x81\x00\x81\x80\x00\x80\x00"
    data = b"\x9a\x00" + body
    assert len(body) == 13
    assert agrees(data, 1)


def test_keyless_records() -> None:
    data, count = payload([(1, 20), (0, 2), (4, 9), (6, 1)])
    assert list(keyless_records(data, count)) == [20, 21, 31]


def test_headers_are_counted_before_they_are_looked_at() -> None:
    many: Headers = (("", None),) * 300
    buffer = bytearray()
    for index in range(3):
        append_record(buffer, 0, index, None, b"v" * index, many)
    assert check_records(buffer, 3, 0, 900)[1] == 0
    with pytest.raises(TooManyHeaders):
        check_records(buffer, 3, 0, 899)
    claimed = bytearray(b"\x00\x00\x00\x01\x01" + encode_varint(2**31 - 1))
    with pytest.raises(KafkaError, match="a count of 2147483647 headers where"):
        check_records(encode_varint(len(claimed)) + bytes(claimed), 1)


@pytest.mark.slow
def test_a_check_keeps_nothing_of_the_records() -> None:
    """Memory does not follow the number of records: 50,000 of nine bytes need little more than a copy."""
    buffer = bytearray()
    for index in range(50_000):
        append_record(buffer, index % 2, index, None, bytes(index % 3), ())
    tracemalloc.start()
    try:
        check_records(buffer, 50_000, 1)
        assert sum(1 for _ in keyless_records(buffer, 50_000)) == 50_000
        assert tracemalloc.get_traced_memory()[1] < 3 * len(buffer)
    finally:
        tracemalloc.stop()
