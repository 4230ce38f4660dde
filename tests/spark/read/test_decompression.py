"""The short way through zstd gives what the long one gives, errors included."""

import cramjam
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("zstandard")

from moldau.protocol.compression import Compression, compress, decompress
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.spark.kernels import libzstd
from moldau.spark.read.decompression import Decompressor

LIMIT = 1 << 20
_decompressor = Decompressor()


def decompressed(codec: Compression, data: memoryview, limit: int) -> bytes:
    """The same object for all tests: whatever one leaves behind must not disturb the next."""
    _decompressor.begin(data)
    size = _decompressor.add(codec, 0, len(data), limit)
    out = bytes(_decompressor.end())
    assert size == len(out)
    return out


@given(st.binary(max_size=3000), st.integers(1, 300))
def test_one_frame(data: bytes, times: int) -> None:
    packed = memoryview(compress(Compression.ZSTD, data * times))
    assert decompressed(Compression.ZSTD, packed, LIMIT) == data * times


def test_several_frames_and_what_may_be_skipped_between_them() -> None:
    skipped = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"any"
    packed = bytes(cramjam.zstd.compress(b"one")) + skipped + bytes(cramjam.zstd.compress(b"two"))
    assert decompressed(Compression.ZSTD, memoryview(packed), LIMIT) == b"onetwo"


def test_data_that_grows_much() -> None:
    packed = memoryview(compress(Compression.ZSTD, bytes(LIMIT)))
    assert decompressed(Compression.ZSTD, packed, LIMIT) == bytes(LIMIT)
    with pytest.raises(KafkaError) as refused:
        decompressed(Compression.ZSTD, packed, LIMIT - 1)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_size_that_is_only_claimed() -> None:
    packed = bytearray(compress(Compression.ZSTD, b"x" * 1000))
    claiming = b"\x28\xb5\x2f\xfd\xe0" + (1 << 50).to_bytes(8, "little") + bytes(packed[-10:])
    with pytest.raises(KafkaError):
        decompressed(Compression.ZSTD, memoryview(claiming), LIMIT)


@example(bytes(9), 59, 9)  # a frame that claims to hold nothing
@given(st.binary(min_size=1, max_size=200), st.integers(0, 100), st.integers(1, 255))
def test_broken_data_is_told_as_ever(data: bytes, place: int, flip: int) -> None:
    packed = bytearray(compress(Compression.ZSTD, data))
    packed[place % len(packed)] ^= flip
    for broken in (bytes(packed), bytes(packed[: place % len(packed)])):
        outcomes: list[object] = []
        for way in (decompressed, decompress):
            try:
                outcomes.append(bytes(way(Compression.ZSTD, memoryview(broken), LIMIT)))
            except KafkaError as error:
                outcomes.append(error.code)
        assert outcomes[0] == outcomes[1]


def test_the_short_way_is_there() -> None:
    assert libzstd.frame_reader() is not None


@given(st.lists(st.tuples(st.sampled_from(Compression), st.binary(max_size=300), st.integers(1, 5000))))
def test_batches_stand_one_behind_the_other(batches: list[tuple[Compression, bytes, int]]) -> None:
    packed = [bytes(compress(codec, data * times)) for codec, data, times in batches]
    _decompressor.begin(memoryview(b"".join(packed)))
    at = 0
    for (codec, data, times), part in zip(batches, packed, strict=True):
        assert _decompressor.add(codec, at, at + len(part), 2 * LIMIT) == len(data) * times
        at += len(part)
    assert bytes(_decompressor.end()) == b"".join(data * times for _, data, times in batches)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_other_codecs(codec: Compression) -> None:
    assert decompressed(codec, memoryview(compress(codec, b"text")), LIMIT) == b"text"
