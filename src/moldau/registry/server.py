"""Runs one instance of the registry: connects, reads the log, listens, and stops in good order.

Invariant: the ready line is the caller's and comes when requests are answered, not before. When it is told
to stop the server finishes what it is answering, leaves the group, and only then hangs up. Signals are the
caller's.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from moldau.client.replicated_state.election import Identity
from moldau.client.transport.cluster import Cluster
from moldau.registry.api.app import Api, ApiOptions
from moldau.registry.service import GROUP, TOPIC, Registry, replicated_state_options

_STOP_SECONDS = 10


@dataclass(frozen=True, slots=True)
class ServerOptions:
    bootstrap_servers: str
    host: str = "127.0.0.1"
    #: 0 is a free port.
    port: int = 8081
    #: How the other instances reach this one; by default the host to listen on, or this machine's name.
    advertised_host: str | None = None
    topic: str = TOPIC
    group_id: str = GROUP
    read_only: bool = False
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls_cert: Path | None = None
    tls_key: Path | None = None
    max_request_bytes: int = 2 * 1024 * 1024
    timeout_ms: int = 30_000

    @property
    def scheme(self) -> str:
        return "http" if self.tls_cert is None else "https"


class _Server(uvicorn.Server):
    """Leaves signals alone, and tells when it listens."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._listening()


async def serve(options: ServerOptions, ready: Callable[[str, Registry], None], stop: asyncio.Event) -> None:
    """Runs until ``stop``; ``ready`` hears the URL. OSError when the address is taken."""
    with _listener(options) as listener:
        async with await Cluster.open(
            options.bootstrap_servers, client_id="moldau-registry", api_timeout_ms=options.timeout_ms
        ) as cluster:
            await _run(options, cluster, listener, ready, stop)


async def _run(
    options: ServerOptions,
    cluster: Cluster,
    listener: socket.socket,
    ready: Callable[[str, Registry], None],
    stop: asyncio.Event,
) -> None:
    port = listener.getsockname()[1]
    registry = Registry(
        cluster,
        Identity(_advertised(options), port, options.scheme),
        replicated_state_options(options.topic, options.group_id, timeout_ms=options.timeout_ms),
        read_only=options.read_only,
    )
    api = Api(registry, ApiOptions(options.users, options.max_request_bytes))
    config = _config(api, options)
    config.load()  # a certificate that cannot be read is found before anything is begun
    url = Identity(options.host, port, options.scheme).url
    server = _Server(config, lambda: ready(url, registry))

    async def end_when_told() -> None:
        await stop.wait()
        server.should_exit = True

    ending = asyncio.create_task(end_when_told(), name="registry-stop")
    try:
        await registry.open()
        await server.serve(sockets=[listener])
    finally:
        ending.cancel()
        await registry.close()
        await api.close()


def _advertised(options: ServerOptions) -> str:
    """An address that others can reach: one that stands for all of this machine is none."""
    if options.advertised_host is not None:
        return options.advertised_host
    return socket.gethostname() if options.host in ("0.0.0.0", "::", "") else options.host


def _listener(options: ServerOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listener = socket.create_server((options.host, options.port), family=family)
    # Connections inherit it. asyncio sets it only where a socket names its protocol, which this one does not,
    # and then an answer in two parts waits 40 ms for the client's acknowledgement of the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _config(api: Api, options: ServerOptions) -> uvicorn.Config:
    return uvicorn.Config(
        api,
        lifespan="off",
        interface="asgi3",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_STOP_SECONDS,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
    )
