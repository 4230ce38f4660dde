"""Arrow batches for a JVM on the same machine, in memory that it maps: no byte of them goes through a socket.

Spark's protocol between a worker and its JVM stays as it is. What goes through it is a small note for each
batch that says where the batch's buffers are: in a shared segment, that is, anonymous memory (memfd) which
the JVM opens below ``/proc`` of this process. Where the decoder asks ``column_memory`` for space, fetched
bytes are received straight into the segment, and columns of bytes point into it; other columns are written
or copied there. The other side is ``ColumnarSource.java``. It acknowledges each batch that it has finished
with by a byte in a pipe, and a segment is written again only after that.

Invariant: a process has only a few segments, so that a fast reader waits for a slow query. No memory outlives
both processes, however they end. A JVM that has gone away is noticed within seconds.
"""

import mmap
import os
import select
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from moldau.spark.jvm.column_memory import PLACED, allocating_from
from moldau.spark.jvm.shared_columns import COLUMN

Array: TypeAlias = Any

#: One that is being written, one that the JVM works on, and one that is ready in between.
_SEGMENTS = 3
#: A batch above this goes in parts: the JVM maps two gigabytes at most.
_LARGEST_BYTES = 1024**3
_HEARTBEAT_SECONDS = 1.0
_GRAIN = 1024 * 1024
#: A segment does not grow above this for fetched bytes; larger ones are copied.
_LARGEST_FOR_PIECES = 64 * _GRAIN
_ALIGNMENT = 64
_SCHEMA = pa.schema([pa.field(COLUMN, pa.binary(), nullable=False)])
#: Process id, pipe, segment, rows; the segment's number and size; how many arrays, buffers and placed
#: columns. It is followed by the length and null count of each array, the position and size of each buffer,
#: and for each placed column its index, its null count and the positions of its two arrays. The array and
#: buffers of a placed column are empty.
_HEAD = struct.Struct("<iiiiqqiii")
_HEARTBEAT = bytes(_HEAD.size)
#: Spark's stream to the JVM buffers what is smaller than this, and it cannot be flushed from here.
_LEAST_NOTE_BYTES = max(int(os.environ.get("SPARK_BUFFER_SIZE", 0)), 65536) + 1


