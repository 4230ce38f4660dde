"""One client connection: bytes in, frames to the dispatcher, replies out in the order of requests.

Bytes arrive in a buffer that all connections of the loop share; whole frames are handled right out
of it, and only a frame that is still incomplete gets a buffer of its own, which is used again.
Replies are bytes and slices of files; a slice is read when the socket can take it.

Invariant: a frame is handled synchronously, so its view is valid only during the call. Nothing is allocated
from a length that the peer merely claims. Reading pauses while the peer does not take its replies or has
too many requests open.
"""

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, cast

from moldau.base.buffer_pool import BufferPool
from moldau.broker.purgatory import Parked

log = logging.getLogger("moldau.broker.connection")

#: Enough for a few hundred small requests or a dozen batches in one read.
RECEIVE_BUFFER_BYTES = 256 * 1024
#: A frame up to this size gets its buffer at once; a larger one grows with the bytes that arrive.
_TRUSTED_FRAME_BYTES = 4 * 1024 * 1024
#: How much of a file is read at a time for the socket.
_CHUNK_BYTES = 512 * 1024

_SIZE = struct.Struct(">i")


class Limits:
    """Bounds of a connection, from the settings."""

    __slots__ = ("frame_bytes", "inflight_requests", "outbound_bytes")

    def __init__(self, frame_bytes: int, inflight_requests: int, outbound_bytes: int) -> None:
        self.frame_bytes = frame_bytes
        self.inflight_requests = inflight_requests
        self.outbound_bytes = outbound_bytes


class ConnectionOwner(Protocol):
    """The server that a connection belongs to."""

    def opened(self, connection: "Connection") -> str | None: ...
    def tune(self, connected: socket.socket) -> None: ...
    def closed(self, connection: "Connection") -> None: ...
    def cancel(self, parked: Parked) -> None: ...


class Reply:
    """A place in the order of replies; ``parts`` is set once the answer is known."""

    __slots__ = ("connection", "parked", "parts")

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection
        self.parts: list[Any] | None = None
        self.parked: Parked | None = None

    def fill(self, parts: list[Any]) -> None:
        self.parts = parts
        self.connection.flush_replies()


