"""Rows that Spark's JVM has put into memory for this worker to map: the way of ``shared_batches`` back.

``jvm/RowRoom.java`` fills a room with keys and values, one behind the other, and their places and sizes;
a note of it comes through Spark's protocol. The rows are taken as they lie there.

Invariant: a room belongs to this process until ``done`` is called for its rows, and then to the JVM again.
Rows are not to be looked at after that.
"""

import mmap
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from moldau.spark.jvm.shared_columns import COLUMN
from moldau.spark.write.rows import Pieces, Rows, no_pieces

Array: TypeAlias = Any

#: Process, room, rows, which columns; the room's number and size, and the bytes of one column.
_NOTE = struct.Struct("<iiiiqqq")
_COLUMNS_AT = 64
_KEY, _PARTITION, _TIMESTAMP = 1, 2, 4
_NO_TIMESTAMP = -(2**63)
_KEPT_ROOMS = 16
_DONE, _FAILED = struct.pack("<q", 1), struct.pack("<q", 2)


@dataclass(frozen=True, slots=True)
class SharedRows:
    rows: Rows
    _memory: mmap.mmap

    def done(self) -> None:
        """The JVM may write the room again."""
        self._memory[:8] = _DONE

    def failed(self) -> None:
        """The JVM need not wait for the room: it will hear why."""
        self._memory[:8] = _FAILED


def are_notes(batch: Any) -> bool:
    """Whether a batch holds notes instead of rows."""
    return bool(batch.schema.names == [COLUMN])


def shared_rows(batches: Iterable[Any], now_ms: int) -> Iterator[SharedRows]:
    """The rows that notes tell of; signs of life among them are passed over."""
    for batch in batches:
        for note in batch.column(0):
            if (found := _rows(memoryview(note.as_buffer()), now_ms)) is not None:
                yield found


#: By process, number and size: what was opened before.
_rooms: dict[tuple[int, int, int], mmap.mmap] = {}


def _room(process: int, descriptor: int, number: int, size: int) -> mmap.mmap:
    key = process, number, size
    if (known := _rooms.get(key)) is not None:
        return known
    if len(_rooms) >= _KEPT_ROOMS:
        _rooms.clear()
    opened = os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDWR)
    try:
        _rooms[key] = mmap.mmap(opened, size)
    finally:
        os.close(opened)
    return _rooms[key]


def _rows(note: memoryview, now_ms: int) -> SharedRows | None:
    process, descriptor, count, columns, number, size, width = _NOTE.unpack_from(note)
    if process == 0:
        return None
    memory = _room(process, descriptor, number, size)
    content = np.frombuffer(memory, np.uint8)
    # As Arrow's own memory is: numba compiles a kernel anew for any other.
    content.flags.writeable = False

    def numbers(column: int) -> Array:
        return np.frombuffer(memory, np.int64, count, _COLUMNS_AT + column * width)

    timestamps = np.full(count, now_ms, np.int64)
    if columns & _TIMESTAMP:
        given = numbers(5)
        timestamps = np.where(given == _NO_TIMESTAMP, now_ms, given // 1000)
    rows = Rows(
        count,
        Pieces(content, numbers(0), numbers(1)) if columns & _KEY else no_pieces(count, -1),
        Pieces(content, numbers(2), numbers(3)),
        no_pieces(count, 0),
        None,
        numbers(4) if columns & _PARTITION else None,
        timestamps,
    )
    return SharedRows(rows, memory)
