"""The four codecs of record batches, in the framings of Kafka's clients.

Invariant: every length inside compressed data is checked against the data and against ``limit`` before
memory is allocated for it. Malformed input raises ``KafkaError`` and nothing else. What Kafka's own library
cannot read is rejected, because Java consumers would be stuck on it. Pure.

``cramjam`` is loaded with the first batch that needs it: an idle broker is 1.6 MB smaller for that.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import TypeAlias

from moldau.protocol.errors import ErrorCode, KafkaError

#: ``collections.abc.Buffer`` exists only from Python 3.12 on.
Buffer: TypeAlias = bytes | bytearray | memoryview


class Compression(IntEnum):
    """The number of the codec in the attributes of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """The name in ``compression.type``."""
        return self.name.lower()


#: The codecs by their names in ``compression.type``.
COMPRESSION_NAMES: dict[str, Compression] = {codec.label: codec for codec in Compression}

_CODECS = tuple(Compression)


def codec_of(number: int) -> Compression:
    """The codec of this number; faster than the look-up of the enum."""
    if 0 <= number < len(_CODECS):
        return _CODECS[number]
    raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {number}")


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """``data`` compressed in a framing that every client reads; ``level`` None is the codec's default."""
    codec = codec_of(codec)
    if codec == Compression.NONE:
        return bytes(data)
    return _COMPRESSORS[codec](data, level)


def decompress(codec: int, data: Buffer, limit: int) -> bytes:
    """Decompresses data of any client, up to ``limit`` bytes.

    Raises CORRUPT_MESSAGE for corrupt or incomplete data and MESSAGE_TOO_LARGE for more than ``limit`` bytes;
    never allocates much more than ``limit``.
    """
    codec = codec_of(codec)
    if codec == Compression.NONE:
        if len(data) > limit:
            raise _too_large(codec, limit)
        return bytes(data)
    return _DECOMPRESSORS[codec](data, limit)


def _corrupt(codec: Compression, reason: object) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"broken {codec.label} data: {reason}")


def _too_large(codec: Compression, limit: int) -> KafkaError:
    message = f"the {codec.label} data holds more than the {limit} bytes allowed"
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, message)


# gzip ------------------------------------------------------------------------------------------------------

_GZIP_WINDOW_BITS = 31  # the largest window, with the gzip header
_GZIP_DEFAULT_LEVEL = 6
#: Clients write one member. Each further one costs a copy of the rest, so their number is bounded.
_GZIP_MAX_MEMBERS = 256


def _gzip_compress(data: Buffer, level: int | None) -> bytes:
    # The standard library's zlib is 1.5 times as fast here as cramjam's.
    return zlib.compress(data, _GZIP_DEFAULT_LEVEL if level is None else level, _GZIP_WINDOW_BITS)


def _gzip_decompress(data: Buffer, limit: int) -> bytes:
    parts = []
    remaining = limit
    rest: Buffer = data
    for _ in range(_GZIP_MAX_MEMBERS):
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        try:
            part = member.decompress(
                rest, remaining + 1
            )  # one byte more than allowed shows that there is more
        except zlib.error as error:
            raise _corrupt(Compression.GZIP, error) from None
        remaining -= len(part)
        if remaining < 0:
            raise _too_large(Compression.GZIP, limit)
        if not member.eof:
            raise _corrupt(Compression.GZIP, "it ends in the middle")
        parts.append(part)
        rest = member.unused_data
        if not rest:
            return parts[0] if len(parts) == 1 else b"".join(parts)
    raise _corrupt(Compression.GZIP, f"more than {_GZIP_MAX_MEMBERS} members")


# snappy ----------------------------------------------------------------------------------------------------

#: The header of Java's library: this magic, its version, and the oldest version that can read it.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_SIZE = 32 * 1024
#: A copy of 64 bytes has three bytes, so that no snappy block expands by more than this.
_SNAPPY_MAX_RATIO = 22

_int32 = struct.Struct(">i")


def _snappy_compress(data: Buffer, level: int | None) -> bytes:
    import cramjam

    view = memoryview(data)
    parts: list[Buffer] = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        parts += (_int32.pack(len(block)), block)
    return b"".join(parts)


