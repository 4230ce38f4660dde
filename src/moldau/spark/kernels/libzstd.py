"""libzstd's own function for whole frames, out of the library that the ``zstandard`` wheel carries.

The wheel's Python interface cannot write into memory of ours: it allocates a buffer for each batch, keeps a
window beside it and copies from one to the other. That is a third of the time for batches that were
compressed as a stream, as all of the Java client's are.

Invariant: only documented functions of libzstd are called. Where the library cannot be loaded there is no
reader, and callers use the wheel's Python interface.
"""

import ctypes
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

#: What ZSTD_getErrorCode returns for an output that is too small; fixed since libzstd 1.3.
_TOO_SMALL = 70
#: A result above this is an error code, counted down from the largest size_t: no output is as large.
_LARGEST_RESULT = 1 << 62

DOES_NOT_FIT = -1
BROKEN = -2


class FrameReader:
    """Decompresses whole frames from memory to memory; keeps its tables. Not for several threads."""

    def __init__(self, library: Any) -> None:
        self._decompress = library.ZSTD_decompressDCtx
        self._free = library.ZSTD_freeDCtx
        self._context = library.ZSTD_createDCtx()

    def read(self, source: int, size: int, target: int, capacity: int) -> int:
        """Decompresses from one address to another; the number of bytes, DOES_NOT_FIT or BROKEN."""
        result: int = self._decompress(self._context, target, capacity, source, size)
        if result < _LARGEST_RESULT:
            return result
        return DOES_NOT_FIT if (1 << 64) - result == _TOO_SMALL else BROKEN

    def __del__(self) -> None:
        self._free(self._context)


def frame_reader() -> FrameReader | None:
    """A new reader; None where the library is not there."""
    library = _load()
    return None if library is None else FrameReader(library)


@cache
def _load() -> Any:
    spec = find_spec("zstandard")
    if spec is None or spec.origin is None or ctypes.sizeof(ctypes.c_size_t) != 8:
        return None
    for file in Path(spec.origin).parent.glob("_cffi.*"):
        try:
            library = ctypes.CDLL(str(file))
            library.ZSTD_createDCtx.restype = ctypes.c_void_p
            library.ZSTD_createDCtx.argtypes = []
            library.ZSTD_freeDCtx.argtypes = [ctypes.c_void_p]
            library.ZSTD_decompressDCtx.restype = ctypes.c_size_t
            pointer, size = ctypes.c_void_p, ctypes.c_size_t
            library.ZSTD_decompressDCtx.argtypes = [pointer, pointer, size, pointer, size]
        except (OSError, AttributeError):
            continue
        return library
    return None
