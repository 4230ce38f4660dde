"""Standard input for an event loop: bytes as they come, from a terminal, a pipe or a file.

Invariant: waiting for input never blocks the loop. The descriptor stays blocking, because a terminal shares
it with standard output. This needs asyncio's own loop: uvloop would make the descriptor non-blocking.
"""

import asyncio
import io
import os
from collections.abc import AsyncIterator
from typing import BinaryIO

CHUNK_BYTES = 65_536


async def chunks(stream: BinaryIO) -> AsyncIterator[bytes]:
    """Everything up to the end of the stream."""
    try:
        descriptor = stream.fileno()
    except (OSError, io.UnsupportedOperation):
        descriptor = -1  # a stream in memory
    while data := await _next_chunk(stream, descriptor):
        yield data


async def _next_chunk(stream: BinaryIO, descriptor: int) -> bytes:
    if descriptor < 0:
        return stream.read(CHUNK_BYTES)
    await _until_readable(descriptor)
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except OSError:
        return b""  # the terminal has gone


async def _until_readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        if not readable.done():
            readable.set_result(None)

    try:
        loop.add_reader(descriptor, ready)
    except PermissionError:
        return  # a file on disk is always readable, and cannot be waited for
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)
