"""One connection to one broker: requests out, answers back, in order.

    connection = await Connection.open("127.0.0.1", 9092)
    answer = await connection.send(MetadataRequest(topics=None))

``open`` asks the broker for its API versions first. ``send`` writes a request in the highest version
that both sides know (``max_version`` lowers it) and returns the decoded answer, a message of
``moldau.protocol.messages``; error codes inside the answer are the caller's to read. ``submit`` does
the same without waiting: it returns a future, and requests go out in the order of the calls, so that
a caller may have many in flight. ``post`` is for requests that have no answer (acks=0).

What goes wrong outside of an answer is one of three, each a ``KafkaError`` that names the address and
what to check: ``BrokerNotAvailable`` (no connection was made), ``ConnectionLost`` (it broke with
requests in flight), ``RequestTimedOut`` (no answer in time; the connection is closed, because a late
answer could be taken for that of another request).

Invariant: this file knows frames, headers and versions, and nothing of what a request means. It never
retries: that is ``cluster``'s work. It never allocates from a length above ``MAX_FRAME_BYTES``.
"""

import asyncio
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from moldau import __version__
from moldau.client.transport.authentication import authenticate, refused_certificate
from moldau.client.transport.requests import (
    agreed_version,
    answer_reader,
    api_key_of,
    encoded_request,
    framed,
)
from moldau.client.transport.security import PLAINTEXT, Security
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import reader
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages import load
from moldau.protocol.primitives import MalformedMessage
from moldau.protocol.schema import Versions, declaration

#: What the client calls itself in ApiVersions.
CLIENT_SOFTWARE_NAME = "moldau"

#: An answer above this is no answer of a Kafka broker: TLS and HTTP read as frames of 336 MiB and more.
MAX_FRAME_BYTES = 256 * 1024 * 1024

#: Small answers are read together into one buffer of this size; a larger one gets a buffer of its own.
_SCRATCH_BYTES = 64 * 1024

_SIZE = struct.Struct(">i")
_ERROR_CODE = struct.Struct(">h")
_KNOWN_CODES = frozenset(map(int, ErrorCode))


class BrokerNotAvailable(KafkaError):
    """No connection could be made."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.BROKER_NOT_AVAILABLE, message)

    def __str__(self) -> str:
        return str(self.message)


class ConnectionLost(KafkaError):
    """The connection broke; what was in flight may or may not have been done."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)

    def __str__(self) -> str:
        return str(self.message)


class RequestTimedOut(KafkaError):
    """No answer in time; what was asked for may or may not have been done."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message)

    def __str__(self) -> str:
        return str(self.message)


class _Called:
    """In place of a future: who waits is called at once, a turn of the loop earlier."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[Any], None]) -> None:
        self._call = call

    def done(self) -> bool:
        return False

    def set_result(self, message: Any) -> None:
        self._call(message)

    def set_exception(self, error: BaseException) -> None:
        self._call(error)

    def exception(self) -> None:
        """Nobody leaves an error unseen."""


class _Pending(NamedTuple):
    correlation_id: int
    api_key: ApiKey
    decode: Callable[[memoryview], Any]
    answer: "asyncio.Future[Any] | _Called"
    deadline: float


