"""Connections between processes on one loop: bytes arrive later, in order, in pieces, or not at all.

A link between two processes may be cut in one direction or both. As with TCP, bytes wait until it heals, and
a process that tries to connect waits too; one whose peer has died learns of it only over a link that works.

Invariant: bytes of one direction of a connection arrive in the order in which they were written, each once.
What they meet depends on the seed and on nothing else.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from tests.cluster_simulation.processes import Process, ProcessLoop, current

_EOF = object()
_RESET = object()


class Network:
    def __init__(self, loop: "NetworkLoop", seed: int) -> None:
        self.loop = loop
        self._dice = Random(f"network {seed}")
        self.listeners: dict[int, Listener] = {}
        self.transports: list[SimulatedTransport] = []
        #: (from, to): nothing gets through.
        self.cut: set[tuple[str, str]] = set()
        #: Some networks are slow throughout: what lies between two steps of a broker is then long.
        self.longest_delay = self._dice.choice((0.003, 0.02, 0.08))
        self._next_port = 40_000

    def delay(self) -> float:
        # Mostly quick, and now and then slow enough to be overtaken by everything else.
        slow = self._dice.random() < 0.02
        return self._dice.uniform(0.0001, self.longest_delay * (20 if slow else 1))

    def piece(self, size: int) -> int:
        """How many bytes arrive together."""
        return size if self._dice.random() < 0.9 else self._dice.randint(1, size)

    def port(self) -> int:
        self._next_port += 1
        return self._next_port

    def is_cut(self, source: Process, target: Process) -> bool:
        return (source.name, target.name) in self.cut

    def cut_off(self, one: str, other: str, *, both: bool = True) -> None:
        self.cut.add((one, other))
        if both:
            self.cut.add((other, one))

    def heal(self) -> None:
        self.cut.clear()
        for transport in tuple(self.transports):
            transport.carry()

    def died(self, process: Process) -> None:
        """The kernel closes what a dead process had open."""
        for port, listener in tuple(self.listeners.items()):
            if listener.process is process:
                del self.listeners[port]
        for transport in tuple(self.transports):
            if transport.process is process:
                transport.send(_RESET)
                transport.ended = True

    async def connect(self, factory: Callable[[], Any], port: int) -> tuple[Any, Any]:
        process = current()
        assert process is not None
        while True:
            await asyncio.sleep(self.delay())
            listener = self.listeners.get(port)
            if listener is None or not listener.serving:
                raise ConnectionRefusedError(111, f"nobody listens at port {port}")
            there = listener.process
            if not (self.is_cut(process, there) or self.is_cut(there, process) or there.paused):
                break
        client_end = SimulatedTransport(self, process, factory(), ("127.0.0.1", port))
        server_end = SimulatedTransport(self, there, listener.factory(), ("127.0.0.1", self.port()))
        client_end.peer, server_end.peer = server_end, client_end
        self.transports += [client_end, server_end]
        there.call_soon(server_end.protocol.connection_made, server_end)
        client_end.protocol.connection_made(client_end)
        return client_end, client_end.protocol


class Listener:
    """What ``create_server`` returns."""

    def __init__(self, network: Network, process: Process, factory: Callable[[], Any], port: int) -> None:
        self._network = network
        self.process = process
        self.factory = factory
        self.port = port
        self.serving = False
        self.sockets = [self]

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    async def start_serving(self) -> None:
        self.serving = True

    def close(self) -> None:
        if self._network.listeners.get(self.port) is self:
            del self._network.listeners[self.port]

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""


class SimulatedTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: Network, process: Process, protocol: Any, peername: tuple[str, int]) -> None:
        super().__init__()
        self._network = network
        self.process = process
        self.protocol = protocol
        self.peer: SimulatedTransport | None = None
        self._peername = peername
        self._outbox: deque[Any] = deque()
        self._carrying = False
        self._inbox: deque[Any] = deque()
        self._reading = True
        self._closing = False
        #: Nothing more goes out of here, and nothing arrives here.
        self.ended = False

    # --- what protocols call ------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._peername if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The network takes everything at once."""

    def get_write_buffer_size(self) -> int:
        return 0

    def get_protocol(self) -> Any:
        return self.protocol

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self.process.call_soon(self._receive)

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: Any) -> None:
        if not self._closing:
            self.send(bytes(data))

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(bytes(part) for part in parts))

    def close(self) -> None:
        self._close(_EOF)

    def abort(self) -> None:
        self._close(_RESET)

    def _close(self, how: object) -> None:
        if self._closing:
            return
        self._closing = True
        self.send(how)
        self.process.call_soon(self._lost, None)

    def _lost(self, error: Exception | None) -> None:
        if not self.ended:
            self.ended = True
            self.protocol.connection_lost(error)
            self._forget()

    def _forget(self) -> None:
        if not self._outbox and self in self._network.transports:
            self._network.transports.remove(self)

    # --- on the way --------------------------------------------------------------------------------

    def send(self, item: Any) -> None:
        if not self.ended:
            self._outbox.append(item)
            self.carry()

    def carry(self) -> None:
        """Takes the next piece to the other side, after a while, if the link works."""
        peer = self.peer
        if self._carrying or not self._outbox or peer is None:
            return
        if self._network.is_cut(self.process, peer.process):
            return
        self._carrying = True
        # Nobody's callback: what is on the wire arrives although its sender has died.
        loop = self._network.loop
        loop.call_outside(self._network.delay(), self._arrive)

    def _arrive(self) -> None:
        self._carrying = False
        peer = self.peer
        assert peer is not None
        if self._network.is_cut(self.process, peer.process):
            return  # it was cut meanwhile: sent again when it heals
        item = self._outbox.popleft()
        if isinstance(item, bytes):
            size = self._network.piece(len(item)) if item else 0
            if size < len(item):
                self._outbox.appendleft(item[size:])
                item = item[:size]
        if not peer.ended:
            peer._inbox.append(item)
            peer.process.call_soon(peer._receive)
        self.carry()
        if self.ended:
            self._forget()

    def _receive(self) -> None:
        while self._inbox and self._reading and not self.ended:
            item = self._inbox.popleft()
            if item is _RESET:
                self._closing = True
                self._lost(ConnectionResetError(104, "Connection reset by peer"))
            elif item is _EOF:
                if not self._closing:
                    self.protocol.eof_received()
                    self.close()
            elif not self._closing:
                self._deliver(item)

    def _deliver(self, data: bytes) -> None:
        protocol = self.protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(data)
            return
        rest = memoryview(data)
        while rest and not self._closing:
            buffer = protocol.get_buffer(-1)
            size = min(len(buffer), len(rest))
            buffer[:size] = rest[:size]  # type: ignore[index]
            protocol.buffer_updated(size)
            rest = rest[size:]


class NetworkLoop(ProcessLoop):
    """The loop that a simulated cluster runs on; brokers and clients open their connections here."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.network = Network(self, seed)
        self._outside = contextvars.Context()

    def call_outside(self, seconds: float, callback: Callable[[], None]) -> None:
        """What happens to the world and not in a process."""
        self.call_later(seconds, callback, context=self._outside)

    async def create_server(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:  # type: ignore[override]
        process = current()
        assert process is not None
        port = port or self.network.port()
        if port in self.network.listeners:
            raise OSError(98, f"port {port} is in use")
        listener = Listener(self.network, process, protocol_factory, port)
        listener.serving = options.get("start_serving", True)
        self.network.listeners[port] = listener
        return listener

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:  # type: ignore[override]
        return await self.network.connect(protocol_factory, port)
