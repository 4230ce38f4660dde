"""Memory for the bytes of columns: of their own, or from an allocator that lends it for a batch.

An allocator may take columns of bytes in place: fetched bytes are then received into its memory, and a column
is only the position and size of each value in it (``PLACED``), so that nothing is copied.

Invariant: one allocator at a time, for one batch. What does not fit gets memory of its own, which costs
time and nothing else.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

Array: TypeAlias = Any

#: A column of bytes in the allocator's memory: position and size of each value, a size below 0 for null.
PLACED = pa.struct([pa.field("at", pa.int64(), nullable=False), pa.field("size", pa.int64(), nullable=False)])


class ColumnAllocator(Protocol):
    @property
    def takes_pieces(self) -> bool:
        """Whether columns may be ``PLACED``."""

    def take(self, size: int) -> Array | None:
        """That many bytes; None where there are not enough left."""

    def place_of(self, data: Array) -> int | None:
        """The position of these bytes in its memory; None if they are elsewhere."""


#: The allocator in use: at most one.
_allocators: list[ColumnAllocator] = []


@contextmanager
def allocating_from(allocator: ColumnAllocator) -> Iterator[None]:
    """While the batch within is made, its columns get their memory from the allocator."""
    _allocators.append(allocator)
    try:
        yield
    finally:
        _allocators.pop()


def fresh_bytes(size: int) -> Array:
    """Memory for that many bytes."""
    taken = _allocators[-1].take(size) if _allocators else None
    return np.empty(size, np.uint8) if taken is None else taken


def bytes_for_pieces(size: int) -> memoryview | None:
    """Memory for bytes that columns may point into; None where no allocator offers any."""
    if not _allocators or not _allocators[-1].takes_pieces:
        return None
    taken = _allocators[-1].take(size)
    return None if taken is None else memoryview(taken)


def placed(data: Array, at: Array, sizes: Array) -> pa.Array | None:
    """A column of pieces of ``data`` in place; None where they have to be copied."""
    allocator = _allocators[-1] if _allocators else None
    if allocator is None or not allocator.takes_pieces or (start := allocator.place_of(data)) is None:
        return None
    places, lengths = (fresh_bytes(8 * len(at)).view(np.int64) for _ in range(2))
    np.add(at, start, out=places)
    lengths[:] = sizes
    numbers = [
        pa.Array.from_buffers(pa.int64(), len(at), [None, pa.py_buffer(each)]) for each in (places, lengths)
    ]
    return pa.Array.from_buffers(PLACED, len(at), [None], children=numbers)