class Connection(asyncio.BufferedProtocol):
    def __init__(
        self,
        handle_frame: Callable[[memoryview, "Connection"], None],
        limits: Limits,
        scratch: memoryview,
        memory: BufferPool,
        listener_name: str,
        owner: ConnectionOwner,
    ) -> None:
        self._handle_frame = handle_frame
        self._limits = limits
        self._scratch = scratch
        self._memory = memory
        self.listener_name = listener_name
        self._owner = owner
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._partial: bytearray | memoryview | None = None
        self._filled = 0
        self._needed = 0
        self._replies: deque[Reply] = deque()
        self._outbound: deque[Any] = deque()
        self._outbound_bytes = 0
        self._corked = False
        self._write_paused = False
        self._read_paused = False
        self._stopped = False
        self.closing = False
        self.host = ""
        self.peer = ""
        #: The client id of the last request, raw and decoded: it is nearly always the next one's too.
        self.client_id_bytes = b""
        self.client_id = ""
        #: Requests since the last idle check; a connection without any and without open work is idle.
        self.requests = 0

    # --- the transport's side -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=1024 * 1024)
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if isinstance(peer, tuple) else str(peer)
        self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
        connected = transport.get_extra_info("socket")
        if connected is not None:
            self._owner.tune(connected)
        if (full := self._owner.opened(self)) is not None:
            self.close(full)

    def connection_lost(self, error: Exception | None) -> None:
        self.closing = True
        self._owner.closed(self)
        for reply in self._replies:
            if reply.parked is not None:
                self._owner.cancel(reply.parked)
        self._replies.clear()
        self._outbound.clear()
        self._partial = None

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._partial is None:
            return self._scratch
        return memoryview(self._partial)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._partial is None:
            self._take_frames(self._scratch, nbytes)
        else:
            self._filled += nbytes
            if self._filled == len(self._partial):
                self._partial_is_full()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self._pump()

    # --- frames in ------------------------------------------------------------------------------

    def _take_frames(self, view: memoryview, available: int) -> None:
        position = 0
        largest = self._limits.frame_bytes
        # Replies to requests that came together leave together: one system call, one wake of the peer.
        self._corked = True
        while available - position >= 4:
            (size,) = _SIZE.unpack_from(view, position)
            if size <= 0 or size > largest:
                self._refuse_size(size)
                return
            end = position + 4 + size
            if end > available:
                break
            self.requests += 1
            self._handle_frame(view[position + 4 : end], self)
            if self.closing:
                self._corked = False
                return
            position = end
        self._corked = False
        if self._outbound and not self._write_paused:
            self._pump()
        if position < available:
            self._keep_rest(view[position:available])
        if len(self._replies) > self._limits.inflight_requests:
            self._balance_reading()

    def _keep_rest(self, rest: memoryview) -> None:
        """Moves the start of an incomplete frame to a buffer of this connection."""
        if len(rest) < 4:
            self._partial = bytearray(4)
            self._needed = 4
        else:
            self._needed = 4 + _SIZE.unpack_from(rest)[0]
            trusted = max(_TRUSTED_FRAME_BYTES, 2 * len(rest))
            self._partial = self._memory.take(min(self._needed, trusted))
        self._filled = len(rest)
        self._partial[: self._filled] = rest

    def _partial_is_full(self) -> None:
        partial = self._partial
        assert partial is not None
        if self._needed == 4:
            (size,) = _SIZE.unpack_from(partial)
            if size <= 0 or size > self._limits.frame_bytes:
                self._refuse_size(size)
                return
            self._keep_rest(memoryview(partial))
        elif self._filled < self._needed:
            larger = bytearray(min(self._needed, 2 * len(partial)))
            larger[: self._filled] = partial
            self._partial = larger
        else:
            self._partial = None
            self.requests += 1
            self._handle_frame(memoryview(partial)[4 : self._needed], self)
            if len(self._replies) > self._limits.inflight_requests:
                self._balance_reading()

    def _refuse_size(self, size: int) -> None:
        head = _SIZE.pack(size)
        if head[:3] in (b"GET", b"POS", b"PUT", b"HEA", b"OPT", b"DEL"):
            guess = "; this looks like HTTP: the port speaks Kafka's protocol"
        elif head[:2] == b"\x16\x03":
            guess = "; this looks like TLS: the listener is plain text (security.protocol=PLAINTEXT)"
        elif size > 0:
            guess = f"; the limit is socket.request.max.bytes={self._limits.frame_bytes}"
        else:
            guess = ""
        self.close(f"a frame that claims {size} bytes{guess}")

    # --- replies out ----------------------------------------------------------------------------

    def reserve(self) -> Reply:
        """A place for an answer that comes later."""
        reply = Reply(self)
        self._replies.append(reply)
        return reply

    def send(self, parts: list[Any]) -> None:
        """An answer that is ready now; it still waits for those before it."""
        if self._replies:
            self.reserve().parts = parts
            self.flush_replies()
        else:
            self._write(parts)

    def flush_replies(self) -> None:
        replies = self._replies
        while replies and replies[0].parts is not None:
            self._write(cast(list[Any], replies.popleft().parts))
        if self._read_paused:
            self._balance_reading()

    def _write(self, parts: list[Any]) -> None:
        if self.closing:
            return
        for part in parts:
            self._outbound.append(part)
            self._outbound_bytes += len(part)
        if not self._corked and not self._write_paused:
            self._pump()
        if self._outbound_bytes > self._limits.outbound_bytes:
            self._balance_reading()

    def _pump(self) -> None:
        """Moves replies to the socket until it has enough for now."""
        outbound, transport = self._outbound, self._transport
        while outbound and not self._write_paused and not self.closing:
            part = outbound.popleft()
            if part.__class__ is bytearray:
                while outbound and outbound[0].__class__ is bytearray:
                    part += outbound.popleft()
                self._outbound_bytes -= len(part)
                transport.write(part)
                continue
            try:
                chunk = part.read_part(0, min(len(part), _CHUNK_BYTES))
            except OSError as error:
                self._cannot_go_on(f"reading {len(part)} bytes of a log failed: {error}")
                return
            if len(chunk) < len(part):
                if not chunk:
                    self._cannot_go_on(f"a log is {len(part)} bytes shorter than its index says")
                    return
                outbound.appendleft(part.rest(len(chunk)))
            self._outbound_bytes -= len(chunk)
            transport.write(chunk)
        if self._read_paused:
            self._balance_reading()

    def _balance_reading(self) -> None:
        """Back-pressure: no more requests are read while too much is owed to this peer."""
        limits = self._limits
        busy = (
            self._stopped
            or len(self._replies) > limits.inflight_requests
            or self._outbound_bytes > limits.outbound_bytes
        )
        if self.closing or busy == self._read_paused:
            return
        self._read_paused = busy
        if busy:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # --- the end --------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Nothing asked since the last check, nothing owed."""
        return not self.requests and not self._replies and not self._outbound

    @property
    def quiet(self) -> bool:
        """Everything that was asked is answered and handed to the system."""
        return not self._replies and not self._outbound and not self._transport.get_write_buffer_size()

    def stop_reading(self) -> None:
        """No more requests, for good; what was asked before is still answered."""
        self._stopped = True
        self._balance_reading()

    def _cannot_go_on(self, reason: str) -> None:
        """The length of a reply is promised already and its bytes are not to be had: nothing may follow."""
        self._outbound.clear()
        self.close(reason)

    def close(self, reason: str) -> None:
        """Ends the connection because of something the peer did; the log says what."""
        if not self.closing:
            log.warning("closing connection from %s on %s: %s", self.peer, self.listener_name, reason)
            self.finish()

    def finish(self) -> None:
        """Ends the connection in good order: what was answered before still goes out."""
        if not self.closing:
            self._corked = False
            self._pump()
            self.closing = True
            self._transport.close()

    def abort(self) -> None:
        """Ends the connection though its peer has not taken all that it was sent."""
        self._transport.abort()
