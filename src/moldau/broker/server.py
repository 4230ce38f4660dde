"""The listeners: where they bind, which connections they have, and how they end.

Invariant: a listener is on the loopback address unless its setting says otherwise. Stopping answers what
was asked before it closes.
"""

import asyncio
import ipaddress
import logging
import socket

from moldau.base.buffer_pool import BufferPool
from moldau.broker.connection import RECEIVE_BUFFER_BYTES, Connection, Limits
from moldau.broker.dispatch import Dispatch
from moldau.broker.purgatory import Parked, Purgatory
from moldau.cluster.configs.broker_settings import BrokerSettings, parse_connection_limits
from moldau.cluster.records import Endpoint

log = logging.getLogger("moldau.broker.server")


#: A burst of clients that connect at once waits here instead of being turned away; a setting may say less.
_BACKLOG = 1024
_NO_LIMIT = 2147483647
_BUFFERS = (
    ("socket.send.buffer.bytes", socket.SO_SNDBUF),
    ("socket.receive.buffer.bytes", socket.SO_RCVBUF),
)


class Server:
    def __init__(self, dispatch: Dispatch, purgatory: Purgatory, settings: BrokerSettings) -> None:
        self._dispatch = dispatch
        self._purgatory = purgatory
        self._settings = settings
        self.limits = Limits(
            settings.socket_request_max_bytes,
            settings.moldau_connection_inflight_requests_max,
            settings.moldau_connection_outbound_bytes_max,
        )
        # One buffer for all connections: each read is handled before the next one begins.
        self._scratch = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        # For frames that are larger: a producer sends one after the other.
        self._memory = BufferPool(kept=4, largest=2 * 1024 * 1024)
        self._servers: list[asyncio.Server] = []
        self.connections: set[Connection] = set()

    async def bind(self, listener: Endpoint) -> int:
        """Binds one listener and returns its port, which the system chose if the setting was 0.

        No connection is accepted before ``accept``.
        """
        loop = asyncio.get_running_loop()

        def accept() -> asyncio.BaseProtocol:
            return Connection(
                self._dispatch.frame,
                self.limits,
                self._scratch,
                self._memory,
                listener.name,
                self,
            )

        backlog = _BACKLOG
        if "socket.listen.backlog.size" in self._settings.static:
            backlog = self._settings.socket_listen_backlog_size
        server = await loop.create_server(
            accept, listener.host or None, listener.port, backlog=backlog, start_serving=False
        )
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        if not _is_loopback(listener.host) and listener.security_protocol == "PLAINTEXT":
            log.warning(
                "listener %s is open to the network on %s:%d without authentication; "
                "bind it to 127.0.0.1 or give it a SASL or TLS protocol",
                listener.name,
                listener.host or "*",
                port,
            )
        return port

    async def accept(self) -> None:
        for server in self._servers:
            await server.start_serving()

    # --- what connections report ----------------------------------------------------------------

    def opened(self, connection: Connection) -> str | None:
        """Takes a new connection in; a reason when there are too many."""
        settings = self._settings
        if len(self.connections) >= settings.max_connections:
            return f"max.connections={settings.max_connections} is reached"
        overrides = parse_connection_limits(settings.max_connections_per_ip_overrides) or {}
        limit = overrides.get(connection.host, settings.max_connections_per_ip)
        if limit < _NO_LIMIT and sum(each.host == connection.host for each in self.connections) >= limit:
            return f"max.connections.per.ip={limit} is reached"
        self.connections.add(connection)
        return None

    def tune(self, connected: socket.socket) -> None:
        """What the settings say about a socket; buffers are the system's unless they are set."""
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name, option in _BUFFERS:
            if name in self._settings.static and (size := self._settings[name]) > 0:
                connected.setsockopt(socket.SOL_SOCKET, option, size)

    def closed(self, connection: Connection) -> None:
        self.connections.discard(connection)

    def cancel(self, parked: Parked) -> None:
        self._purgatory.cancel(parked)

    def close_idle(self) -> None:
        """Called once per idle period: a connection that asked nothing since the last call goes.

        So does one that was to end and cannot, because its peer takes nothing more.
        """
        for connection in tuple(self.connections):
            if connection.closing:
                connection.abort()
            elif connection.idle:
                connection.finish()
            connection.requests = 0

    # --- the end --------------------------------------------------------------------------------

    async def stop(self, timeout_seconds: float) -> None:
        """No new connections, no new requests; answers go out, then everything is closed."""
        for server in self._servers:
            server.close()
        for connection in tuple(self.connections):
            connection.stop_reading()
        self._purgatory.expire_all()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        while any(not each.quiet for each in self.connections) and loop.time() < deadline:
            await asyncio.sleep(0.005)
        for connection in tuple(self.connections):
            connection.finish()
        await asyncio.sleep(0)
        for connection in tuple(self.connections):
            connection.abort()
        await asyncio.sleep(0)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
