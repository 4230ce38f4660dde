"""Records by their lengths: every fault is named, and the quick way agrees with the plain one."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.payload import append_record, decode_payload, has_null_key, records_error

#: Mean sizes on both sides of where it pays to copy, and lengths of one, two and three bytes.
SIZES = [0, 1, 55, 56, 57, 58, 100, 101, 1_000, 8_180, 8_190, 20_000]
#: Attributes, two deltas, two lengths and a count of headers, a byte each.
SHORTEST = 6


def payload_of_sizes(sizes: list[int], key: bytes | None = b"k") -> bytes:
    buffer = bytearray()
    for index, size in enumerate(sizes):
        append_record(buffer, index // 7, index, key, bytes(size), ())
    return bytes(buffer)


def varint(number: int) -> bytes:
    """The bytes of an unsigned varint."""
    result = bytearray()
    while number > 127:
        result.append(number & 127 | 128)
        number >>= 7
    return bytes([*result, number])


def is_filled_by(data: bytes, count: int) -> bool:
    """The plain way to the answer of ``records_error``."""
    at = 0
    for _ in range(count):
        number = shift = 0
        while True:
            if at == len(data) or shift == 35:
                return False
            number |= (data[at] & 127) << shift
            shift += 7
            at += 1
            if data[at - 1] < 128:
                break
        if number & 1 or number >> 1 < SHORTEST:
            return False
        at += number >> 1
        if at > len(data):
            return False
    return at == len(data)


def code_of(data: bytes, count: int) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        decode_payload(data, count, 0, 0, None)
    return caught.value.code


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 17, 100, 1_000])
@pytest.mark.parametrize("size", SIZES)
def test_records_of_one_size(size: int, count: int) -> None:
    count = min(count, 1_000_000 // (size + 1))
    payload = payload_of_sizes([size] * count)
    for buffer in (payload, bytearray(payload), memoryview(payload)):
        assert records_error(buffer, count) is None
        assert records_error(buffer, count + 1) == f"{count} records where {count + 1} are counted"
    if count:
        assert "left behind" in str(records_error(payload, count - 1))
        assert "bytes are left" in str(records_error(payload[:-1], count))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SIZES[:9]), st.integers(1, 60)), max_size=12))
def test_runs_of_sizes(runs: list[tuple[int, int]]) -> None:
    sizes = [size for size, times in runs for _ in range(times)]
    payload = payload_of_sizes(sizes)
    assert records_error(payload, len(sizes)) is None
    assert [len(record.value or b"") for record in decode_payload(payload, len(sizes), 0, 0, None)] == sizes


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(0, 40))
def test_any_bytes_as_the_plain_way_says(data: bytes, count: int) -> None:
    assert (records_error(data, count) is None) == is_filled_by(data, count)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.sampled_from([12, 14, 16, 18, 20]), min_size=9, max_size=100),
    st.integers(-1, 1),
    st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 255)), max_size=2),
)
def test_short_lengths_with_damage(lengths: list[int], more: int, damage: list[tuple[int, int]]) -> None:
    """Records of a few bytes: nowhere do runs and hops meet each other and the end more often."""
    data = bytearray(b"".join(bytes([length]) + bytes(length // 2) for length in lengths))
    for position, byte in damage:
        data[position % len(data)] = byte
    count = len(lengths) + more
    assert (records_error(bytes(data), count) is None) == is_filled_by(bytes(data), count)


def test_two_byte_lengths_that_meet_the_end() -> None:
    """A run is believed only where both bytes of a length are there."""
    generator = random.Random(7)
    for _ in range(2_000):
        step = generator.choice((66, 67, 68))
        count = generator.randint(9, 20)
        data = bytearray(varint((step - 2) * 2).ljust(step, b"\x00") * count)
        data += generator.choice((b"", b"\x80", varint((step - 2) * 2)[:1], b"\x00"))
        data[generator.randrange(len(data))] = generator.randrange(256)
        for claimed in (count - 1, count, count + 1):
            assert (records_error(bytes(data), claimed) is None) == is_filled_by(bytes(data), claimed)


@pytest.mark.parametrize(
    ("data", "count", "error"),
    [
        (b"", 1, "0 records where 1 are counted"),
        (b"", -1, "a count of -1 records"),
        (b"\x00", 0, "1 bytes are left behind the 0 records that are counted"),
        (b"\x0csixsix", 2, "1 records where 2 are counted"),
        (b"\x0csixsixy", 1, "1 bytes are left behind the 1 records that are counted"),
        (b"\x0cx", 1, "record 0 has the length 6 where 1 bytes are left"),
        (b"\x01x", 1, "record 0 has the length -1"),
        (b"\x00", 1, "record 0 has the length 0"),
        (b"\x0afives", 1, "record 0 has the length 5"),
        (b"\x8a\x00fives", 1, "record 0 has the length 5"),
        (b"\x0csixsix\x80", 2, "the bytes end inside the length of record 1"),
        (b"\x80\x80\x80\x80\x80\x00", 1, "the length of record 0 takes more than 5 bytes"),
        (b"\xfe\xff\xff\xff\x0f", 1, "record 0 has the length 2147483647 where 0 bytes are left"),
        (b"\x80\x80\x80\x80\x10", 1, "the length of record 0 takes more than 5 bytes"),
        (b"\x0csixsix", 2**31 - 1, "1 records where 2147483647 are counted"),
    ],
)
def test_faults_in_words(data: bytes, count: int, error: str) -> None:
    assert records_error(data, count) == error


def test_a_length_in_more_bytes_than_it_needs() -> None:
    assert records_error(b"\x8c\x00sixsix\x8c\x80\x00sixsix\x8c\x80\x80\x80\x00sixsix", 3) is None


@pytest.mark.parametrize("position", [0, 1, 63, 64, 99])
def test_the_first_record_without_a_key(position: int) -> None:
    buffer = bytearray()
    for index in range(100):
        key = None if index in (position, 99) else b"x" * (index % 3 * 70)
        append_record(buffer, index * 100_000, index, key, b"value", ())
    assert has_null_key(buffer, 100) == position
    assert has_null_key(memoryview(buffer), 100) == position


def test_records_that_all_have_keys() -> None:
    assert has_null_key(b"", 0) is None
    assert has_null_key(payload_of_sizes([3] * 100, key=b""), 100) is None


@settings(deadline=None)
@given(st.binary(max_size=100), st.integers(0, 20))
def test_keys_in_any_bytes(data: bytes, count: int) -> None:
    try:
        outcome = has_null_key(data, count)
    except KafkaError as error:
        outcome = error.code
    assert outcome in (None, ErrorCode.CORRUPT_MESSAGE, *range(count))


@settings(deadline=None)
@given(st.binary(max_size=100), st.integers(0, 20))
def test_decoding_any_bytes(data: bytes, count: int) -> None:
    try:
        outcome = len(decode_payload(data, count, 0, 0, None))
    except KafkaError as error:
        outcome = error.code
    if is_filled_by(data, count):
        assert outcome in (count, ErrorCode.CORRUPT_MESSAGE)
    else:
        assert outcome is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x00\x00\x01\x01",  # no count of headers
        b"\x00\x00\x00\x01\x01\x01",  # -1 headers
        b"\x00\x00\x00\x01\x01\x02\x01\x01",  # a header without a name
        b"\x00\x00\x00\x01\x01\x02\x02h",  # a header without a value
        b"\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f",  # 2**31 - 1 headers
        b"\x00\x00\x00\xfe\xff\xff\xff\x0f\x01\x00",  # a key of 2**31 - 1 bytes
        b"\x00\x00\x00\x01\x01\x00\x00",  # a byte too many
        b"\x00" + b"\xff" * 9 + b"\x01\x00\x01\x01\x00",  # a time before the first of all times
        b"\x00" + b"\xff" * 10 + b"\x00\x00\x01\x01\x00",  # a time of more than 64 bits
    ],
)
def test_records_that_make_no_sense(body: bytes) -> None:
    data = varint(len(body) * 2) + body
    with pytest.raises(KafkaError) as caught:
        decode_payload(data, 1, 0, -1, None)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_more_and_fewer_records_than_counted() -> None:
    data = payload_of_sizes([1, 2, 3])
    assert code_of(data, 2) is ErrorCode.CORRUPT_MESSAGE
    assert code_of(data, 4) is ErrorCode.CORRUPT_MESSAGE


def test_lengths_below_minus_one_are_null_as_java_reads_them() -> None:
    data = b"\x0c\x00\x00\x00\x03\x05\x00"
    assert decode_payload(data, 1, 7, 5, None) == [(7, 5, None, None, ())]
    assert has_null_key(data, 1) == 0


def test_the_name_of_a_header_keeps_its_bytes() -> None:
    data = b"\x14\x00\x00\x00\x01\x01\x02\x04\xff\xfe\x01"
    (record,) = decode_payload(data, 1, 0, 0, None)
    buffer = bytearray()
    append_record(buffer, 0, 0, record.key, record.value, record.headers)
    assert buffer == data