class Connection:
    """An open connection; made by ``Connection.open`` only."""

    def __init__(self, address: str, client_id: str | None, request_timeout_ms: int) -> None:
        self.address = address
        self.client_id = client_id
        self.request_timeout_ms = request_timeout_ms
        #: What the broker offers: API key -> versions. Complete after ``open``.
        self.api_versions: dict[int, Versions] = {}
        #: The broker's whole ApiVersions answer, features included.
        self.api_versions_response: Any = None
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._pending: deque[_Pending] = deque()
        self._correlation_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._failure: KafkaError | None = None
        self._writable: asyncio.Future[None] | None = None
        self._closing: asyncio.Future[None] | None = None
        #: API key and highest version asked for -> version to write and how to read the answer.
        self._prepared: dict[tuple[ApiKey, int | None], tuple[int, Callable[[memoryview], Any]]] = {}

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str | None = CLIENT_SOFTWARE_NAME,
        request_timeout_ms: int = 30_000,
        connect_timeout_ms: int = 10_000,
        security: Security = PLAINTEXT,
    ) -> "Connection":
        """Connects, learns what the broker speaks, logs in; ``BrokerNotAvailable`` says why it could not."""
        address = f"{host}:{port}"
        connection = cls(address, client_id, request_timeout_ms)
        making = connection._loop.create_connection(
            lambda: _Frames(connection), host, port, ssl=security.tls_context()
        )
        try:
            # Not wait_for: that of Python 3.11 swallows a cancellation that comes with the connection.
            async with asyncio.timeout(connect_timeout_ms / 1000):
                await making
        except TimeoutError:
            raise BrokerNotAvailable(
                f"no connection to {address} within {connect_timeout_ms} ms: check address and firewall"
            ) from None
        except ssl.SSLError as error:
            raise refused_certificate(address, error) from None
        except OSError as error:
            raise BrokerNotAvailable(_why_not_connected(host, port, error)) from None
        try:
            await connection._negotiate(security.protocol)
            if security.mechanism:
                await authenticate(connection, security)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def closed(self) -> bool:
        return self._failure is not None

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer."""
        return len(self._pending)

    def version_of(self, api_key: ApiKey, max_version: int | None = None) -> int:
        """The version in which a request of this API would go out; UNSUPPORTED_VERSION when there is none."""
        return agreed_version(self.address, self.api_versions, api_key, max_version)

    async def send(
        self, request: object, *, max_version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """Sends a request and returns its answer."""
        while self._writable is not None:
            await asyncio.shield(self._writable)
        return await self.submit(request, max_version=max_version, timeout_ms=timeout_ms)

    def submit(
        self, request: object, *, max_version: int | None = None, timeout_ms: int | None = None
    ) -> "asyncio.Future[Any]":
        """Sends a request now and returns the future of its answer."""
        api_key = api_key_of(request)
        return self._submit(request, api_key, *self.agreed(api_key, max_version), timeout_ms)

    def submit_encoded(
        self,
        parts: Sequence[Any],
        api_key: ApiKey,
        version: int,
        decode: Callable[[memoryview], Any],
        answered: Callable[[Any], None],
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """The same for a body that the caller has encoded, and an answer that ``decode`` reads.

        ``answered`` is called with it as soon as it is there, or with the ``KafkaError`` that came instead.
        """
        transport = self._open_transport()
        correlation_id = self._next_correlation_id()
        transport.write(framed(parts, api_key, version, correlation_id, self.client_id))
        self._expect(correlation_id, api_key, decode, _Called(answered), timeout_ms)

    def agreed(
        self, api_key: ApiKey, max_version: int | None = None
    ) -> tuple[int, Callable[[memoryview], Any]]:
        """The version in which a request of this API goes out, and how its answer is read."""
        prepared = self._prepared.get((api_key, max_version))
        if prepared is None:
            version = self.version_of(api_key, max_version)
            prepared = version, answer_reader(load(api_key)[1], version)
            self._prepared[api_key, max_version] = prepared
        return prepared

    def post(self, request: object, *, max_version: int | None = None) -> None:
        """Sends a request that the broker does not answer."""
        api_key = api_key_of(request)
        self._write(request, api_key, self.version_of(api_key, max_version))

    def close(self) -> None:
        """Closes at once; requests without an answer end with ``ConnectionLost``."""
        self._fail(ConnectionLost(f"the connection to {self.address} was closed here"))

    def hand_over(self) -> socket.socket:
        """The socket, for a caller who reads and writes it by himself; this connection is closed.

        Only without TLS, whose state is not the socket's, and with nothing in flight.
        """
        assert not self._pending, "requests are in flight"
        assert self._transport is not None
        sock: socket.socket = self._transport.get_extra_info("socket").dup()
        self.close()
        return sock

    async def lost(self) -> None:
        """Returns when the connection is closed, by whichever side."""
        if self._failure is None:
            self._closing = self._closing or self._loop.create_future()
            await asyncio.shield(self._closing)

    async def wait_closed(self) -> None:
        """Lets the loop close the socket after ``close``."""
        self.close()
        await asyncio.sleep(0)

    # What follows is between this file's two classes.

    async def _negotiate(self, protocol: str) -> None:
        """ApiVersions in our highest version, then in the highest that a broker without it names."""
        request_class, response_class = load(ApiKey.API_VERSIONS)
        request = request_class(
            client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=__version__
        )
        version = declaration(request_class).versions.last
        answer = await self._ask_versions(request, response_class, version, protocol)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            named = [a.max_version for a in answer.api_keys if a.api_key == ApiKey.API_VERSIONS]
            lower = min(named[0], version - 1) if named else 0
            answer = await self._ask_versions(request, response_class, lower, protocol)
        if answer.error_code:
            raise KafkaError(error_code(answer.error_code), f"{self.address} refused ApiVersions")
        self.api_versions_response = answer
        self.api_versions = {a.api_key: Versions(a.min_version, a.max_version) for a in answer.api_keys}

    async def _ask_versions(self, request: object, response_class: type, version: int, protocol: str) -> Any:
        def decode(frame: memoryview) -> Any:
            # A broker that does not know the version answers in v0, whatever was asked.
            refused = (
                len(frame) >= 6 and _ERROR_CODE.unpack_from(frame, 4)[0] == ErrorCode.UNSUPPORTED_VERSION
            )
            return reader(response_class, 0 if refused else version)(frame, 4)[0]

        try:
            return await self._submit(request, ApiKey.API_VERSIONS, version, decode, None)
        except ConnectionLost as error:
            raise BrokerNotAvailable(
                f"{self.address} accepted the connection but closed it without an answer: "
                f"is this a Kafka broker's {protocol} port? ({error})"
            ) from None
        except RequestTimedOut:
            raise BrokerNotAvailable(
                f"{self.address} accepted the connection but did not answer within "
                f"{self.request_timeout_ms} ms: is this a Kafka broker's {protocol} port?"
            ) from None

    def _submit(
        self,
        request: object,
        api_key: ApiKey,
        version: int,
        decode: Callable[[memoryview], Any],
        timeout_ms: int | None,
    ) -> "asyncio.Future[Any]":
        correlation_id = self._write(request, api_key, version)
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._expect(correlation_id, api_key, decode, answer, timeout_ms)
        return answer

    def _expect(
        self,
        correlation_id: int,
        api_key: ApiKey,
        decode: Callable[[memoryview], Any],
        answer: "asyncio.Future[Any] | _Called",
        timeout_ms: int | None,
    ) -> None:
        """Waits for the answer to a request that was just written."""
        wait_ms = self.request_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self._loop.time() + wait_ms / 1000
        self._pending.append(_Pending(correlation_id, api_key, decode, answer, deadline))
        if self._timer is None or deadline < self._timer_at:
            self._set_timer(deadline)

    def _write(self, request: object, api_key: ApiKey, version: int) -> int:
        transport = self._open_transport()
        correlation_id = self._next_correlation_id()
        transport.write(encoded_request(request, api_key, version, correlation_id, self.client_id))
        return correlation_id

    def _open_transport(self) -> asyncio.Transport:
        if self._failure is not None or self._transport is None:
            raise self._failure or ConnectionLost(f"not connected to {self.address}")
        return self._transport

    def _next_correlation_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._check_deadlines)
        self._timer_at = at

    def _check_deadlines(self) -> None:
        self._timer = None
        if not self._pending:
            return
        late = min(self._pending, key=lambda p: p.deadline)
        if late.deadline > self._loop.time():
            self._set_timer(late.deadline)
            return
        self._fail(
            RequestTimedOut(
                f"{self.address} did not answer {late.api_key.name} in time; "
                "the broker may be overloaded or stopped"
            )
        )

    def _connected(self, transport: asyncio.Transport) -> None:
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = transport

    def _frame(self, frame: memoryview) -> None:
        """An answer; answers come in the order of the requests."""
        if not self._pending or len(frame) < 4:
            self._fail(ConnectionLost(f"{self.address} sent an answer to nothing: it is no Kafka broker"))
            return
        pending = self._pending.popleft()
        (correlation_id,) = _SIZE.unpack_from(frame, 0)
        if correlation_id != pending.correlation_id:
            self._pending.appendleft(pending)
            self._fail(
                ConnectionLost(f"{self.address} answered {correlation_id}, not {pending.correlation_id}")
            )
            return
        try:
            message = pending.decode(frame)
        except MalformedMessage as error:
            self._pending.appendleft(pending)
            self._fail(ConnectionLost(f"the answer of {self.address} cannot be read: {error}"))
            return
        if not pending.answer.done():  # the caller may have gone away
            pending.answer.set_result(message)

    def _fail(self, error: KafkaError) -> None:
        """Closes the connection; all requests in flight end with the first reason."""
        if self._failure is not None:
            return
        self._failure = error
        if self._closing is not None and not self._closing.done():
            self._closing.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()
        pending, self._pending = self._pending, deque()
        for each in pending:
            if not each.answer.done():
                each.answer.set_exception(error)
                each.answer.exception()  # marked as seen: a caller that left must not cause a warning
        self._pause(False)

    def _pause(self, pause: bool) -> None:
        """The transport's buffer is full, or has space again."""
        if pause:
            if self._writable is None:
                self._writable = self._loop.create_future()
        elif self._writable is not None:
            self._writable.set_result(None)
            self._writable = None


