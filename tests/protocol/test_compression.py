"""Codecs: what clients write is read, what is broken is refused, and nothing grows past its limit."""

import functools
import gzip
import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.protocol.compression import (
    COMPRESSION_NAMES,
    Compression,
    codec_of,
    compress,
    decompress,
)
from moldau.protocol.errors import ErrorCode, KafkaError

GOLDEN = Path(__file__).parent.parent / "data" / "golden_bytes"
CODECS = [codec for codec in Compression if codec is not Compression.NONE]
LIMIT = 1 << 20
HEADER_SIZE = 61

#: Empty, short, with long repetitions, no codec makes it smaller, several blocks of every codec.
SAMPLES = [
    b"",
    b"a",
    b"moldau " * 1000,
    bytes((index * 2_654_435_761 >> 13) & 255 for index in range(5_000)),
    b"".join(b"%d," % (index * index) for index in range(60_000)),
]

codecs = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.label)


def golden(name: str) -> bytes:
    """The compressed records of a golden batch of the Java client."""
    return bytes.fromhex(json.loads((GOLDEN / f"{name}.json").read_text())["batches"][0]["hex"])[HEADER_SIZE:]


def golden_of_librdkafka(name: str) -> bytes:
    content = json.loads((GOLDEN / "librdkafka-codecs.json").read_text())
    return bytes.fromhex(content["by_codec"][name][0]["hex"])[HEADER_SIZE:]


def code_of(codec: int, data: bytes, limit: int = LIMIT) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        decompress(codec, data, limit)
    return caught.value.code


def decompress_or_code(codec: int, data: bytes) -> bytes | ErrorCode:
    try:
        return decompress(codec, data, LIMIT)
    except KafkaError as error:
        return error.code


def test_names_are_those_of_the_setting() -> None:
    assert list(COMPRESSION_NAMES) == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert all(codec.label == name for name, codec in COMPRESSION_NAMES.items())


@pytest.mark.parametrize("number", [-1, 5, 6, 7])
def test_numbers_without_a_codec(number: int) -> None:
    for call in (
        lambda: codec_of(number),
        lambda: compress(number, b""),
        lambda: decompress(number, b"", LIMIT),
    ):
        with pytest.raises(KafkaError) as caught:
            call()
        assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.slow
@codecs
@pytest.mark.parametrize("sample", SAMPLES, ids=len)
@pytest.mark.parametrize("level", [None, 1, 9])
def test_round_trip(codec: Compression, sample: bytes, level: int | None) -> None:
    packed = compress(codec, sample, level)
    assert type(packed) is bytes
    for buffer in (packed, bytearray(packed), memoryview(b"xx" + packed)[2:]):
        plain = decompress(codec, buffer, len(sample))
        assert type(plain) is bytes
        assert plain == sample
    assert compress(codec, memoryview(b"xx" + sample)[2:], level) == packed


@settings(deadline=None)
@given(st.sampled_from(list(Compression)), st.binary(max_size=5_000), st.integers(1, 40))
def test_round_trip_of_anything(codec: Compression, piece: bytes, times: int) -> None:
    assert decompress(codec, compress(codec, piece * times), len(piece) * times) == piece * times


def test_no_compression_keeps_to_the_limit_too() -> None:
    assert compress(Compression.NONE, bytearray(b"abc")) == b"abc"
    assert decompress(Compression.NONE, memoryview(b"abc"), 3) == b"abc"
    assert code_of(Compression.NONE, b"abc", 2) is ErrorCode.MESSAGE_TOO_LARGE


# The framings of other clients ------------------------------------------------------------------------------


@codecs
def test_what_java_and_librdkafka_write(codec: Compression) -> None:
    plain = decompress(codec, golden(codec.label), 132)
    assert plain == golden("uncompressed")
    assert decompress(codec, golden_of_librdkafka(codec.label), 132) == plain


@pytest.mark.parametrize("codec", [Compression.SNAPPY, Compression.LZ4], ids=lambda codec: codec.label)
def test_written_as_java_writes_it(codec: Compression) -> None:
    assert compress(codec, golden("uncompressed")) == golden(codec.label)


@codecs
@pytest.mark.parametrize("sample", SAMPLES[1:], ids=len)
def test_aiokafka_reads_ours_and_we_read_its_own(codec: Compression, sample: bytes) -> None:
    encode = getattr(aiokafka_codec, f"{codec.label}_encode")
    decode = getattr(aiokafka_codec, f"{codec.label}_decode")
    assert decode(compress(codec, sample)) == sample
    assert decompress(codec, bytes(encode(sample)), LIMIT) == sample


@pytest.mark.parametrize("level", [None, 1, 12])
@pytest.mark.parametrize("sample", SAMPLES, ids=len)
def test_lz4_is_a_frame_that_a_full_decoder_reads(sample: bytes, level: int | None) -> None:
    """The frame decoder checks the checksums that ours steps over."""
    assert bytes(cramjam.lz4.decompress(compress(Compression.LZ4, sample, level))) == sample


