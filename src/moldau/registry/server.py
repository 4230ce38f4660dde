"""Runs one instance of the registry: connects, reads the log, listens, and stops in good order.

Invariant: ``ready`` is called when requests are answered, not before. When it is stopped, the server
finishes what it is answering, leaves the group, and only then disconnects. Signals are left to the caller.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from moldau.client.replicated_state.election import Identity
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.security import PLAINTEXT, Security
from moldau.registry.api.app import application
from moldau.registry.service import GROUP, TOPIC, Registry, replicated_state_options
from moldau.web.limits import Limits
from moldau.web.server import Listener, ListenerOptions
from moldau.web.server import serve as serve_application


@dataclass(frozen=True, slots=True)
class ServerOptions:
    bootstrap_servers: str
    listener: ListenerOptions = field(default_factory=ListenerOptions)
    topic: str = TOPIC
    group_id: str = GROUP
    read_only: bool = False
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    limits: Limits = field(default_factory=Limits)
    timeout_ms: int = 30_000
    #: Towards the brokers.
    security: Security = PLAINTEXT


async def serve(options: ServerOptions, ready: Callable[[str, Registry], None], stop: asyncio.Event) -> None:
    """Runs until ``stop``; ``ready`` is called with the URL. OSError when the address is taken."""
    with Listener(options.listener) as listener:
        async with await Cluster.open(
            options.bootstrap_servers,
            client_id="moldau-registry",
            api_timeout_ms=options.timeout_ms,
            security=options.security,
        ) as cluster:
            await _run(options, cluster, listener, ready, stop)


async def _run(
    options: ServerOptions,
    cluster: Cluster,
    listener: Listener,
    ready: Callable[[str, Registry], None],
    stop: asyncio.Event,
) -> None:
    registry = Registry(
        cluster,
        Identity(listener.advertised_host, listener.port, listener.scheme),
        replicated_state_options(options.topic, options.group_id, timeout_ms=options.timeout_ms),
        read_only=options.read_only,
    )
    tls = options.listener.tls
    app = application(
        registry,
        users=options.users,
        limits=options.limits,
        tls=None if tls is None else tls.client_context(),
    )
    try:
        await registry.open()
        await serve_application(app, listener, lambda: ready(listener.url, registry), stop)
    finally:
        await registry.close()
        await app.close()
