"""Runs an application: listens, answers, and stops in good order.

    with Listener(ListenerOptions(port=8081)) as listener:
        await serve(application, listener, ready, stop)

Invariant: ``ready`` is called when requests are answered, not before. When it is stopped, the server
accepts no more connections, finishes what it is answering, and gives up after a bounded time. Signals are
left to the caller.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from moldau.base.host_names import is_loopback
from moldau.web.application import Application
from moldau.web.authentication import PEER_CERTIFICATE
from moldau.web.tls import TlsOptions

log = logging.getLogger("moldau.web")

#: How long the headers of a request may take.
_HEADERS_SECONDS = 30.0

#: Addresses that stand for all of this machine.
_EVERY_ADDRESS = ("0.0.0.0", "::", "")


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    host: str = "127.0.0.1"
    #: 0 is a free port.
    port: int = 0
    #: How others reach this instance; by default the host to listen on, or this machine's name.
    advertised_host: str | None = None
    tls: TlsOptions | None = None
    #: How long requests may take to finish when the server stops.
    stop_timeout_seconds: int = 10
    #: A free port in place of one that is in use.
    or_free_port: bool = False


class Listener:
    """A socket that listens; raises OSError when the address is taken, ssl.SSLError for a bad certificate."""

    def __init__(self, options: ListenerOptions) -> None:
        self.options = options
        self.tls: ssl.SSLContext | None = None if options.tls is None else options.tls.server_context()
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        try:
            self.socket = socket.create_server((options.host, options.port), family=family)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not options.or_free_port:
                raise
            self.socket = socket.create_server((options.host, 0), family=family)
        # Connections inherit it. asyncio sets it only where a socket names its protocol, which this one does
        # not, and then an answer in two parts waits 40 ms for the client's acknowledgement of the first.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self.socket.getsockname()[1]

    def __enter__(self) -> "Listener":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    @property
    def scheme(self) -> str:
        return "http" if self.tls is None else "https"

    @property
    def url(self) -> str:
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def advertised_host(self) -> str:
        """An address that others can reach: one that stands for all of this machine is none."""
        if self.options.advertised_host is not None:
            return self.options.advertised_host
        return socket.gethostname() if self.options.host in _EVERY_ADDRESS else self.options.host


class _Protocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it; requests over TLS also know the client's certificate.

    A connection whose client does not get to the end of a request's headers is closed: it would count among
    the open ones for ever.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        #: Since when headers are waited for; None while there is a request, or nothing of the next one.
        self._waiting_since: float | None = None
        self._wait_for_headers()
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self.app_state = {**self.app_state, PEER_CERTIFICATE: certificate}

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_headers()
        else:
            self._waiting_since = None

    def _wait_for_headers(self) -> None:
        if self._waiting_since is None:
            self._waiting_since = self.loop.time()
        due = self._waiting_since + _HEADERS_SECONDS
        self.timeout_keep_alive_task = self.loop.call_at(due, self.timeout_keep_alive_handler)


class _Server(uvicorn.Server):
    """Leaves signals alone, and says when it listens."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._listening()


async def serve(
    application: Application, listener: Listener, ready: Callable[[], None], stop: asyncio.Event
) -> None:
    """Runs until ``stop``."""
    _guard_open_listener(application, listener)
    server = _Server(_config(application, listener), ready)

    async def end_when_stopped() -> None:
        await stop.wait()
        server.should_exit = True

    ending = asyncio.create_task(end_when_stopped(), name="web-stop")
    try:
        await server.serve(sockets=[listener.socket])
    finally:
        ending.cancel()


def _config(application: Application, listener: Listener) -> uvicorn.Config:
    limits = application.limits
    config = uvicorn.Config(
        application,
        http=_Protocol,  # h11, which bounds headers while they arrive
        ws="none",
        # The application answers headers that are too large; uvicorn disconnects when they do not end.
        h11_max_incomplete_event_size=4 * limits.max_header_bytes,
        limit_concurrency=limits.max_connections,
        lifespan="off",
        interface="asgi3",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=listener.options.stop_timeout_seconds,
    )
    config.load()
    config.ssl = listener.tls
    return config


def _guard_open_listener(application: Application, listener: Listener) -> None:
    """Without a login: foreign pages are kept from a listener of this machine, and one of the network is told
    of.
    """
    tls = listener.options.tls
    shows_certificate = tls is not None and tls.client_authorities is not None
    if application.authenticates or shows_certificate:
        return
    if is_loopback(listener.options.host):
        application.own_names = (listener.advertised_host.lower(),)
        return
    log.warning(
        "listener %s is open to the network on %s:%d without authentication; "
        "bind it to 127.0.0.1, or ask for users or client certificates",
        listener.scheme,
        listener.options.host or "*",
        listener.port,
    )