def test_lz4_frames_with_every_flag() -> None:
    sample = SAMPLES[4]
    compressor = cramjam.lz4.Compressor(level=1, content_checksum=True, block_linked=False)
    compressor.compress(sample)
    frame = bytes(compressor.finish())
    assert decompress(Compression.LZ4, frame, LIMIT) == sample
    with_size = frame[:4] + bytes([frame[4] | 0x08]) + frame[5:6] + struct.pack("<Q", 1 << 60) + frame[6:]
    assert decompress(Compression.LZ4, with_size, LIMIT) == sample
    assert code_of(Compression.LZ4, frame[:-1]) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("position", "byte"),
    [(0, 0x05), (4, 0x40), (4, 0x61), (4, 0x62), (4, 0xA0), (5, 0x30), (5, 0x41), (5, 0xC0)],
    ids=["magic", "linked", "dictionary", "reserved", "version", "small", "low bits", "high bit"],
)
def test_lz4_frames_that_java_does_not_read(position: int, byte: int) -> None:
    frame = bytearray(golden("lz4"))
    frame[position] = byte
    assert code_of(Compression.LZ4, bytes(frame)) is ErrorCode.CORRUPT_MESSAGE


def test_one_stream_behind_another() -> None:
    """Kafka's library reads on behind all but an lz4 frame."""
    for codec in (Compression.GZIP, Compression.ZSTD, Compression.SNAPPY):
        both = compress(codec, b"one,") + compress(codec, b"") + compress(codec, b"two")
        assert decompress(codec, both, 7) == b"one,two"
        assert code_of(codec, both, 6) is ErrorCode.MESSAGE_TOO_LARGE
    both = compress(Compression.LZ4, b"one") * 2
    assert code_of(Compression.LZ4, both) is ErrorCode.CORRUPT_MESSAGE


def test_gzip_members_have_a_bound() -> None:
    assert code_of(Compression.GZIP, gzip.compress(b"") * 1000) is ErrorCode.CORRUPT_MESSAGE


def test_zstd_skippable_frames_are_skipped() -> None:
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"12345"
    data = skippable + compress(Compression.ZSTD, b"content") + skippable
    assert decompress(Compression.ZSTD, data, LIMIT) == b"content"
    assert code_of(Compression.ZSTD, data[:-1]) is ErrorCode.CORRUPT_MESSAGE


def test_zstd_frames_without_a_content_size() -> None:
    assert decompress(Compression.ZSTD, without_content_size(SAMPLES[4]), LIMIT) == SAMPLES[4]


# Broken data ------------------------------------------------------------------------------------------------


@codecs
@pytest.mark.parametrize(
    "garbage", [b"", b"\x01", b"garbage that is no codec's data", bytes(100), b"\xff" * 100]
)
def test_garbage(codec: Compression, garbage: bytes) -> None:
    assert code_of(codec, garbage) is ErrorCode.CORRUPT_MESSAGE


@codecs
def test_every_truncation(codec: Compression) -> None:
    for packed in (golden(codec.label), golden_of_librdkafka(codec.label)):
        for size in range(len(packed)):
            outcome = decompress_or_code(codec, packed[:size])
            if outcome != b"" or codec is not Compression.SNAPPY:  # Java's framing of nothing is a header
                assert outcome is ErrorCode.CORRUPT_MESSAGE


@codecs
def test_bytes_behind_the_end(codec: Compression) -> None:
    assert code_of(codec, golden(codec.label) + b"tail") is ErrorCode.CORRUPT_MESSAGE


@settings(deadline=None)
@given(st.sampled_from(CODECS), st.data())
def test_flipped_bytes_never_raise_anything_else(codec: Compression, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, data.draw(st.sampled_from(SAMPLES))))
    for _ in range(data.draw(st.integers(1, 4))):
        near_the_start = st.integers(0, min(40, len(packed) - 1))
        position = data.draw(near_the_start | st.integers(0, len(packed) - 1))
        packed[position] = data.draw(st.integers(0, 255))
    outcome = decompress_or_code(codec, bytes(packed))
    if isinstance(outcome, bytes):
        assert len(outcome) <= LIMIT
    else:
        assert outcome in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)


# Bombs ------------------------------------------------------------------------------------------------------


def without_content_size(plain: bytes, window: int = 0x88) -> bytes:
    """A zstd frame as a stream of unknown size has it; the window is 128 MiB, the most that decoders take."""
    frame = bytes(cramjam.zstd.compress(plain, 1))
    flags = frame[4]
    single_segment = bool(flags & 0x20)
    blocks_at = 5 + (not single_segment) + (int(single_segment), 2, 4, 8)[flags >> 6]
    return frame[:4] + bytes([flags & 0x1F, window]) + frame[blocks_at:]


def zstd_of_runs(count: int) -> bytes:
    """Blocks of 128 KiB in four bytes each."""
    block = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"x"
    return b"\x28\xb5\x2f\xfd\x00\x88" + block * count + b"\x01\x00\x00"


