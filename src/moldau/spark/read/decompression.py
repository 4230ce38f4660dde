"""Decompresses the batches of a fetch, one behind the other, into memory that is used again.

zstd goes a short way where it can: libzstd reads each batch straight to its place and keeps its tables.

Invariant: what comes out is what ``moldau.protocol.compression`` gives, and so are its errors: whatever the
short way cannot do goes the long one. Nothing is allocated for what a frame merely claims.
"""

import numpy as np

from moldau.base.buffer_pool import BufferPool
from moldau.protocol.compression import Compression, decompress
from moldau.spark.jvm.column_memory import bytes_for_pieces
from moldau.spark.kernels import libzstd

#: The room that is made at first; it grows with what comes out.
_FIRST_GROWTH = 3
_LEAST_ROOM_BYTES = 256 * 1024
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
        """The batches of these bytes come next; what came before is done with."""
        self._records = records
        self._source = _address(records)
        self._filled = 0
        self._make_room(int(len(records) * self._growth) + _LEAST_ROOM_BYTES)

    def add(self, codec: int, start: int, end: int, limit: int) -> int:
        """Decompresses [start, end) behind what is there; how many bytes. Errors as of ``decompress``."""
        if codec == Compression.ZSTD:
            size = self._add_zstd(start, end, limit)
            if size is not None:
                return size
        part = self._records[start:end]
        made = decompress(codec, part, limit) if codec else part
        if self._filled + len(made) > len(self._out):
            self._make_room(max(2 * len(self._out), self._filled + len(made)))
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
        """None where it is for the long way."""
        if self._zstd is None:
            self._zstd = libzstd.frame_reader()
        if self._zstd is None or self._records[start : start + 4] != _ZSTD_MAGIC:
            return None
        while True:
            room = min(limit, len(self._out) - self._filled)
            size = self._zstd.read(self._source + start, end - start, self._target + self._filled, room)
            if size >= 0:
                self._filled += size
                return size
            if size != libzstd.DOES_NOT_FIT or room == limit:
                return None
            self._make_room(2 * len(self._out))

    def _make_room(self, size: int) -> None:
        out = bytes_for_pieces(size) or self._memory.take(size)
        out[: self._filled] = self._out[: self._filled]
        self._out = out
        self._target = _address(out)


def _address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0]) if view else 0
