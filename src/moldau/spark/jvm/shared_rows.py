"""Rows that Spark's JVM has put into memory for this worker to map: ``shared_batches`` the other way round.

``RowSegment.java`` fills a segment with keys and values, one after the other, with their positions and sizes;
a note of it comes through Spark's protocol. The rows are read in place.

Invariant: a segment belongs to this process until ``done`` is called for its rows, and then to the JVM again;
its rows must not be read after that.
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

#: Process, segment, rows, which columns; the segment's number and size, and the bytes of one column.
_NOTE = struct.Struct("<iiiiqqq")
_COLUMNS_AT = 64
_KEY, _PARTITION, _TIMESTAMP = 1, 2, 4
_NO_TIMESTAMP = -(2**63)
_KEPT_SEGMENTS = 16
_DONE, _FAILED = struct.pack("<q", 1), struct.pack("<q", 2)


@dataclass(frozen=True, slots=True)
class SharedRows:
    rows: Rows
    _memory: mmap.mmap

    def done(self) -> None:
        """The JVM may write the segment again."""
        self._memory[:8] = _DONE

    def failed(self) -> None:
        """The JVM need not wait for the segment: the task is about to fail."""
        self._memory[:8] = _FAILED


def are_notes(batch: Any) -> bool:
    """Whether a batch holds notes instead of rows."""
    return bool(batch.schema.names == [COLUMN])


def shared_rows(batches: Iterable[Any], now_ms: int) -> Iterator[SharedRows]:
    """The rows that notes describe; heartbeats among them are skipped."""
    for batch in batches:
        for note in batch.column(0):
            if (found := _rows(memoryview(note.as_buffer()), now_ms)) is not None:
                yield found


#: Segments that are mapped already, by process, number and size.
_segments: dict[tuple[int, int, int], mmap.mmap] = {}


def _segment(process: int, descriptor: int, number: int, size: int) -> mmap.mmap:
    key = process, number, size
    if (known := _segments.get(key)) is not None:
        return known
    if len(_segments) >= _KEPT_SEGMENTS:
        _segments.clear()
    opened = os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDWR)
    try:
        _segments[key] = mmap.mmap(opened, size)
    finally:
        os.close(opened)
    return _segments[key]


def _rows(note: memoryview, now_ms: int) -> SharedRows | None:
    process, descriptor, count, columns, number, size, width = _NOTE.unpack_from(note)
    if process == 0:
        return None
    memory = _segment(process, descriptor, number, size)
    content = np.frombuffer(memory, np.uint8)
    # Read-only like Arrow's own memory: for any other kind numba would compile the kernels again.
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