def snappy_of_copies(count: int) -> bytes:
    """``count`` copies of 64 bytes in three bytes each, behind one literal."""
    size = 1 + count * 64
    length = bytearray()
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes(length) + bytes([size]) + b"\x00x" + b"\xfe\x01\x00" * count


def lz4_of_matches(blocks: int, block_size: int = 4 << 20) -> bytes:
    """Blocks of 4 MiB, each a literal and one match as long as the block."""
    block = bytes(cramjam.lz4.compress_block(bytes(block_size), store_size=False))
    frame = b"\x04\x22\x4d\x18\x60\x70\x73" + (struct.pack("<I", len(block)) + block) * blocks
    return frame + bytes(4)


@functools.cache
def bombs() -> dict[str, tuple[Compression, bytes]]:
    """From a few bytes to a few hundred thousand each; all hold at least 6 MiB, most ten times that."""
    zeros = bytes(64 << 20)
    xerial = compress(Compression.SNAPPY, b"")
    copies = snappy_of_copies(100_000)
    return {
        "gzip": (Compression.GZIP, zlib.compress(zeros, 9, 31)),
        "gzip members": (Compression.GZIP, gzip.compress(bytes(800_000)) * 200),
        "snappy block": (Compression.SNAPPY, copies),
        "snappy stream": (Compression.SNAPPY, xerial + (struct.pack(">i", len(copies)) + copies) * 10),
        "snappy claim": (Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(1 << 20)),
        "lz4": (Compression.LZ4, lz4_of_matches(16)),
        "lz4 of small blocks": (Compression.LZ4, compress(Compression.LZ4, zeros)),
        "zstd": (Compression.ZSTD, bytes(cramjam.zstd.compress(zeros, 1))),
        "zstd without a size": (Compression.ZSTD, without_content_size(b"bombs" * (10 << 20))),
        "zstd frames": (Compression.ZSTD, without_content_size(b"bombs" * 200_000) * 200),
        "zstd of runs": (Compression.ZSTD, zstd_of_runs(50_000)),
        "zstd claim": (
            Compression.ZSTD,
            b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 62) + b"\x01\x00\x00",
        ),
    }


@pytest.mark.slow
def test_bombs_are_refused() -> None:
    for name, (codec, bomb) in bombs().items():
        code = code_of(codec, bomb)
        expected = ErrorCode.CORRUPT_MESSAGE if name == "snappy claim" else ErrorCode.MESSAGE_TOO_LARGE
        assert code is expected, name


_DEFUSE = """
import sys
from pathlib import Path
from moldau.protocol.compression import compress, decompress
from moldau.protocol.errors import KafkaError

def peak():
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0])

codec, limit = int(sys.argv[1]), int(sys.argv[2])
bomb = sys.stdin.buffer.read()
decompress(codec, compress(codec, bytes(1000)), 1000)
before = peak()
try:
    size = len(decompress(codec, bomb, limit))
except KafkaError:
    size = 0
print(size, peak() - before)
"""


def defuse(codec: Compression, bomb: bytes, limit: int) -> tuple[int, int]:
    """Bytes that came out, and KiB that the memory of a process has grown by at its peak.

    In a process of its own, as a peak never falls; and not by getrusage, whose peak a child inherits.
    """
    command = [sys.executable, "-c", _DEFUSE, str(int(codec)), str(limit)]
    output = subprocess.run(command, input=bomb, capture_output=True, check=True).stdout
    size, grown_kib = output.split()
    return int(size), int(grown_kib)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_bombs_take_little_memory() -> None:
    for name, (codec, bomb) in bombs().items():
        size, grown_kib = defuse(codec, bomb, LIMIT)
        assert size == 0
        # The limit, a block of 4 MiB, and what a decoder keeps for itself.
        assert grown_kib < 6 * 1024, f"{name}: {grown_kib} KiB"
    codec, bomb = Compression.GZIP, zlib.compress(bytes(64 << 20), 9, 31)
    size, grown_kib = defuse(codec, bomb, 64 << 20)
    assert size == 64 << 20
    assert grown_kib > 60 * 1024, "the measure would see it"


def test_a_claim_beyond_the_limit_is_not_believed() -> None:
    """What a stream says of its own size is compared with the limit before anything is decoded."""
    claim = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", 1 << 31) + b"\x01\x00\x00"
    assert code_of(Compression.ZSTD, claim, 1 << 30) is ErrorCode.MESSAGE_TOO_LARGE
    assert (
        code_of(Compression.SNAPPY, b"\x80\x80\x80\x80\x04" + bytes(10), 1 << 30) is ErrorCode.CORRUPT_MESSAGE
    )
    assert code_of(Compression.SNAPPY, b"\x80\x80\x01" + bytes(1000), 1 << 10) is ErrorCode.MESSAGE_TOO_LARGE


def test_the_word_of_the_native_decoder_for_a_full_output() -> None:
    """``decompress`` tells "too large" from "broken" by it where block headers leave both possible."""
    with pytest.raises(cramjam.DecompressionError, match=r"^failed to write whole buffer$"):
        cramjam.zstd.decompress_into(cramjam.zstd.compress(b"moldau" * 1000), bytearray(10))
