"""Memory that is used again: for frames and buffers of a megabyte, which come by the thousand.

Fresh memory of that size is handed out by the kernel page by page, each of them emptied first; that costs
more than what is then done with it.

Invariant: a piece is used again only when nobody holds a view of it.
"""

_ROUNDED_TO = 64 * 1024


class ReusedMemory:
    """Keeps ``kept`` pieces at most, none above ``largest``; for one thread."""

    def __init__(self, kept: int = 2, largest: int = 1 << 62) -> None:
        self._pieces: list[bytearray] = []
        self._kept = kept
        self._largest = largest

    def take(self, size: int) -> memoryview:
        """So many bytes that nobody else looks at; what they hold is whatever was there before."""
        if size > self._largest:
            return memoryview(bytearray(size))
        in_use = []
        for piece in self._pieces:
            if not _unseen(piece):
                in_use.append(piece)
            elif len(piece) >= size:
                return memoryview(piece)[:size]
        # Pieces that are too small make room for one that is not.
        made = bytearray(-(-size // _ROUNDED_TO) * _ROUNDED_TO)
        self._pieces = [made, *in_use[: self._kept - 1]]
        return memoryview(made)[:size]


def _unseen(piece: bytearray) -> bool:
    """Whether no view of it is left: a bytearray with views does not let its size be changed."""
    try:
        piece.append(piece.pop())
    except BufferError:
        return False
    return True
