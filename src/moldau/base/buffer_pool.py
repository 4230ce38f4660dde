"""A small pool of large buffers, for frames and batches of about a megabyte that come by the thousand.

The kernel clears every page of fresh memory, which costs more than the work that is then done in it.

Invariant: a buffer is handed out again only when no view of it is left.
"""

#: Sizes are rounded up to this, so that a slightly larger request fits the same buffer.
_ROUNDED_TO = 64 * 1024


class BufferPool:
    """Keeps at most ``kept`` buffers, none larger than ``largest`` bytes. Not safe for several threads."""

    def __init__(self, kept: int = 2, largest: int = 1 << 62) -> None:
        self._buffers: list[bytearray] = []
        self._kept = kept
        self._largest = largest

    def take(self, size: int) -> memoryview:
        """A view of ``size`` bytes that nobody else has a view of; the content is undefined."""
        if size > self._largest:
            return memoryview(bytearray(size))
        in_use = []
        for buffer in self._buffers:
            if not _is_free(buffer):
                in_use.append(buffer)
            elif len(buffer) >= size:
                return memoryview(buffer)[:size]
        # Every free buffer is too small: they are dropped in favour of a new one.
        buffer = bytearray(-(-size // _ROUNDED_TO) * _ROUNDED_TO)
        self._buffers = [buffer, *in_use[: self._kept - 1]]
        return memoryview(buffer)[:size]


def _is_free(buffer: bytearray) -> bool:
    """Whether no view of it is left: a bytearray that has views refuses to be resized."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True
