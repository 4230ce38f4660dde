"""One client connection: bytes in, frames to the dispatcher, replies out in the order of requests.

Bytes arrive in a buffer that all connections of the loop share; whole frames are handled right out
of it, and only a frame that is still incomplete gets a buffer of its own, which is used again.
Replies are bytes and slices of files; a slice is read when the socket can take it.

Invariant: a frame is handled synchronously, so its view is valid only during the call. Memory follows the
bytes that have arrived, never a length that the peer merely claims. No frame is handled while the peer does
not take its replies, has too many requests open, or waits for one that is answered alone; what has arrived
meanwhile is held back, and no more is read. Frames that do not fit one turn go on when others had theirs.
"""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, cast

from moldau.base.clock import stopwatch
from moldau.broker.bounds.flow_control import Intake, Limits
from moldau.broker.purgatory import Parked
from moldau.security.principals import ANONYMOUS, Identity

#: A frame gets its whole buffer when an eighth of it is there; until then one of four times what is there.
_TRUSTED_PART = 8
_GROWTH = 4
_SMALLEST_BUFFER_BYTES = 4096
#: Before a login the system tells of bytes when the rest of a request is there, or so many bytes of it.
_WAKE_BYTES = 64 * 1024
#: How much of a file is read at a time for the socket, and when answers that peers do not take add up.
_CHUNK_BYTES = 512 * 1024
_CROWDED_CHUNK_BYTES = 16 * 1024
#: A peer that has not taken so many bytes is waited for.
_WRITE_BUFFER_BYTES = 32 * 1024
#: Replies of one read leave together, but no more than about so many bytes.
_CORKED_BYTES = 64 * 1024
#: What a slice of a file costs while it waits.
_SLICE_BYTES = 512

_SIZE = struct.Struct(">i")
_NOBODY = Identity(ANONYMOUS)


class ConnectionOwner(Protocol):
    """The server that a connection belongs to."""

    @property
    def crowded(self) -> bool:
        """Whether answers that peers do not take have added up: then less of each is read ahead."""

    def opened(self, connection: "Connection") -> str | None: ...
    def tune(self, connected: socket.socket) -> None: ...
    def closed(self, connection: "Connection") -> None: ...
    def cancel(self, parked: Parked) -> None: ...
    def stalled(self, connection: "Connection", size: int) -> None:
        """The peer does not take what it was sent: so many bytes more are waiting in memory."""

    def flows(self, connection: "Connection") -> None:
        """The peer has taken what was waiting."""


class Reply:
    """A place in the order of replies; ``parts`` is set once the answer is known."""

    __slots__ = ("began_at", "connection", "handled_at", "parked", "parts")

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection
        self.parts: list[Any] | None = None
        self.parked: Parked | None = None
        #: When its request was begun, and when it began to wait; of no meaning for one that was answered at
        #: once.
        self.began_at = self.handled_at = 0.0

    def fill(self, parts: list[Any]) -> None:
        self.parts = parts
        self.connection.filled(self)

    def wait_with_others(self) -> None:
        """It is no longer answered alone: the requests after it may be handled."""
        self.connection.no_longer_alone(self)


