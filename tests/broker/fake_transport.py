"""A connection without a socket: bytes go in by hand, and what comes out is kept.

Invariant: a fake does what asyncio's transports do, and what the test tells it to, and nothing else.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Any

from moldau.broker.bounds.flow_control import Intake, Limits
from moldau.broker.bounds.turns import Rotation
from moldau.broker.connection import Connection
from moldau.broker.purgatory import Parked


class FakeTransport(asyncio.Transport):
    """Takes so many bytes, then asks for a pause until ``drain``; without a number it takes all."""

    def __init__(self, buffer_bytes: int | None = None, peer: Any = ("10.0.0.1", 4711)) -> None:
        super().__init__()
        self.protocol: Any = None
        self.buffer_bytes = buffer_bytes
        self.peer = peer
        self.written: list[bytes] = []
        self.buffered = 0
        self.reading = True
        self.closed = False
        self.aborted = False
        self.on_resume: Callable[[], None] = lambda: None

    @property
    def data(self) -> bytes:
        return b"".join(self.written)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.peer if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def write(self, data: Any) -> None:
        assert not self.closed, "nothing is written to a closed transport"
        self.written.append(bytes(data))
        if self.buffer_bytes is not None:
            self.buffered += len(data)
            if self.buffered >= self.buffer_bytes:
                self.protocol.pause_writing()

    def drain(self) -> None:
        self.buffered = 0
        self.protocol.resume_writing()

    def pause_reading(self) -> None:
        assert self.reading, "paused twice"
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading, "resumed though it was reading"
        self.reading = True
        self.on_resume()

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True


class FakeOwner:
    """A server with one connection, which it takes in unless ``full`` says why not."""

    def __init__(self) -> None:
        self.full: str | None = None
        self.connections: set[Connection] = set()
        self.cancelled: list[Parked] = []
        #: Bytes that each connection's peer does not take.
        self.unsent: dict[Connection, int] = {}
        self.crowded = False

    def opened(self, connection: Connection) -> str | None:
        if self.full is None:
            self.connections.add(connection)
        return self.full

    def tune(self, connected: Any) -> None:
        raise AssertionError("there is no socket")

    def closed(self, connection: Connection) -> None:
        self.connections.discard(connection)

    def cancel(self, parked: Parked) -> None:
        self.cancelled.append(parked)

    def stalled(self, connection: Connection, size: int) -> None:
        self.unsent[connection] = self.unsent.get(connection, 0) + size

    def flows(self, connection: Connection) -> None:
        self.unsent.pop(connection, None)


class FakeConnection:
    """A connection and both of its ends. Without a loop, ``run`` does what comes in its next turns."""

    def __init__(
        self,
        handle_frame: Callable[[memoryview, Connection], None],
        *,
        buffer_bytes: int | None = None,
        frame_bytes: int = 1 << 20,
        inflight_requests: int = 100,
        outbound_bytes: int = 1 << 20,
        of_strangers: bool = False,
        owner: FakeOwner | None = None,
        intake: Intake | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.owner = FakeOwner() if owner is None else owner
        self.transport = FakeTransport(buffer_bytes)
        self.transport.on_resume = lambda: self.call_soon(self._deliver)
        self.soon: list[Callable[[], None]] = []
        self.call_soon: Callable[..., object] = self.soon.append if loop is None else loop.call_soon
        self.unread = bytearray()
        self.connection = Connection(
            handle_frame,
            Limits(frame_bytes, inflight_requests, outbound_bytes, of_strangers=of_strangers),
            Intake(self._rotation(loop)) if intake is None else intake,
            "PLAINTEXT",
            self.owner,
        )
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)

    def _rotation(self, loop: asyncio.AbstractEventLoop | None) -> Rotation:
        """Without a loop time stands still: a turn is as long as it takes."""
        return Rotation(self.call_soon, lambda: 1.0) if loop is None else Rotation(self.call_soon)

    def feed(self, data: bytes) -> None:
        """Bytes from the peer, as the loop would hand them over: none while it does not read."""
        self.unread += data
        self._deliver()

    def _deliver(self) -> None:
        while self.unread and self.transport.reading and not self.transport.closed:
            buffer = self.connection.get_buffer(-1)
            size = min(len(buffer), len(self.unread))
            buffer[:size] = self.unread[:size]
            del self.unread[:size]
            self.connection.buffer_updated(size)

    def turn(self) -> None:
        """One turn of the loop."""
        soon, self.soon[:] = self.soon[:], []
        for callback in soon:
            callback()

    def run(self) -> None:
        """Turns of the loop for as long as there is something to do."""
        while self.soon:
            self.turn()

    def lose(self, error: Exception | None = None) -> None:
        self.transport.closed = True
        self.connection.connection_lost(error)


class FakeSlice:
    """A piece of a log that is read when there is space for it, or cannot be."""

    def __init__(self, data: bytes, *, fails_at: int | None = None, ends_at: int | None = None) -> None:
        self.data = data
        self.size = len(data)
        self.fails_at = fails_at
        self.ends_at = ends_at
        self.reads: list[int] = []

    def __len__(self) -> int:
        return self.size

    def read_part(self, start: int, size: int) -> bytes:
        if self.fails_at is not None and self.fails_at <= start:
            raise OSError(5, "Input/output error")
        end = start + size
        if self.ends_at is not None:
            end = min(end, max(self.ends_at, start))
        self.reads.append(size)
        return self.data[start:end]

    def rest(self, start: int) -> "FakeSlice":
        left = FakeSlice(
            self.data[start:],
            fails_at=None if self.fails_at is None else self.fails_at - start,
            ends_at=None if self.ends_at is None else self.ends_at - start,
        )
        left.reads = self.reads
        return left


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)
