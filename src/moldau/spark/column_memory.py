"""Where the bytes of columns lie: in memory of their own, or in memory that was lent for a batch.

Law: who lends takes back before lending again, and one batch is made at a time. What does not fit has memory
of its own; nobody notices but by the time it takes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

import numpy as np

Array: TypeAlias = Any


class Lender(Protocol):
    def take(self, size: int) -> Array | None:
        """So many bytes; None where there are not so many."""


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