def _snappy_decompress(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _snappy_block(view, limit, limit)
    parts = []
    remaining = limit
    position = 0
    while position < len(view):
        # Java accepts a header between any two blocks: streams may be concatenated.
        if view[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            if position > len(view):
                raise _corrupt(Compression.SNAPPY, "its header is cut off")
            continue
        if position + 4 > len(view):
            raise _corrupt(Compression.SNAPPY, "it ends inside the length of a block")
        (size,) = _int32.unpack_from(view, position)
        position += 4
        left = len(view) - position
        if not 0 < size <= left:
            raise _corrupt(Compression.SNAPPY, f"a block of {size} bytes where {left} are left")
        part = _snappy_block(view[position : position + size], remaining, limit)
        parts.append(part)
        remaining -= len(part)
        position += size
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy_block(block: memoryview, remaining: int, limit: int) -> bytes:
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * _SNAPPY_MAX_RATIO:
            raise _corrupt(Compression.SNAPPY, f"{len(block)} bytes claim to hold {size}")
        if size > remaining:
            raise _too_large(Compression.SNAPPY, limit)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _corrupt(Compression.SNAPPY, error) from None


# lz4 -------------------------------------------------------------------------------------------------------

_LZ4_MAGIC = 0x184D2204
#: The frame header of Java and librdkafka: independent blocks of up to 64 KiB without checksums, as the batch
#: has its own. The last byte is the checksum of the header.
_LZ4_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_SIZE = 64 * 1024
_LZ4_END = bytes(4)
_LZ4_STORED = 0x80000000
_LZ4_VERSION_MASK, _LZ4_VERSION = 0xC0, 0x40
_LZ4_INDEPENDENT, _LZ4_BLOCK_CHECKSUM, _LZ4_CONTENT_SIZE, _LZ4_CONTENT_CHECKSUM = 0x20, 0x10, 0x08, 0x04
_LZ4_RESERVED = 0x03  # one of the two bits requires a dictionary, which no consumer has
#: Kafka's default, for which its Java client uses the fast compressor.
_LZ4_DEFAULT_LEVEL = 9
#: One byte of input adds at most 255 bytes to a match.
_LZ4_MAX_RATIO = 255

_uint32_little = struct.Struct("<I")
_lz4_start = struct.Struct("<IBB")


def _lz4_compress(data: Buffer, level: int | None) -> bytes:
    import cramjam

    if level not in (None, _LZ4_DEFAULT_LEVEL):
        compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        compressor.compress(bytes(data))  # this class does not accept views
        return bytes(compressor.finish())
    view = memoryview(data)
    parts: list[Buffer] = [_LZ4_HEADER]
    for start in range(0, len(view), _LZ4_BLOCK_SIZE):
        plain = view[start : start + _LZ4_BLOCK_SIZE]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (_uint32_little.pack(len(block)), block)
        else:
            parts += (_uint32_little.pack(len(plain) | _LZ4_STORED), plain)
    parts.append(_LZ4_END)
    return b"".join(parts)


def _lz4_decompress(data: Buffer, limit: int) -> bytes:
    """Decodes block by block: three times as fast as the frame decoder, and the memory is bounded by a block.

    The checksums of a frame are skipped, since that of the batch covers the same bytes.
    """
    import cramjam

    parts = []
    remaining = limit
    scratch = bytearray()
    for block, stored, block_size in _lz4_blocks(memoryview(data)):
        if stored:
            part = block
        else:
            wanted = min(block_size, len(block) * _LZ4_MAX_RATIO)
            if len(scratch) < wanted:
                scratch = bytearray(wanted)
            try:
                size = cramjam.lz4.decompress_block_into(block, scratch)
            except cramjam.DecompressionError as error:
                raise _corrupt(Compression.LZ4, error) from None
            part = memoryview(scratch)[:size]
        remaining -= len(part)
        if remaining < 0:
            raise _too_large(Compression.LZ4, limit)
        parts.append(bytes(part))
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _lz4_blocks(view: memoryview) -> Iterator[tuple[memoryview, bool, int]]:
    """Each block of the frame, whether it is stored uncompressed, and its largest uncompressed size."""
    try:
        magic, flags, descriptor = _lz4_start.unpack_from(view)
        _check_lz4_frame(magic, flags, descriptor)
        block_size = 1 << (8 + 2 * (descriptor >> 4))
        position = 15 if flags & _LZ4_CONTENT_SIZE else 7
        while True:
            (word,) = _uint32_little.unpack_from(view, position)
            position += 4
            size = word & ~_LZ4_STORED
            if size == 0:
                break
            if size > min(block_size, len(view) - position):
                raise _corrupt(Compression.LZ4, f"a block of {size} bytes does not fit")
            yield view[position : position + size], bool(word & _LZ4_STORED), block_size
            position += size + (4 if flags & _LZ4_BLOCK_CHECKSUM else 0)
    except struct.error:
        raise _corrupt(Compression.LZ4, "it ends in the middle") from None
    position += 4 if flags & _LZ4_CONTENT_CHECKSUM else 0
    if position != len(view):
        raise _corrupt(Compression.LZ4, f"the frame ends at {position} of {len(view)} bytes")


def _check_lz4_frame(magic: int, flags: int, descriptor: int) -> None:
    """Rejects frames that Kafka's own library does not read."""
    if magic != _LZ4_MAGIC:
        raise _corrupt(Compression.LZ4, f"it starts with {magic:#010x}")
    if not flags & _LZ4_INDEPENDENT:
        raise _corrupt(Compression.LZ4, "linked blocks, which Kafka's clients do not read")
    if flags & _LZ4_VERSION_MASK != _LZ4_VERSION or flags & _LZ4_RESERVED:
        raise _corrupt(Compression.LZ4, f"unknown frame flags {flags:#04x}")
    if descriptor & 0x8F or descriptor >> 4 < 4:
        raise _corrupt(Compression.LZ4, f"unknown block descriptor {descriptor:#04x}")


# zstd ------------------------------------------------------------------------------------------------------

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE_MAGIC = 0x184D2A50  # and the fifteen numbers after it
_ZSTD_BLOCK_SIZE = 128 * 1024
_ZSTD_RAW, _ZSTD_RUN, _ZSTD_COMPRESSED = 0, 1, 2
_ZSTD_SINGLE_SEGMENT, _ZSTD_CHECKSUM = 0x20, 0x04
_ZSTD_DICTIONARY_ID_SIZES = (0, 1, 2, 4)
_ZSTD_CONTENT_SIZE_SIZES = (0, 2, 4, 8)
_ZSTD_DEFAULT_LEVEL = 3
#: The error of the native decoder for a too small output buffer.
_OUTPUT_FULL = "failed to write whole buffer"


def _zstd_compress(data: Buffer, level: int | None) -> bytes:
    import cramjam

    return bytes(cramjam.zstd.compress(data, _ZSTD_DEFAULT_LEVEL if level is None else level))


def _zstd_decompress(data: Buffer, limit: int) -> bytes:
    import cramjam

    bound = _zstd_bound(memoryview(data), limit)
    output = bytearray(min(bound, limit))
    try:
        size = cramjam.zstd.decompress_into(data, output)
    except cramjam.DecompressionError as error:
        if bound > limit and str(error) == _OUTPUT_FULL:
            raise _too_large(Compression.ZSTD, limit) from None
        raise _corrupt(Compression.ZSTD, error) from None
    return bytes(memoryview(output)[:size])


def _zstd_bound(view: memoryview, limit: int) -> int:
    """An upper bound of the uncompressed size, from the block headers of all frames."""
    bound = position = 0
    try:
        while position < len(view):
            (magic,) = _uint32_little.unpack_from(view, position)
            if magic & ~15 == _ZSTD_SKIPPABLE_MAGIC:
                (size,) = _uint32_little.unpack_from(view, position + 4)
                position += 8 + size
            elif magic == _ZSTD_MAGIC:
                frame_bound, position = _zstd_frame(view, position, limit)
                bound += frame_bound
            else:
                raise _corrupt(Compression.ZSTD, f"a frame starts with {magic:#010x}")
    except (struct.error, IndexError):
        raise _corrupt(Compression.ZSTD, "it ends in the middle") from None
    return bound


def _zstd_frame(view: memoryview, position: int, limit: int) -> tuple[int, int]:
    """An upper bound of the uncompressed size of the frame at ``position``, and where the frame ends."""
    flags = view[position + 4]
    single_segment = bool(flags & _ZSTD_SINGLE_SEGMENT)
    position += 5 if single_segment else 6  # a single-segment frame has no window descriptor
    position += _ZSTD_DICTIONARY_ID_SIZES[flags & 3]
    size_size = _ZSTD_CONTENT_SIZE_SIZES[flags >> 6] or int(single_segment)
    declared = int.from_bytes(view[position : position + size_size], "little")
    if size_size == 2:
        declared += 256  # as the format defines it
    if declared > limit:
        raise _too_large(Compression.ZSTD, limit)
    position += size_size
    bound = certain = 0
    last = False
    while not last:
        header = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        position += 3 + (1 if kind == _ZSTD_RUN else size)
        if kind == _ZSTD_COMPRESSED:
            bound += _ZSTD_BLOCK_SIZE
        else:
            bound += size
            certain += size
        if certain > limit:
            raise _too_large(Compression.ZSTD, limit)
    position += 4 if flags & _ZSTD_CHECKSUM else 0
    return min(bound, declared) if size_size else bound, position


_COMPRESSORS: dict[Compression, Callable[[Buffer, int | None], bytes]] = {
    Compression.GZIP: _gzip_compress,
    Compression.SNAPPY: _snappy_compress,
    Compression.LZ4: _lz4_compress,
    Compression.ZSTD: _zstd_compress,
}
_DECOMPRESSORS: dict[Compression, Callable[[Buffer, int], bytes]] = {
    Compression.GZIP: _gzip_decompress,
    Compression.SNAPPY: _snappy_decompress,
    Compression.LZ4: _lz4_decompress,
    Compression.ZSTD: _zstd_decompress,
}
