"""The listeners: where they bind, which connections they have, and how they end.

Invariant: a listener is on the loopback address unless its setting says otherwise. Stopping answers what
was asked before it closes.
"""

import asyncio
import logging
import socket
from collections import defaultdict, deque
from collections.abc import Mapping

from moldau.base.host_names import is_loopback
from moldau.base.settings import SettingError
from moldau.broker.access.connection_limits import LONGEST_WAIT_SECONDS, NO_LIMIT, ConnectionLimits
from moldau.broker.access.entrances import Entrance
from moldau.broker.access.throttling import Throttling
from moldau.broker.bounds.complaints import Complaints
from moldau.broker.bounds.flow_control import Intake, Limits, UnsentAnswers
from moldau.broker.bounds.turns import STRANGERS_SECONDS, Rotation
from moldau.broker.connection import Connection
from moldau.broker.dispatch import Dispatch
from moldau.broker.purgatory import Parked, Purgatory
from moldau.cluster.configs.broker_settings import BrokerSettings
from moldau.cluster.records import Endpoint

log = logging.getLogger("moldau.broker.server")


#: A burst of clients that connect at once waits here instead of being turned away; a setting may say less.
_BACKLOG = 1024
#: A client that has not finished its TLS handshake by then is gone, or means no good.
_HANDSHAKE_SECONDS = 10.0
_LONGEST_WAIT_SECONDS = 1.0
#: So many requests of those who are gone are forgotten in one turn of the loop.
_CANCELLED_AT_ONCE = 500
_BUFFERS = (
    ("socket.send.buffer.bytes", socket.SO_SNDBUF),
    ("socket.receive.buffer.bytes", socket.SO_RCVBUF),
)


class ListenerTotals:
    """What a listener has seen of connections; bytes are of those that have ended."""

    __slots__ = ("bytes_in", "bytes_out", "open", "opened")

    def __init__(self, opened: int = 0, bytes_in: int = 0, bytes_out: int = 0) -> None:
        self.opened = opened
        self.open = 0
        self.bytes_in = bytes_in
        self.bytes_out = bytes_out

    def copy(self) -> "ListenerTotals":
        return ListenerTotals(self.opened, self.bytes_in, self.bytes_out)


