"""The kernels against their plain twin: the same columns and the same errors for the same bytes."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from moldau.protocol.compression import Compression
from moldau.protocol.control_records import Marker, encode_marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import AbortedTransaction
from moldau.protocol.records import Record, TimestampType, encode_batch
from moldau.spark.read import fast_decode, plain_decode
from moldau.spark.read.columns import Columns

BOTH = pytest.mark.parametrize("decode", [fast_decode.decode, plain_decode.decode], ids=["kernels", "plain"])
Decode = Callable[..., Columns]
EVERYTHING = {"name": "t-0", "first_offset": 0, "end_offset": 1 << 62, "aborted": None, "headers": True}


def rows(columns: Columns) -> list[tuple[Any, ...]]:
    headers = [None] * columns.rows if columns.headers is None else columns.headers.to_pylist()
    for array in (columns.key, columns.value, *([] if columns.headers is None else [columns.headers])):
        array.validate(full=True)
    return list(
        zip(
            columns.offset.to_pylist(),
            columns.timestamp.to_pylist(),
            columns.timestamp_type.to_pylist(),
            columns.key.to_pylist(),
            columns.value.to_pylist(),
            headers,
            strict=True,
        )
    )


def batch(first: int, *values: bytes | None, **options: Any) -> bytes:
    records = [Record(first + index, 1000 + index, b"k", value) for index, value in enumerate(values)]
    return bytes(encode_batch(records, base_offset=first, **options))


@BOTH
def test_nothing(decode: Decode) -> None:
    columns = decode(memoryview(b""), **{**EVERYTHING, "first_offset": 7})
    assert (columns.rows, columns.next_offset) == (0, 7)
    assert rows(columns) == []


@BOTH
@pytest.mark.parametrize("codec", list(Compression))
def test_every_codec(decode: Decode, codec: Compression) -> None:
    data = batch(5, b"one", b"", None, compression=codec) + batch(8, b"two")
    columns = decode(memoryview(data), **EVERYTHING)
    assert [row[4] for row in rows(columns)] == [b"one", b"", None, b"two"]
    assert columns.offset.to_pylist() == [5, 6, 7, 8]
    assert columns.next_offset == 9


@BOTH
def test_only_the_range(decode: Decode) -> None:
    data = batch(0, b"a", b"b", b"c") + batch(3, b"d", b"e") + batch(5, b"f")
    columns = decode(memoryview(data), **{**EVERYTHING, "first_offset": 1, "end_offset": 5})
    assert columns.offset.to_pylist() == [1, 2, 3, 4]


@BOTH
def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch(decode: Decode) -> None:
    data = batch(0, b"a") + batch(1, b"b")
    columns = decode(memoryview(data[:-3]), **EVERYTHING)
    assert columns.offset.to_pylist() == [0]
    assert columns.next_offset == 1


@BOTH
def test_the_brokers_time(decode: Decode) -> None:
    data = batch(0, b"a") + batch(
        1, b"b", b"c", timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=777
    )
    columns = decode(memoryview(data), **EVERYTHING)
    assert columns.timestamp.to_pylist() == [1000, 777, 777]
    assert columns.timestamp_type.to_pylist() == [0, 1, 1]


@BOTH
def test_aborted_transactions_are_left_out(decode: Decode) -> None:
    def of(producer_id: int, first: int, value: bytes) -> bytes:
        return batch(
            first, value, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
        )

    def end(producer_id: int, offset: int, marker: Marker) -> bytes:
        made = encode_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=1)
        made[0:8] = offset.to_bytes(8, "big")
        return bytes(made)

    data = (
        of(1, 0, b"bad")
        + of(2, 1, b"good")
        + end(1, 2, Marker(False, 0))
        + of(1, 3, b"fine")
        + end(2, 4, Marker(True, 0))
        + end(1, 5, Marker(True, 0))
    )
    aborted = [AbortedTransaction(1, 0)]
    committed = decode(memoryview(data), **{**EVERYTHING, "aborted": aborted})
    assert [row[4] for row in rows(committed)] == [b"good", b"fine"]
    assert committed.next_offset == 6
    everything = decode(memoryview(data), **EVERYTHING)
    assert [row[4] for row in rows(everything)] == [b"bad", b"good", b"fine"]


@BOTH
def test_a_wrong_checksum_is_told_with_its_offset(decode: Decode) -> None:
    data = bytearray(batch(0, b"a") + batch(1, b"value"))
    data[-2] ^= 1
    with pytest.raises(KafkaError, match="offset 1 has a wrong checksum") as refused:
        decode(memoryview(data), **EVERYTHING)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE


@BOTH
def test_what_is_no_batch(decode: Decode) -> None:
    with pytest.raises(KafkaError) as refused:
        decode(memoryview(b"\xff" * 100), **EVERYTHING)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE


record = st.tuples(
    st.none() | st.binary(max_size=300),
    st.none() | st.binary(max_size=300),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
    st.integers(-5, 1 << 40),
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(record, min_size=1, max_size=20), st.sampled_from(list(Compression)), st.integers(0, 3)
        ),
        max_size=4,
    ),
    st.integers(0, 30),
    st.integers(0, 60),
    st.booleans(),
)
def test_the_twin_says_the_same(batches: list[Any], first: int, end: int, headers: bool) -> None:
    data, offset = bytearray(), 0
    for content, codec, gap in batches:
        made = [
            Record(offset + index * (gap + 1), timestamp, key, value, tuple(pairs))
            for index, (key, value, pairs, timestamp) in enumerate(content)
        ]
        data += encode_batch(made, base_offset=offset, compression=codec)
        offset = made[-1].offset + 1 + gap
    options = {**EVERYTHING, "first_offset": first, "end_offset": end, "headers": headers}
    fast = fast_decode.decode(memoryview(data), **options)
    plain = plain_decode.decode(memoryview(data), **options)
    assert rows(fast) == rows(plain)
    if offset > first:
        assert fast.next_offset == plain.next_offset


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=120), st.integers(1, 8))
def test_records_of_any_bytes_are_refused_not_read_past_their_end(payload: bytes, count: int) -> None:
    data = bytearray(batch(0, *[b"x"] * count))
    whole = bytes(data[:61]) + payload
    made = bytearray(whole)
    made[8:12] = (len(made) - 12).to_bytes(4, "big")
    from moldau.protocol.records import update_crc

    update_crc(made, 0)
    outcomes = []
    for decode in (fast_decode.decode, plain_decode.decode):
        try:
            outcomes.append(rows(decode(memoryview(made), **EVERYTHING)))
        except KafkaError as error:
            outcomes.append(error.code)
    assert outcomes[0] == outcomes[1] or ErrorCode.CORRUPT_MESSAGE in outcomes