class _Frames(asyncio.BufferedProtocol):
    """Cuts the stream of bytes into frames; a large frame is read straight into its own memory."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._end = 0
        self._frame: memoryview | None = None
        self._filled = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection._connected(cast(asyncio.Transport, transport))  # uvloop's has no common ancestor

    def connection_lost(self, exc: Exception | None) -> None:
        address = self._connection.address
        why = f": {exc}" if exc else ""
        self._connection._fail(ConnectionLost(f"the broker at {address} closed the connection{why}"))

    def pause_writing(self) -> None:
        self._connection._pause(True)

    def resume_writing(self) -> None:
        self._connection._pause(False)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return self._frame[self._filled :]
        return self._scratch[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._frame is None:
            self._end += nbytes
            self._cut()
            return
        self._filled += nbytes
        if self._filled == len(self._frame):
            frame, self._frame = self._frame, None
            self._connection._frame(frame)

    def _cut(self) -> None:
        scratch, position, end = self._scratch, 0, self._end
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(scratch, position)
            if not 0 <= size <= MAX_FRAME_BYTES:
                address = self._connection.address
                self._connection._fail(
                    ConnectionLost(f"{address} sent no Kafka frame: check that this is a plaintext listener")
                )
                return
            start, position = position + 4, position + 4 + size
            if position > end:
                self._frame = memoryview(bytearray(size))
                self._filled = end - start
                self._frame[: self._filled] = scratch[start:end]
                self._end = 0
                return
            self._connection._frame(memoryview(bytes(scratch[start:position])))
        rest = end - position
        scratch[:rest] = bytes(scratch[position:end])
        self._end = rest


def parse_address(text: str, default_port: int = 9092) -> tuple[str, int]:
    """Reads ``host:port``, ``host``, ``[v6]:port`` and ``PLAINTEXT://host:port``; ValueError otherwise."""
    rest = text.strip().removeprefix("PLAINTEXT://")
    if rest.startswith("["):
        host, _, port = rest[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = rest.rpartition(":") if ":" in rest else (rest, "", "")
    if not host or "/" in host or (port and not port.isdecimal()):
        raise ValueError(f"{text!r} is not an address of the form host:port")
    number = int(port) if port else default_port
    if not 0 < number < 65536:
        raise ValueError(f"{text!r}: a port lies between 1 and 65535")
    return host, number


def error_code(number: int) -> ErrorCode:
    """The code that a number stands for; one that only newer brokers know is an unknown error."""
    return ErrorCode(number) if number in _KNOWN_CODES else ErrorCode.UNKNOWN_SERVER_ERROR


def _why_not_connected(host: str, port: int, error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f"the host name {host!r} is not known here: check the address {host}:{port}"
    if isinstance(error, ConnectionRefusedError) or "refused" in str(error).lower():
        return f"nothing listens at {host}:{port}: is the broker running?"
    return f"no connection to {host}:{port}: {error.strerror or error}"
