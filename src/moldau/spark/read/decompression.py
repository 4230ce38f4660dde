"""Decompresses the batches of a fetch, one after the other, into one buffer that is used again.

For zstd, libzstd writes each batch directly into that buffer where it can.

Invariant: results and errors are those of ``moldau.protocol.compression``, which does whatever libzstd alone
cannot. No memory is allocated from a size that a frame merely claims.
"""

import numpy as np

from moldau.base.buffer_pool import BufferPool
from moldau.protocol.compression import Compression, decompress
from moldau.spark.jvm.column_memory import bytes_for_pieces
from moldau.spark.kernels import libzstd

#: The size of the first buffer, from the size of its input; later ones follow the ratio seen so far.
_FIRST_GROWTH = 3
_MIN_BUFFER_BYTES = 256 * 1024
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class Decompressor:
    """For the fetches of one range, one after the other; not for several threads."""

    def __init__(self) -> None:
        self._zstd: libzstd.FrameReader | None = None
        self._memory = BufferPool()
        self._records = memoryview(b"")
        self._source = 0
        self._out = memoryview(b"")
        self._target = 0
        self._filled = 0
        #: What comes out is about so many times what goes in; at first a guess.
        self._growth = float(_FIRST_GROWTH)

    def begin(self, records: memoryview) -> None:
        """Starts a fetch: ``add`` takes batches of these bytes from now on."""
        self._records = records
        self._source = _address(records)
        self._filled = 0
        self._reserve(int(len(records) * self._growth) + _MIN_BUFFER_BYTES)

    def add(self, codec: int, start: int, end: int, limit: int) -> int:
        """Decompresses [start, end) and appends it.

        The number of bytes. Raises what ``decompress`` raises.
        """
        if codec == Compression.ZSTD:
            size = self._add_zstd(start, end, limit)
            if size is not None:
                return size
        part = self._records[start:end]
        made = decompress(codec, part, limit) if codec else part
        if self._filled + len(made) > len(self._out):
            self._reserve(max(2 * len(self._out), self._filled + len(made)))
        self._out[self._filled : self._filled + len(made)] = made
        self._filled += len(made)
        return len(made)

    def end(self) -> memoryview:
        """All that was added; its memory is used again when no view of it is left."""
        if self._records:
            self._growth = 1.1 * self._filled / len(self._records)
        out, self._out, self._records = self._out, memoryview(b""), memoryview(b"")
        return out[: self._filled]

    def _add_zstd(self, start: int, end: int, limit: int) -> int | None:
        """None where ``decompress`` has to do it."""
        if self._zstd is None:
            self._zstd = libzstd.frame_reader()
        if self._zstd is None or self._records[start : start + 4] != _ZSTD_MAGIC:
            return None
        while True:
            capacity = min(limit, len(self._out) - self._filled)
            size = self._zstd.read(self._source + start, end - start, self._target + self._filled, capacity)
            if size >= 0:
                self._filled += size
                return size
            if size != libzstd.DOES_NOT_FIT or capacity == limit:
                return None
            self._reserve(2 * len(self._out))

    def _reserve(self, size: int) -> None:
        out = bytes_for_pieces(size) or self._memory.take(size)
        out[: self._filled] = self._out[: self._filled]
        self._out = out
        self._target = _address(out)


def _address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0]) if view else 0
