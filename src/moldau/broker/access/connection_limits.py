"""How many connections there may be, of one address, of one listener and in all, and how many a second.

Invariant: counting a connection costs the same however many there are. What brokers need among each other is
never refused for the number of clients: one of those goes instead. How many connections wait is bounded.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable

from moldau.broker.connection import Connection
from moldau.cluster.configs.broker_settings import BrokerSettings, parse_connection_limits
from moldau.cluster.configs.listener_settings import ListenerSettings
from moldau.security.quotas import Rate

NO_LIMIT = 2147483647
#: As many as the system lets wait before they are accepted.
_WAITING_MOST = 1024
#: A client that has not been served by then has gone, most likely.
LONGEST_WAIT_SECONDS = 30.0
_ALL_LISTENERS = ""


class ConnectionLimits:
    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._by_host: Counter[str] = Counter()
        #: Those that are served; by the name of the listener.
        self._by_listener: Counter[str] = Counter()
        #: Those that wait for one to end, the first first.
        self._waiting: OrderedDict[Connection, None] = OrderedDict()
        self._served: set[Connection] = set()
        self._rates: dict[str, Rate] = {}
        self._overrides: tuple[str, dict[str, int]] = ("", {})

    # --- of one address -------------------------------------------------------------------------

    def crowd(self, host: str) -> str | None:
        """Why an address may have no further connection; None when it may."""
        limit = self._overridden().get(host, self._settings.max_connections_per_ip)
        return None if self._by_host[host] < limit else f"max.connections.per.ip={limit} is reached"

    def _overridden(self) -> dict[str, int]:
        text = self._settings.max_connections_per_ip_overrides
        if text != self._overrides[0]:
            self._overrides = (text, parse_connection_limits(text) or {})
        return self._overrides[1]

    # --- how many a second ----------------------------------------------------------------------

    def seconds_early(self, listener_name: str, now: float) -> float:
        """Counts a new connection; by how many seconds it comes too early, at most ``LONGEST_WAIT_SECONDS``.

        Brokers have no rate in all. One that would have to wait for longer is not counted: it is turned away.
        """
        settings = self._settings
        own = ListenerSettings(settings.layers, listener_name).own("max.connection.creation.rate")
        limits = [(listener_name, own)]
        if listener_name != settings.inter_broker_listener.name:
            limits.append((_ALL_LISTENERS, settings["max.connection.creation.rate"]))
        rates = [(self._rate(name), max(limit, 1)) for name, limit in limits if limit not in (None, NO_LIMIT)]
        for rate, _ in rates:
            rate.record(now, 1)
        early = max((rate.throttle_seconds(now, limit) for rate, limit in rates), default=0.0)
        if early >= LONGEST_WAIT_SECONDS:
            for rate, _ in rates:
                rate.record(now, -1)
        return min(early, LONGEST_WAIT_SECONDS)

    def _rate(self, name: str) -> Rate:
        rate = self._rates.get(name)
        if rate is None:
            windows, size = self._settings["quota.window.num"], self._settings["quota.window.size.seconds"]
            rate = self._rates[name] = Rate(windows, size)
        return rate

    # --- how many at once -----------------------------------------------------------------------

    def add(self, connection: Connection) -> None:
        """Counts a connection of an address, whether it is served or not."""
        self._by_host[connection.host] += 1

    def has_room(self, connection: Connection) -> bool:
        """Whether one more of its listener can be served now."""
        return self._listener_has_room(connection) and self._broker_has_room(connection)

    def _listener_has_room(self, connection: Connection) -> bool:
        name = connection.listener_name
        own = ListenerSettings(self._settings.layers, name).own("max.connections")
        return own is None or self._by_listener[name] < own

    def _broker_has_room(self, connection: Connection) -> bool:
        if len(self._served) < self._settings.max_connections:
            return True
        return connection.listener_name == self._settings.inter_broker_listener.name and self._make_room()

    def _make_room(self) -> bool:
        """Closes the client that has been silent for the longest time."""
        listener = self._settings.inter_broker_listener.name
        others: Iterable[Connection] = (each for each in self._served if each.listener_name != listener)
        oldest = min(others, key=lambda each: each.read_at, default=None)
        if oldest is not None:
            oldest.close(f"max.connections={self._settings.max_connections} is reached and a broker came")
        return oldest is not None

    def serve(self, connection: Connection) -> None:
        self._served.add(connection)
        self._by_listener[connection.listener_name] += 1

    def wait(self, connection: Connection) -> str | None:
        """Lets a connection wait for another one to end; why not, when too many wait already."""
        if len(self._waiting) >= _WAITING_MOST:
            return f"max.connections is reached, and {_WAITING_MOST} connections wait already"
        self._waiting[connection] = None
        return None

    def remove(self, connection: Connection, serve: Callable[[Connection], None]) -> None:
        """A connection has ended; calls ``serve`` for the one that waited for it."""
        self._by_host[connection.host] -= 1
        if not self._by_host[connection.host]:
            del self._by_host[connection.host]
        self._waiting.pop(connection, None)
        if connection not in self._served:
            return
        self._served.discard(connection)
        self._by_listener[connection.listener_name] -= 1
        for waiting in tuple(self._waiting):
            if not waiting.closing and self.has_room(waiting):
                del self._waiting[waiting]
                serve(waiting)
                if len(self._served) >= self._settings.max_connections:
                    return
