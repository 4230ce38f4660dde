"""Records in columns: to the byte and to the value those of the general way, or left to it."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moldau.protocol.errors import KafkaError
from moldau.protocol.payload import append_record, decode_payload
from moldau.protocol.plain_payload import decode_values, encode_plain_records

#: Sizes on both sides of where lengths get a second and a third byte, and of what the tables have.
SIZES = [0, 1, 55, 58, 63, 64, 100, 1016, 1018, 1023, 1024, 8_180, 8_190, 20_000]
sizes = st.sampled_from(SIZES)


def written(values, times=None, key=None, headers=()):
    data = bytearray()
    for place, value in enumerate(values):
        append_record(data, 0 if times is None else times[place], place, key, value, headers)
    return bytes(data)


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=80), st.none() | st.binary(max_size=200)), max_size=20),
    st.booleans(),
)
@example([(None, b"x")] * 1100, True)
@example([(b"k", b"x" * 20_000)], True)
def test_plain_records_are_encoded_like_any_others(pairs, with_keys):
    expected = bytearray()
    for place, (key, value) in enumerate(pairs):
        append_record(expected, 0, place, key if with_keys else None, value, ())
    keys = [key for key, _ in pairs] if with_keys else None
    assert encode_plain_records([value for _, value in pairs], keys) == expected


@settings(max_examples=50, deadline=None)
@given(st.lists(sizes, max_size=12), st.sampled_from([1, 7, 100]))
def test_values_alone_are_encoded_like_any_others(found, times):
    values = [bytes(size) for size in found] * times
    assert encode_plain_records(values, None) == written(values)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(sizes, st.sampled_from([-1, 0, 63, 64, 8000])), min_size=1, max_size=12))
def test_values_are_read_as_they_were_written(pairs):
    values = [bytes(size) for size, _ in pairs]
    read = decode_values(written(values, [time for _, time in pairs]), len(values))
    if max(map(len, values)) > 8_180:
        assert read is None, "a length of three bytes is for the general way"
    else:
        assert read == values


@pytest.mark.parametrize(
    "data",
    [
        written([b"a", None]),
        written([b"a", b"b"], key=b""),
        written([b"a", b"b"], headers=(("h", None),)),
        written([b"a", b"b"], [0, 100_000]),
        written([b"a", b"b", b"c"]),
        written([b"a"]),
        written([b"a", b"b"])[:-1],
        written([b"a", b"b"]) + b"\x00",
        b"",
    ],
)
def test_what_is_unusual_is_left_to_the_general_way(data):
    assert decode_values(data, 2) is None


@pytest.mark.parametrize("count", [-1, 0, 1025])
def test_so_is_an_unusual_count(count):
    assert decode_values(written([b"a"] * max(count, 1)), count) is None


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from([0, 1, 3, 60, 70]), min_size=1, max_size=70), st.data())
def test_bytes_that_somebody_has_changed(found, drawn):
    """Whatever is read is what the general way reads, and never where that refuses the bytes."""
    values = [bytes(size) for size in found]
    data = bytearray(written(values))
    for _ in range(drawn.draw(st.integers(1, 3))):
        data[drawn.draw(st.integers(0, len(data) - 1))] = drawn.draw(st.integers(0, 255))
    read = decode_values(bytes(data), len(values))
    try:
        expected = decode_payload(bytes(data), len(values), 100, 0, None)
    except KafkaError:
        assert read is None
        return
    if read is not None:
        assert [(100 + place, None, value, ()) for place, value in enumerate(read)] == [
            (each.offset, each.key, each.value, each.headers) for each in expected
        ]
