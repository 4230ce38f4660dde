"""Arrow batches for a JVM on the same machine, in memory that it maps: no byte of them goes through a socket.

Spark's protocol between a worker and its JVM stays as it is; what goes through it is a note of some bytes for
each batch that says where it lies. The batch itself is written once, as an Arrow message, into a room: memory
without a name (memfd) that the JVM opens below ``/proc`` of this process. ``jvm/ColumnarSource.java`` is the
other side. It acknowledges what it has done with through a pipe, a byte for each batch, and a room is written
again only after that.

Law: there are a few rooms for each process, so that a fast reader waits for a slow query. Nothing outlives
both processes, however they end. A JVM that has gone away is noticed within seconds.
"""

import mmap
import os
import select
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from moldau.spark.shared_columns import COLUMN

#: What is written while the JVM works on the one before, and one that lies ready between.
_ROOMS = 3
#: A batch above this goes in parts: the JVM maps two gigabytes at most.
_LARGEST_BYTES = 1024**3
_SIGN_OF_LIFE_SECONDS = 1.0
_GRAIN = 1024 * 1024
_SCHEMA = pa.schema([pa.field(COLUMN, pa.binary(), nullable=False)])
#: Process, pipe, room, then number, size, first byte of the message.
_NOTE = struct.Struct("<iiiiqqq")
_SIGN_OF_LIFE = bytes(_NOTE.size)
#: Spark's stream to the JVM keeps back what is smaller than this, and nobody here can ask it not to.
_NOTE_BYTES = (max(int(os.environ.get("SPARK_BUFFER_SIZE", 0)), 65536) // 64 + 1) * 64


class _Room:
    """Memory that another process can open while this one lives."""

    _made = 0

    def __init__(self, size: int) -> None:
        _Room._made += 1
        #: Tells a new room from an old one with the same descriptor.
        self.number = _Room._made
        self.size = size
        self.descriptor = os.memfd_create("moldau-batches", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, size)
        self.memory = mmap.mmap(self.descriptor, size)

    def close(self) -> None:
        os.close(self.descriptor)
        self.memory.close()


#: Rooms that the task before has left; a worker has one task at a time.
_left: list[_Room] = []


def hand_over(batches: Iterable[Any]) -> Iterator[Any]:
    """Notes in place of the batches."""
    sharing = _Sharing()
    try:
        for batch in batches:
            for part in _parts(batch):
                yield from sharing.room_for(_size(part))
                yield sharing.put(part)
        # A process that ends here may be gone before the JVM has opened the last room.
        yield from sharing.until_taken()
    finally:
        sharing.close()


def _parts(batch: Any) -> Iterator[Any]:
    rows = batch.num_rows
    if rows > 1 and _size(batch) > _LARGEST_BYTES:
        yield from _parts(batch.slice(0, rows // 2))
        yield from _parts(batch.slice(rows // 2))
    elif rows:
        yield batch


def _size(batch: Any) -> int:
    return int(pa.ipc.get_record_batch_size(batch)) + batch.schema.serialize().size + 64


class _Sharing:
    """The rooms of one task."""

    def __init__(self) -> None:
        self._free = _left[:]
        _left.clear()
        #: In the order in which the JVM acknowledges them.
        self._taken: deque[_Room] = deque()
        self._acknowledged, self._acknowledge = os.pipe()

    def room_for(self, size: int) -> Iterator[Any]:
        """Waits for a room and makes it large enough; signs of life while that takes long."""
        if not self._free and len(self._taken) < _ROOMS:
            self._free.append(self._made(size))
        self._take_back(0)
        while not self._free:
            yield from self._wait()
        if self._free[-1].size < size:
            self._free.pop().close()
            self._free.append(self._made(size))

    def put(self, batch: Any) -> Any:
        """Writes the batch into the room and tells of it."""
        room = self._free.pop()
        self._taken.append(room)
        sink = pa.FixedSizeBufferWriter(pa.py_buffer(room.memory))
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        first = batch.schema.serialize().size
        return _note(
            _NOTE.pack(os.getpid(), self._acknowledge, room.descriptor, 0, room.number, room.size, first)
        )

    def until_taken(self) -> Iterator[Any]:
        while self._taken:
            yield from self._wait()

    def close(self) -> None:
        for descriptor in (self._acknowledged, self._acknowledge):
            if descriptor >= 0:
                os.close(descriptor)
        # A room that was not acknowledged may still be looked at: it is given up, not written again.
        _left.extend(self._free)
        for room in self._taken:
            room.close()

    def _wait(self) -> Iterator[Any]:
        if not self._take_back(_SIGN_OF_LIFE_SECONDS):
            yield _note(_SIGN_OF_LIFE)

    def _take_back(self, seconds: float) -> bool:
        if not self._taken or not select.select([self._acknowledged], [], [], seconds)[0]:
            return False
        acknowledged = os.read(self._acknowledged, 64)
        if not acknowledged:
            raise BrokenPipeError("Spark has ended the task")
        if self._acknowledge >= 0:
            # The JVM has the pipe open now; without our own end, its end of it is seen.
            os.close(self._acknowledge)
            self._acknowledge = -1
        for _ in acknowledged:
            self._free.append(self._taken.popleft())
        return True

    @staticmethod
    def _made(size: int) -> _Room:
        return _Room(-(-size * 5 // 4 // _GRAIN) * _GRAIN)


def _note(text: bytes) -> Any:
    """A batch of one row; not by ``pa.array``, which loads pandas when it is first called."""
    filled = text.ljust(_NOTE_BYTES, b"\0")
    edges = pa.py_buffer(struct.pack("<ii", 0, len(filled)))
    column = pa.Array.from_buffers(pa.binary(), 1, [None, edges, pa.py_buffer(filled)])
    return pa.RecordBatch.from_arrays([column], schema=_SCHEMA)
