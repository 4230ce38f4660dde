"""Standard input for an event loop: bytes as they come, from a terminal, a pipe or a file.

Law: reading happens in a thread of its own, straight from the descriptor, so that neither the loop nor the
end of the program waits for someone to type. No more than ``WAITING_CHUNKS`` chunks are held.
"""

import asyncio
import io
import os
import threading
from collections.abc import AsyncIterator
from typing import BinaryIO

CHUNK_BYTES = 65_536
WAITING_CHUNKS = 16


async def chunks(stream: BinaryIO) -> AsyncIterator[bytes]:
    """Everything up to the end of the stream."""
    try:
        descriptor = stream.fileno()
    except (OSError, io.UnsupportedOperation):
        while data := stream.read(CHUNK_BYTES):
            yield data
        return
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(WAITING_CHUNKS)

    def read() -> None:
        data = b"."
        while data:
            room.acquire()
            try:
                data = os.read(descriptor, CHUNK_BYTES)
            except OSError:
                data = b""  # the terminal has gone
            try:
                loop.call_soon_threadsafe(arrived.put_nowait, data)
            except RuntimeError:
                return  # the loop is closed: nobody listens any more

    threading.Thread(target=read, name="standard-input", daemon=True).start()
    while data := await arrived.get():
        room.release()
        yield data
