"""Runs one REST proxy: connects, listens, and stops in good order.

Invariant: ``ready`` is called when requests are answered, not before. When it is stopped, the proxy finishes
what it is answering, its consumers leave their groups, and only then it disconnects. Signals are left to the
caller.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from moldau.client.replicated_state.election import Identity
from moldau.rest.api.app import application
from moldau.rest.login import REALM, Logins
from moldau.rest.proxy import Proxy, ProxyOptions
from moldau.security.principals import PrincipalMapping
from moldau.web.authentication import Authenticate, BasicAuthentication, MappedAuthentication, anybody
from moldau.web.limits import Limits
from moldau.web.server import Listener, ListenerOptions
from moldau.web.server import serve as serve_application


@dataclass(frozen=True, slots=True)
class ServerOptions:
    proxy: ProxyOptions
    listener: ListenerOptions = field(default_factory=ListenerOptions)
    limits: Limits = field(default_factory=lambda: Limits(max_body_bytes=10 * 1024 * 1024))
    #: Users of the proxy itself; what they ask for is done under the proxy's own principal.
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: Logins are those of the cluster, and are passed on to it.
    pass_login: bool = False
    #: The SASL mechanism of names and passwords that are passed on.
    login_mechanism: str = "PLAIN"
    #: Passwords of the cluster's users that certificates stand for, and how the names come from certificates.
    certificate_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    principal_mapping: str = "DEFAULT"


async def serve(options: ServerOptions, ready: Callable[[str, Proxy], None], stop: asyncio.Event) -> None:
    """Runs until ``stop``; ``ready`` is called with the URL. OSError when the address is taken."""
    with Listener(options.listener) as listener:
        proxy = Proxy(options.proxy, Identity(listener.advertised_host, listener.port, listener.scheme))
        tls = options.listener.tls
        app = application(
            proxy,
            authenticate=_authenticate(options),
            limits=_limits(options),
            tls=None if tls is None else tls.client_context(),
        )
        stopping = asyncio.create_task(_tell(proxy, stop), name="rest-stop")
        try:
            await proxy.open()
            await serve_application(app, listener, lambda: ready(listener.url, proxy), stop)
        finally:
            stopping.cancel()
            await proxy.close()
            await app.close()


async def _tell(proxy: Proxy, stop: asyncio.Event) -> None:
    await stop.wait()
    proxy.stopping = True


def _limits(options: ServerOptions) -> Limits:
    """Every consumer may have a long poll open beside all other requests."""
    limits, consumers = options.limits, options.proxy.max_consumers
    return replace(
        limits,
        max_concurrent_requests=limits.max_concurrent_requests + consumers,
        max_connections=limits.max_connections + consumers,
    )


def _authenticate(options: ServerOptions) -> Authenticate:
    if options.pass_login:
        logins = Logins(
            options.proxy.sessions.security,
            mechanism=options.login_mechanism,
            certificates=options.certificate_users,
            mapping=PrincipalMapping(options.principal_mapping),
        )
        return MappedAuthentication(logins.principal_of, REALM)
    return BasicAuthentication(options.users, REALM) if options.users else anybody
