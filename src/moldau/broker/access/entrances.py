"""The way in of each listener that asks who is there: TLS, certificates and SASL, put together from settings.

Invariant: a listener of another protocol than PLAINTEXT is bound only with everything that it needs; what is
missing is named before anything listens.
"""

import logging
import os
from collections.abc import Iterable

from moldau.base.settings import SettingError
from moldau.broker.access.authentication import SaslListener, certificate_identity, conversations
from moldau.broker.access.tls import ListenerContext, server_context
from moldau.broker.bounds.flow_control import Limits
from moldau.broker.connection import Connection
from moldau.broker.context import Services
from moldau.broker.dispatch import Dispatch
from moldau.cluster.configs.broker_settings import BrokerSettings
from moldau.cluster.configs.listener_settings import ListenerSettings
from moldau.cluster.records import Endpoint
from moldau.security.principals import PrincipalMapping
from moldau.security.tls import LiveContext

log = logging.getLogger("moldau.broker.access.entrances")

#: How often the files of certificates are looked at.
_WATCH_SECONDS = 10.0


class Entrance:
    """What one listener does with a connection before its first request."""

    def __init__(
        self, listener: Endpoint, tls: LiveContext | None, sasl: SaslListener | None, rules: str
    ) -> None:
        self.listener = listener
        self.tls = tls
        self.sasl = sasl
        self._mapping = PrincipalMapping(rules)

    @property
    def certificate_expires_at_ms(self) -> int | None:
        current = None if self.tls is None else self.tls.current
        return current.expires_at_ms if isinstance(current, ListenerContext) else None

    def welcome(self, connection: Connection) -> str | None:
        """Called for each new connection; a reason to turn it away."""
        if self.sasl is not None:
            self.sasl.expect(connection)
            return None
        if self.tls is None:
            return None
        try:
            identity = certificate_identity(connection.certificate, self._mapping)
        except ValueError as error:
            return str(error)
        if identity is not None:
            connection.identify(identity)
        return None

    def closed(self, connection: Connection) -> None:
        if self.sasl is not None:
            self.sasl.forget(connection)


def entrances(
    settings: BrokerSettings, services: Services, dispatch: Dispatch, limits: Limits
) -> dict[str, Entrance]:
    """Entrances by listener; SettingError when a listener lacks what its protocol needs."""
    found = {}
    for listener in settings.listeners:
        protocol = listener.security_protocol
        if protocol == "PLAINTEXT":
            continue
        own = ListenerSettings(settings.layers, listener.name)
        try:
            tls = LiveContext.around(server_context(own)) if protocol.endswith("SSL") else None
            sasl = None
            if protocol.startswith("SASL"):
                offered = conversations(own, services)
                sasl = SaslListener(listener, own, services, dispatch, limits, offered)
            rules = own["ssl.principal.mapping.rules"]
            found[listener.name] = Entrance(listener, tls, sasl, rules)
        except ValueError as error:
            raise SettingError("listeners", f"listener {listener.name} ({protocol}): {error}") from None
    if any(entrance.tls is not None for entrance in found.values()):
        watch = _StoreWatch(list(found.values()), settings)
        services.timers.every(_WATCH_SECONDS, watch.check)
    return found


class _StoreWatch:
    """Notices that a key store or a trust store is another file, or has other content."""

    def __init__(self, found: list[Entrance], settings: BrokerSettings) -> None:
        self._found = found
        self._settings = settings
        self._seen = self._stamps()

    def check(self) -> None:
        stamps = self._stamps()
        if stamps != self._seen:
            self._seen = stamps
            exchange_certificates(self._found, self._settings)

    def _stamps(self) -> list[tuple[str, int, int] | None]:
        stamps: list[tuple[str, int, int] | None] = []
        for entrance in self._found:
            own = ListenerSettings(self._settings.layers, entrance.listener.name)
            for name in ("ssl.keystore.location", "ssl.truststore.location"):
                path = own[name]
                try:
                    stat = os.stat(path) if path else None
                except OSError:
                    stat = None
                stamps.append(None if stat is None else (path, stat.st_mtime_ns, stat.st_size))
        return stamps


def exchange_certificates(found: Iterable[Entrance], settings: BrokerSettings) -> None:
    """Takes changed certificates for new connections; a change that cannot be used is only logged."""
    for entrance in found:
        if entrance.tls is None:
            continue
        try:
            own = ListenerSettings(settings.layers, entrance.listener.name)
            entrance.tls.current = server_context(own)
        except ValueError as error:
            log.error("listener %s keeps its certificate: %s", entrance.listener.name, error)