class Server:
    def __init__(
        self,
        dispatch: Dispatch,
        purgatory: Purgatory,
        settings: BrokerSettings,
        descriptors: int = NO_LIMIT,
    ) -> None:
        """``descriptors``: how many file descriptors connections may take."""
        self._dispatch = dispatch
        self._purgatory = purgatory
        self._settings = settings
        self.limits = Limits(
            settings.socket_request_max_bytes,
            settings.moldau_connection_inflight_requests_max,
            settings.moldau_connection_outbound_bytes_max,
        )
        loop = asyncio.get_running_loop()
        self.intake = Intake(
            Rotation(loop.call_soon),
            strangers=Rotation(loop.call_soon, round_seconds=STRANGERS_SECONDS),
            complaints=Complaints(loop.call_later),
        )
        self._unsent = UnsentAnswers(settings.moldau_unsent_bytes_max)
        self._servers: list[asyncio.Server] = []
        #: By the name of the listener; without one, clients come in as they are.
        self.entrances: Mapping[str, Entrance] = {}
        #: Counts connections by address where there are quotas for them.
        self.throttling: Throttling | None = None
        self.connections: set[Connection] = set()
        #: By the name of the listener.
        self.totals: defaultdict[str, ListenerTotals] = defaultdict(ListenerTotals)
        self._among = ConnectionLimits(settings)
        self._descriptors = descriptors
        self._is_turning_away = False
        #: Requests that wait for somebody whose connection is gone.
        self._abandoned: deque[Parked] = deque()

    async def bind(self, listener: Endpoint) -> int:
        """Binds one listener and returns its port, which the system chose if the setting was 0.

        No connection is accepted before ``accept``.
        """
        self._check_address(listener)
        loop = asyncio.get_running_loop()
        entrance = self.entrances.get(listener.name)
        handle_frame, limits = self._dispatch.frame, self.limits
        if entrance is not None and entrance.sasl is not None:
            handle_frame, limits = entrance.sasl.frame, entrance.sasl.first_limits
        tls = None if entrance is None else entrance.tls

        def accept() -> asyncio.BaseProtocol:
            return Connection(
                handle_frame,
                limits,
                self.intake,
                listener.name,
                self,
            )

        backlog = _BACKLOG
        if "socket.listen.backlog.size" in self._settings.static:
            backlog = self._settings.socket_listen_backlog_size
        server = await loop.create_server(
            accept,
            listener.host or None,
            listener.port,
            backlog=backlog,
            start_serving=False,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else _HANDSHAKE_SECONDS,
        )
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    def _check_address(self, listener: Endpoint) -> None:
        """Nobody is let in by mistake: what others can reach asks who is there, unless a setting says no."""
        if listener.security_protocol != "PLAINTEXT" or is_loopback(listener.host):
            return
        where = f"listener {listener.name} on {listener.host or '*'} is open to the network"
        if not self._settings.moldau_listener_plaintext_allow:
            raise SettingError(
                "listeners",
                f"{where} without authentication: bind it to 127.0.0.1, give it TLS or SASL "
                "(docs/security.md), or set moldau.listener.plaintext.allow=true",
            )
        log.warning("%s without authentication, as moldau.listener.plaintext.allow says", where)

    async def accept(self) -> None:
        for server in self._servers:
            await server.start_serving()

    # --- what connections report ----------------------------------------------------------------

    def opened(self, connection: Connection) -> str | None:
        """Takes a new connection in; a reason when there are too many."""
        if len(self.connections) >= self._descriptors:
            self._turn_away(connection)
            return None
        if (crowd := self._among.crowd(connection.host)) is not None:
            return crowd
        self.connections.add(connection)
        self._among.add(connection)
        self.totals[connection.listener_name].opened += 1
        if self.throttling is not None and self.throttling.quotas:
            early = self.throttling.connected(connection.host)
            if early > 0:
                self._keep_waiting(connection, early)
                return None
        loop = asyncio.get_running_loop()
        early = self._among.seconds_early(connection.listener_name, loop.time())
        if early >= LONGEST_WAIT_SECONDS:
            return "max.connection.creation.rate is exceeded by far"
        if early > 0:
            connection.mute()
            loop.call_later(early, self._serve_late, connection)
            return None
        return self._serve(connection)

    def _serve(self, connection: Connection) -> str | None:
        """Serves a connection, or lets it wait for another one to end; a reason to turn it away."""
        if not self._among.has_room(connection):
            connection.mute()
            return self._among.wait(connection)
        self._among.serve(connection)
        entrance = self.entrances.get(connection.listener_name)
        return None if entrance is None else entrance.welcome(connection)

    def _serve_late(self, connection: Connection) -> None:
        """Serves a connection that has waited."""
        if connection in self.connections and not connection.closing:
            if (refused := self._serve(connection)) is not None:
                connection.close(refused)
            connection.unmute()

    def _keep_waiting(self, connection: Connection, seconds: float) -> None:
        """An address that connects too often is neither answered nor told at once: trying again is no use."""
        connection.hand_over(lambda frame, connection: None, self.limits)
        loop = asyncio.get_running_loop()
        loop.call_later(min(seconds, _LONGEST_WAIT_SECONDS), connection.abort)

    def _turn_away(self, connection: Connection) -> None:
        """Said once, not for every client that tries again and again."""
        if not self._is_turning_away:
            message = (
                "there are %d connections, all that the limit of open files allows (ulimit -n): further "
            )
            message += "ones are closed at once until some end"
            log.error(message, len(self.connections))
        self._is_turning_away = True
        connection.abort()

    def tune(self, connected: socket.socket) -> None:
        """What the settings say about a socket; buffers are the system's unless they are set."""
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name, option in _BUFFERS:
            if name in self._settings.static and (size := self._settings[name]) > 0:
                connected.setsockopt(socket.SOL_SOCKET, option, size)

    def closed(self, connection: Connection) -> None:
        self._unsent.forget(connection)
        if connection in self.connections:
            self.connections.discard(connection)
            self._among.remove(connection, self._serve_late)
            totals = self.totals[connection.listener_name]
            totals.bytes_in += connection.bytes_in
            totals.bytes_out += connection.bytes_out
            if self._is_turning_away:
                log.warning("new connections are welcome again")
                self._is_turning_away = False
        entrance = self.entrances.get(connection.listener_name)
        if entrance is not None:
            entrance.closed(connection)

    @property
    def crowded(self) -> bool:
        return self._unsent.crowded

    def stalled(self, connection: Connection, size: int) -> None:
        self._unsent.add(connection, size)

    def flows(self, connection: Connection) -> None:
        self._unsent.forget(connection)

    def cancel(self, parked: Parked) -> None:
        """Forgets it soon: a thousand connections may end at one moment, each with many that wait."""
        if not self._abandoned:
            asyncio.get_running_loop().call_soon(self._cancel_abandoned)
        self._abandoned.append(parked)

    def _cancel_abandoned(self) -> None:
        for _ in range(min(len(self._abandoned), _CANCELLED_AT_ONCE)):
            self._purgatory.cancel(self._abandoned.popleft())
        if self._abandoned:
            asyncio.get_running_loop().call_soon(self._cancel_abandoned)

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

    def abort(self) -> None:
        """Closes everything at once, without an answer to anybody."""
        for server in self._servers:
            server.close()
        for connection in tuple(self.connections):
            connection.abort()

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
