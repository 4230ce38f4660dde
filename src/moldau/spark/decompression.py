"""Decompresses the batches of a fetch; zstd by the zstandard library where it is installed.

``zstandard`` keeps its tables from one batch to the next, and batches of some ten kilobytes are read in half
of the time that way.

Law: what comes out is what ``moldau.protocol.compression`` gives, and so are its errors: whatever the short
way cannot do, several frames in one batch among it, goes the long one. Nothing is allocated for what a frame
merely claims.
"""

from typing import Any

from moldau.protocol.compression import Compression, decompress

try:
    import zstandard
except ImportError:
    zstandard = None  # type: ignore[assignment]

#: What the short way makes room for; batches that grow further go the long way.
_GROWTH = 8
_LEAST_ROOM_BYTES = 256 * 1024


class Decompressor:
    """For the batches of one fetch; not for several threads."""

    def __init__(self) -> None:
        self._zstd: Any = None if zstandard is None else zstandard.ZstdDecompressor()

    def decompress(self, codec: int, data: memoryview, limit: int) -> bytes:
        """The records of one batch; KafkaError as the function of this name has it."""
        if codec == Compression.ZSTD and self._zstd is not None:
            room = min(limit, len(data) * _GROWTH + _LEAST_ROOM_BYTES)
            try:
                # -1 where the frame does not tell; a size of 0 is believed there without a look at the rest.
                if 0 != zstandard.frame_content_size(data) <= room:
                    return bytes(self._zstd.decompress(data, max_output_size=room, allow_extra_data=False))
            except zstandard.ZstdError:
                pass
        return decompress(codec, data, limit)