class Connection(asyncio.BufferedProtocol):
    def __init__(
        self,
        handle_frame: Callable[[memoryview, "Connection"], None],
        limits: Limits,
        intake: Intake,
        listener_name: str,
        owner: ConnectionOwner,
    ) -> None:
        self._handle_frame = handle_frame
        self._limits = limits
        self._intake = intake
        self._rotation = intake.strangers if limits.of_strangers else intake.rotation
        self.listener_name = listener_name
        self._owner = owner
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._partial: bytearray | memoryview | None = None
        self._filled = 0
        self._needed = 0
        #: Whether the system tells of bytes only when there are several.
        self._wakes_late = False
        #: Bytes that have arrived and wait for their turn, from a position on.
        self._held: bytearray | memoryview | None = None
        self._held_at = 0
        self._queued = False
        self._replies: deque[Reply] = deque()
        self._alone: Reply | None = None
        self._outbound: deque[Any] = deque()
        self._outbound_bytes = 0
        self._corked = False
        self._write_paused = False
        self._read_paused = False
        self._stopped = False
        #: How many throttles hold it back; while there are any, nothing is read.
        self._muted = 0
        #: Whether no frame may be handled now.
        self._halted = False
        self.closing = False
        #: Whom the client has shown to be, and the same as the text that ACLs have.
        self.identity = _NOBODY
        self.principal = str(ANONYMOUS)
        self.host = ""
        self.peer = ""
        #: The client id of the last request, raw and decoded: it is nearly always the next one's too.
        self.client_id_bytes = b""
        self.client_id = ""
        #: Done when the last Produce request that waits for its turn was appended; None while none waits.
        self.produce_turn: asyncio.Future[None] | None = None
        #: Requests since the last idle check; a connection without any and without open work is idle.
        self.requests = 0
        #: When the bytes came that are handled now.
        self.read_at = 0.0
        self.bytes_in = 0
        self.bytes_out = 0
        #: What the client calls itself, as ApiVersions tells.
        self.software = ("unknown", "unknown")

    # --- the transport's side -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if isinstance(peer, tuple) else str(peer)
        self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
        connected = transport.get_extra_info("socket")
        if connected is not None:
            self._owner.tune(connected)
        if (full := self._owner.opened(self)) is not None:
            self.close(full)

    def connection_lost(self, error: Exception | None) -> None:
        self.closing = self._halted = True
        self._owner.closed(self)
        for reply in self._replies:
            if reply.parked is not None:
                self._owner.cancel(reply.parked)
        self._replies.clear()
        self._outbound.clear()
        self._partial = None
        self._drop_held()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._partial is None:
            return self._intake.scratch
        return memoryview(self._partial)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self.bytes_in += nbytes
        if self._held is None:
            self.read_at = stopwatch()
        if self._held is not None:  # on its way when reading was paused
            waiting = bytearray(memoryview(self._held)[self._held_at :])
            waiting += self._intake.scratch[:nbytes]
            self._held = waiting
            self._held_at = 0
        elif self._partial is None:
            scratch = self._intake.scratch
            if self._rotation.called and self._should_queue(scratch, nbytes):
                self._hold_back(scratch, 0, nbytes)
            else:
                self._take_frames(scratch, 0, nbytes)
        else:
            self._filled += nbytes
            if self._filled == len(self._partial):
                self._partial_is_full()
            if self._wakes_late:
                self._wake_when_whole()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._write_paused = self._halted = True
        self._owner.stalled(self, self._transport.get_write_buffer_size() + self._outbound_bytes)

    def resume_writing(self) -> None:
        self._write_paused = False
        self._owner.flows(self)
        self._pump()

    # --- who is there ---------------------------------------------------------------------------

    def identify(self, identity: Identity) -> None:
        self.identity = identity
        self.principal = str(identity.principal)

    def hand_over(self, handle_frame: Callable[[memoryview, "Connection"], None], limits: Limits) -> None:
        """Whoever handled frames so far lets another one do it from the next frame on."""
        self._handle_frame = handle_frame
        self._limits = limits
        self._rotation = self._intake.strangers if limits.of_strangers else self._intake.rotation

    @property
    def certificate(self) -> Any:
        """What the client's certificate says, as ``ssl`` gives it; None without one."""
        secured = self._transport.get_extra_info("ssl_object")
        return None if secured is None else secured.getpeercert()

    # --- frames in ------------------------------------------------------------------------------

    def _take_frames(self, view: memoryview, position: int, available: int) -> None:
        """Handles whole frames for as long as it may, and keeps what is left."""
        if self._halted:
            self._hold_back(view, position, available)
            return
        largest = self._limits.frame_bytes
        rotation = self._rotation
        look = rotation.frames_between_looks
        if not rotation.called and self._limits.of_strangers:
            rotation.begin_round()
        until = 0.0
        over = False
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
            position = end
            if self._halted or position == available:
                break
            if not rotation.called:
                rotation.begin_round()
            look -= 1
            if look <= 0:
                now = stopwatch()
                if not until:
                    until = now + rotation.turn_seconds
                elif now >= until:
                    over = True
                    break
        self._corked = False
        if self.closing:
            return
        if self._outbound and not self._write_paused:
            self._pump()
        if position < available and (over or self._halted):
            self._hold_back(view, position, available)
            return
        if self._held is not None:
            self._drop_held()
        if position < available:
            self._keep_rest(view[position:available])
        if self._read_paused:
            self._balance_reading()

    def _should_queue(self, view: memoryview, available: int) -> bool:
        """Whether others wait for their turn and this peer asks for more than one thing at once.

        Of those who have not logged in, everybody waits: there may be thousands, each with a request.
        """
        much = self._limits.of_strangers or (available > 4 and available > 4 + _SIZE.unpack_from(view)[0])
        return much and self._rotation.is_spent()

    def _hold_back(self, view: memoryview, position: int, available: int) -> None:
        """Keeps bytes that may not be handled now; nothing is read until they were."""
        if self._held is None:
            self._held = bytearray(view[position:available])
            self._held_at = 0
            self._intake.hold_back(1)
        else:
            self._held_at = position
        self._balance_reading()

    def _drop_held(self) -> None:
        if self._held is not None:
            self._held = None
            self._intake.hold_back(-1)

    def go_on(self) -> None:
        """The next turn of a connection that holds frames back."""
        self._queued = False
        held = self._held
        if held is not None and not self._halted:
            self._take_frames(memoryview(held), self._held_at, len(held))

    def _keep_rest(self, rest: memoryview) -> None:
        """Moves the start of an incomplete frame to a buffer of this connection."""
        if len(rest) < 4:
            self._partial = bytearray(4)
            self._needed = 4
        else:
            self._needed = 4 + _SIZE.unpack_from(rest)[0]
            self._partial = self._room(len(rest))
        self._filled = len(rest)
        self._partial[: self._filled] = rest
        if self._limits.of_strangers:
            self._wake_when_whole()

    def _room(self, arrived: int) -> bytearray | memoryview:
        """A buffer for a frame of which so many bytes have arrived."""
        if arrived * _TRUSTED_PART >= self._needed:
            return self._intake.memory.take(self._needed)
        return bytearray(min(self._needed, max(_GROWTH * arrived, _SMALLEST_BUFFER_BYTES)))

    def _wake_when_whole(self) -> None:
        """Lets the system tell of bytes only when the rest of a request is there, or much of it.

        Thousands who have not logged in may send a byte at a time, all at one moment. Under TLS part of what
        has arrived is in its layer, which the system does not count.
        """
        connected = self._transport.get_extra_info("socket")
        if self.closing or connected is None or self._transport.get_extra_info("ssl_object") is not None:
            return
        missing = 1 if self._partial is None else min(self._needed - self._filled, _WAKE_BYTES)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, missing)
        self._wakes_late = missing > 1

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
            larger = self._room(self._filled)
            larger[: self._filled] = partial
            self._partial = larger
        elif self._halted:
            self._partial = None
            self._held, self._held_at = partial, 0
            self._intake.hold_back(1)
            self._balance_reading()
        else:
            self._partial = None
            self.requests += 1
            self._handle_frame(memoryview(partial)[4 : self._needed], self)

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

    def reserve(self, *, alone: bool = False) -> Reply:
        """A place for an answer that comes later; no request is handled after one that is answered alone."""
        reply = Reply(self)
        self._replies.append(reply)
        if alone:
            self._alone = reply
            self._halted = True
        if len(self._replies) > self._limits.inflight_requests:
            self._balance_reading()
        return reply

    def filled(self, reply: Reply) -> None:
        if self._alone is reply:
            self._alone = None
        self.flush_replies()

    def no_longer_alone(self, reply: Reply) -> None:
        if self._alone is reply:
            self._alone = None
            self._balance_reading()

    def send(self, parts: list[Any]) -> None:
        """An answer that is ready now; it still waits for those before it."""
        if self._replies:
            self.reserve().parts = parts
            self.flush_replies()
        else:
            self._write(parts)

    def flush_replies(self) -> None:
        replies = self._replies
        if len(replies) > 1 and replies[0].parts is not None and not self._corked:
            self._corked = True  # they leave together, as those that are answered at once do
            while replies and replies[0].parts is not None:
                self._write(cast(list[Any], replies.popleft().parts))
            self._corked = False
            if self._outbound and not self._write_paused:
                self._pump()
        else:
            while replies and replies[0].parts is not None:
                self._write(cast(list[Any], replies.popleft().parts))
        if self._halted:
            self._balance_reading()

    def _write(self, parts: list[Any]) -> None:
        if self.closing:
            return
        if len(parts) == 1:
            self._outbound.append(parts[0])
            size = len(parts[0])
        else:
            self._outbound += parts
            size = sum(len(part) if part.__class__ is bytearray else _SLICE_BYTES for part in parts)
        self._outbound_bytes += size
        if self._write_paused:
            self._owner.stalled(self, size)
        elif not self._corked or self._outbound_bytes > _CORKED_BYTES:
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
                size = len(part)
                self._outbound_bytes -= size
                self.bytes_out += size
                transport.write(part)
                continue
            try:
                largest = _CROWDED_CHUNK_BYTES if self._owner.crowded else _CHUNK_BYTES
                chunk = part.read_part(0, min(len(part), largest))
            except OSError as error:
                self._cannot_go_on(f"reading {len(part)} bytes of a log failed: {error}")
                return
            if len(chunk) < len(part):
                if not chunk:
                    self._cannot_go_on(f"a log is {len(part)} bytes shorter than its index says")
                    return
                outbound.appendleft(part.rest(len(chunk)))
            else:
                self._outbound_bytes -= _SLICE_BYTES
            self.bytes_out += len(chunk)
            transport.write(chunk)
        if self._halted:
            self._balance_reading()

    def _balance_reading(self) -> None:
        """Back-pressure: no more requests are handled or read while too much is owed to this peer."""
        if self.closing:
            return
        limits = self._limits
        owed = (
            self._stopped
            or self._muted > 0
            or len(self._replies) > limits.inflight_requests
            or self._outbound_bytes > limits.outbound_bytes
        )
        self._halted = owed or self._alone is not None or self._write_paused
        if self._held is not None and not self._halted and not self._queued:
            self._queued = True
            self._rotation.add(self)
        pause = owed or self._held is not None
        if pause == self._read_paused:
            return
        self._read_paused = pause
        if pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # --- the end --------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Nothing asked since the last check, nothing owed."""
        return not self.requests and not self._replies and not self._outbound and self._held is None

    @property
    def quiet(self) -> bool:
        """Everything that was asked is answered and handed to the system."""
        return not self._replies and not self._outbound and not self._transport.get_write_buffer_size()

    def stop_reading(self) -> None:
        """No more requests, for good; what was asked before is still answered."""
        self._stopped = True
        self._balance_reading()

    def mute(self) -> None:
        """Reads no requests until ``unmute``, which is called once for each call of this."""
        self._muted += 1
        self._balance_reading()

    def unmute(self) -> None:
        self._muted -= 1
        self._balance_reading()

    def _cannot_go_on(self, reason: str) -> None:
        """The length of a reply is promised already and its bytes are not to be had: nothing may follow."""
        self._outbound.clear()
        self.close(reason)

    def close(self, reason: str) -> None:
        """Ends the connection because of something the peer did; the log says what."""
        if not self.closing:
            self._intake.complaints.closing(self.peer, self.listener_name, reason)
            self.finish()

    def finish(self) -> None:
        """Ends the connection in good order: what was answered before still goes out."""
        if not self.closing:
            self._corked = False
            self._pump()
            self.closing = self._halted = True
            self._transport.close()

    def give_up(self, reason: str) -> None:
        """Ends the connection at once because of something the peer did not do."""
        if not self.closing:
            self._intake.complaints.closing(self.peer, self.listener_name, reason)
            self.closing = self._halted = True
            self._outbound.clear()
            self.abort()

    def abort(self) -> None:
        """Ends the connection though its peer has not taken all that it was sent."""
        self._transport.abort()
