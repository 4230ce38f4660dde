"""Where the bytes of columns lie: in memory of their own, or in memory that was lent for a batch.

A lender may take columns of bytes as they lie: then what is fetched goes into its memory, and a column is
only where each piece begins and how long it is (``PLACED``); nothing is copied to stand one behind the other.

Invariant: who lends takes back before lending again, and one batch is made at a time. What does not fit has
memory of its own; nobody notices but by the time it takes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

Array: TypeAlias = Any

#: A column of bytes as they lie in the lender's memory: where, and how long, below 0 for a null.
PLACED = pa.struct([pa.field("at", pa.int64(), nullable=False), pa.field("size", pa.int64(), nullable=False)])


class Lender(Protocol):
    @property
    def takes_pieces(self) -> bool:
        """Whether columns may be ``PLACED``."""

    def take(self, size: int) -> Array | None:
        """So many bytes; None where there are not so many."""

    def place_of(self, data: Array) -> int | None:
        """Where in its memory these bytes lie; None for elsewhere."""


#: At most one.
_lenders: list[Lender] = []


@contextmanager
def lending(lender: Lender) -> Iterator[None]:
    """For the batch that is made within."""
    _lenders.append(lender)
    try:
        yield
    finally:
        _lenders.pop()


def fresh_bytes(size: int) -> Array:
    """Memory to write so many bytes to."""
    taken = _lenders[-1].take(size) if _lenders else None
    return np.empty(size, np.uint8) if taken is None else taken


def bytes_for_pieces(size: int) -> memoryview | None:
    """Memory for bytes that columns may then be pieces of; None where nobody lends any."""
    if not _lenders or not _lenders[-1].takes_pieces:
        return None
    taken = _lenders[-1].take(size)
    return None if taken is None else memoryview(taken)


def placed(data: Array, at: Array, sizes: Array) -> pa.Array | None:
    """A column of pieces of ``data`` as they lie; None where they have to be copied."""
    lender = _lenders[-1] if _lenders else None
    if lender is None or not lender.takes_pieces or (start := lender.place_of(data)) is None:
        return None
    places, lengths = (fresh_bytes(8 * len(at)).view(np.int64) for _ in range(2))
    np.add(at, start, out=places)
    lengths[:] = sizes
    numbers = [
        pa.Array.from_buffers(pa.int64(), len(at), [None, pa.py_buffer(each)]) for each in (places, lengths)
    ]
    return pa.Array.from_buffers(PLACED, len(at), [None], children=numbers)
