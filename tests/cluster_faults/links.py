"""Links between processes that tests can cut: small TCP proxies, all in one thread.

A link knows who speaks: its owner, or, where several brokers use one, the broker whose client id the first
request has. While a direction is cut its bytes wait, as packets do in a network that loses them, and go on
when it is healed. Invariant: nothing is changed, reordered or dropped.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine, Iterable
from typing import Any

#: What a broker calls itself to others.
_BROKER = "moldau-broker-"
_PIECE = 64 * 1024


class Network:
    """The thread of all links, and which directions are cut: pairs of names, from and to."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._cut: frozenset[tuple[str, str]] = frozenset()
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()

    def link(self, to: str, target_port: int, owner: str | None = None) -> "Link":
        return Link(self, to, target_port, owner)

    def cut(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._set(self._cut | frozenset(pairs))

    def heal(self) -> None:
        self._set(frozenset())

    def _set(self, cut: frozenset[tuple[str, str]]) -> None:
        async def change() -> None:
            self._cut = cut
            before, self._changed = self._changed, asyncio.Event()
            before.set()

        self.run(change())

    async def passable(self, source: str, destination: str) -> None:
        while (source, destination) in self._cut:
            await self._changed.wait()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        async def end() -> None:
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        self.run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Link:
    """One address that leads to a process; down, nobody listens there, as after the process's death."""

    def __init__(self, network: Network, to: str, target_port: int, owner: str | None) -> None:
        self._network = network
        self._to = to
        self._target_port = target_port
        self._owner = owner
        self._server: asyncio.Server | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.up()

    def up(self) -> None:
        async def listen() -> None:
            if self._server is None:
                self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

        self._network.run(listen())

    def down(self) -> None:
        async def end() -> None:
            if self._server is not None:
                self._server.close()
                self._server = None

        self._network.run(end())

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._network.keep(self._carry(reader, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            first, source = b"", self._owner
            if source is None:
                first, source = await _introduction(reader)
            behind = await asyncio.open_connection("127.0.0.1", self._target_port)
            with contextlib.closing(behind[1]):
                there = asyncio.ensure_future(self._pump(reader, behind[1], source, self._to, first))
                back = asyncio.ensure_future(self._pump(behind[0], writer, self._to, source, b""))
                try:
                    await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for each in (there, back):
                        each.cancel()
                    await asyncio.gather(there, back, return_exceptions=True)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        source: str,
        destination: str,
        data: bytes,
    ) -> None:
        """Until an end; that of a connection waits as well while the direction is cut."""
        with contextlib.suppress(OSError):
            while True:
                await self._network.passable(source, destination)
                writer.write(data)
                await writer.drain()
                data = await reader.read(_PIECE)
                if not data:
                    await self._network.passable(source, destination)
                    return


async def _introduction(reader: asyncio.StreamReader) -> tuple[bytes, str]:
    """The first request, and the name of the broker that sent it."""
    size = await reader.readexactly(4)
    frame = await reader.readexactly(*struct.unpack(">i", size))
    (length,) = struct.unpack_from(">h", frame, 8)
    client_id = frame[10 : 10 + max(length, 0)].decode()
    return size + frame, "broker" + client_id.removeprefix(_BROKER)