class _SharedSegment:
    """Memory that another process can open while this one lives."""

    _made = 0

    def __init__(self, size: int) -> None:
        size = -(-size // _GRAIN) * _GRAIN
        _SharedSegment._made += 1
        #: Distinguishes a new segment from an old one with the same file descriptor.
        self.number = _SharedSegment._made
        self.size = size
        self.descriptor = os.memfd_create("moldau-batches", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, size)
        self._memory = mmap.mmap(self.descriptor, size)
        self._bytes = np.frombuffer(self._memory, np.uint8)
        self._address = int(self._bytes.ctypes.data)
        self._used = 0
        #: See ``column_memory``.
        self.takes_pieces = False
        #: The size that would have been enough for the last request.
        self.wanted = size

    def clear(self, *, takes_pieces: bool) -> None:
        self._used = 0
        self.takes_pieces = takes_pieces

    def take(self, size: int) -> Array | None:
        start = -(-self._used // _ALIGNMENT) * _ALIGNMENT
        if start + size > self.size:
            self.wanted = start + size
            return None
        self._used = start + size
        return self._bytes[start : start + size]

    def place_of(self, data: Array) -> int | None:
        within = int(data.__array_interface__["data"][0]) - self._address
        return within if 0 <= within < self.size else None

    def pieces(self, column: Any) -> Any:
        """A copy of a column that is ``PLACED`` here, with its bytes one after the other."""
        from moldau.spark.read.fast_decode import binary_array

        at, sizes = (column.field(name).to_numpy() for name in ("at", "size"))
        return binary_array(self._bytes, at, sizes)

    def place(self, buffer: Any) -> tuple[int, int]:
        """The position of a buffer, which is copied here unless it was written here.

        -1 where there is no space.
        """
        if buffer is None or buffer.size == 0:
            return 0, 0
        within = buffer.address - self._address
        if not 0 <= within < self.size:
            space = self.take(buffer.size)
            if space is None:
                return -1, 0
            space[:] = np.frombuffer(buffer, np.uint8)
            within = int(space.ctypes.data) - self._address
        return within, buffer.size

    def close(self) -> None:
        """The memory is freed when neither process maps it any more."""
        os.close(self.descriptor)


#: Segments that the last task has left; a worker runs one task at a time.
_left: list[_SharedSegment] = []


def hand_over(batches: Iterable[Any], *, in_place: bool = False) -> Iterator[Any]:
    """Notes instead of the batches; with ``in_place`` columns of bytes may be ``PLACED``."""
    sharing = _Sharing(in_place)
    each = iter(batches)
    try:
        while True:
            yield from sharing.wait_for_segment()
            with allocating_from(sharing.segment):
                batch = next(each, None)
            if batch is None:
                break
            for index, part in enumerate(_parts(batch)):
                if index:
                    yield from sharing.wait_for_segment()
                yield sharing.put(part)
            del batch
        # If this process ended now, the JVM might not have opened the last segment yet.
        yield from sharing.until_taken()
    finally:
        sharing.close()


def _parts(batch: Any) -> Iterator[Any]:
    rows = batch.num_rows
    if rows > 1 and batch.nbytes > _LARGEST_BYTES:
        yield from _parts(batch.slice(0, rows // 2))
        yield from _parts(batch.slice(rows // 2))
    elif rows:
        yield batch


def _arrays(array: Any) -> Iterator[Any]:
    """An array and those within it, in the order in which Arrow names their buffers."""
    yield array
    kind = array.type
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            yield from _arrays(array.field(index))
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        yield from _arrays(array.values)


def _places(segment: _SharedSegment, columns: Sequence[Any]) -> tuple[tuple[int, int, int], list[int]] | None:
    """Puts the columns into the segment, and returns what a note says of them.

    None where there is no space.
    """
    nodes: list[int] = []
    buffers: list[tuple[int, int]] = []
    placed: list[int] = []
    for index, column in enumerate(columns):
        if column.type == PLACED:
            places, sizes = (column.field(name).buffers()[1] for name in ("at", "size"))
            nulls = int((np.frombuffer(sizes, np.int64) < 0).sum()) if len(column) else 0
            positions = segment.place(places)[0], segment.place(sizes)[0]
            if min(positions) < 0:
                return None
            placed += (index, nulls, *positions)
            nodes += (0, 0)
            buffers += [(0, 0)] * 3
        else:
            nodes += (number for each in _arrays(column) for number in (len(each), each.null_count))
            buffers += (segment.place(each) for each in column.buffers())
    if (-1, 0) in buffers:
        return None
    counts = len(nodes) // 2, len(buffers), len(placed) // 4
    return counts, [*nodes, *(number for place in buffers for number in place), *placed]


class _Sharing:
    """The segments of one task."""

    def __init__(self, in_place: bool) -> None:
        self._in_place = in_place
        self._free = _left[:] or [_SharedSegment(_GRAIN)]
        _left.clear()
        #: In the order in which the JVM acknowledges them.
        self._taken: deque[_SharedSegment] = deque()
        self._acknowledged, self._acknowledge = os.pipe()

    @property
    def segment(self) -> _SharedSegment:
        """The one that is written next."""
        return self._free[-1]

    def wait_for_segment(self) -> Iterator[Any]:
        """Yields heartbeats while that takes long."""
        self._take_back(0)
        if not self._free and len(self._taken) < _SEGMENTS:
            self._free.append(_SharedSegment(self._taken[-1].size))
        while not self._free:
            yield from self._wait()
        if self.segment.size < self.segment.wanted <= _LARGEST_FOR_PIECES:
            self._enlarge(self.segment.wanted)
        self.segment.clear(takes_pieces=self._in_place)

    def put(self, batch: Any) -> Any:
        """Puts all of the batch into the segment, and returns the note that says where."""
        if any(each.offset for column in batch.columns for each in _arrays(column)):
            # A slice of something larger: copy only what belongs to it.
            return self.put(pa.ipc.read_record_batch(batch.serialize(), batch.schema))
        columns, segment = batch.columns, self.segment
        found = _places(segment, columns)
        if found is None:
            columns = [segment.pieces(each) if each.type == PLACED else each for each in columns]
            buffers = (buffer for each in columns for buffer in each.buffers() if buffer is not None)
            self._enlarge(sum(buffer.size + _ALIGNMENT for buffer in buffers))
            segment = self.segment
            found = _places(segment, columns)
            assert found is not None, "the segment was made for these columns"
        counts, numbers = found
        self._taken.append(self._free.pop())
        head = (
            os.getpid(),
            self._acknowledge,
            segment.descriptor,
            batch.num_rows,
            segment.number,
            segment.size,
        )
        return _note(_HEAD.pack(*head, *counts) + struct.pack(f"<{len(numbers)}q", *numbers))

    def _enlarge(self, needed: int) -> None:
        self._free.pop().close()
        self._free.append(_SharedSegment(needed * 3 // 2))

    def until_taken(self) -> Iterator[Any]:
        while self._taken:
            yield from self._wait()

    def close(self) -> None:
        for descriptor in (self._acknowledged, self._acknowledge):
            if descriptor >= 0:
                os.close(descriptor)
        # A segment that was not acknowledged may still be read by the JVM: close it, do not write it again.
        _left.extend(self._free)
        for segment in self._taken:
            segment.close()

    def _wait(self) -> Iterator[Any]:
        if not self._take_back(_HEARTBEAT_SECONDS):
            yield _note(_HEARTBEAT)

    def _take_back(self, seconds: float) -> bool:
        if not self._taken or not select.select([self._acknowledged], [], [], seconds)[0]:
            return False
        acknowledged = os.read(self._acknowledged, 64)
        if not acknowledged:
            raise BrokenPipeError("Spark has ended the task")
        if self._acknowledge >= 0:
            # The JVM has opened the pipe; once our own end is closed, we see when the JVM closes its end.
            os.close(self._acknowledge)
            self._acknowledge = -1
        for _ in acknowledged:
            self._free.append(self._taken.popleft())
        return True


def _note(text: bytes) -> Any:
    """A batch of one row; not by ``pa.array``, which loads pandas when it is first called."""
    filled = text.ljust(-(-max(len(text), _LEAST_NOTE_BYTES) // _ALIGNMENT) * _ALIGNMENT, b"\0")
    edges = pa.py_buffer(struct.pack("<ii", 0, len(filled)))
    column = pa.Array.from_buffers(pa.binary(), 1, [None, edges, pa.py_buffer(filled)])
    return pa.RecordBatch.from_arrays([column], schema=_SCHEMA)
