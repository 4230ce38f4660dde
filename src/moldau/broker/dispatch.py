"""From a frame to a reply: header, version, decoding, the handler, and every way it can end.

Invariant: every request is answered, errors included, or its connection is closed with a line in the log
that says why. This is the one place where a ``KafkaError`` becomes an answer.
"""

import asyncio
import inspect
import logging
import struct
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from moldau.broker.apis import TABLE, Api, unsupported_api_versions
from moldau.broker.connection import Connection, Reply
from moldau.broker.context import CloseConnection, RequestContext, Services
from moldau.broker.purgatory import NO_RESPONSE, Parked
from moldau.protocol import messages
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import reader, writer
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.framing import skip_header_tags
from moldau.protocol.primitives import MalformedMessage
from moldau.protocol.schema import declaration

log = logging.getLogger("moldau.broker.dispatch")
request_log = logging.getLogger("moldau.request")

#: API key, version, correlation id and the length of the client id that follows.
_HEADER = struct.Struct(">hhih")
_CLIENT_ID_AT = _HEADER.size
#: Length and correlation id of a response.
_PREFIX = struct.Struct(">ii")
_API_VERSIONS = int(ApiKey.API_VERSIONS)

#: A response, a ``Parked``, an awaitable of one of these, or None where nothing is answered.
Handler: TypeAlias = Callable[[Any, RequestContext], Any]
#: Puts something around the handler of an API; the handlers themselves know nothing of it.
WrapHandler: TypeAlias = Callable[[ApiKey, Handler], Handler]


class Route:
    """One version of one API, ready to run."""

    __slots__ = ("api_key", "fail", "flexible", "handle", "prefix", "read", "response", "version", "write")

    def __init__(self, api: Api, api_key: ApiKey, version: int, handle: Handler) -> None:
        request, response = messages.load(api_key)
        self.api_key = api_key
        self.version = version
        self.read = reader(request, version)
        self.write = writer(response, version)
        self.response = response
        self.flexible = version in declaration(request).flexible
        # A flexible response has a header with (empty) tagged fields; ApiVersions never has.
        tagged = version in declaration(response).flexible and api_key != ApiKey.API_VERSIONS
        self.prefix = bytes(9 if tagged else 8)
        self.handle = handle
        self.fail = api.fail

    def encode(self, correlation_id: int, response: Any) -> list[Any]:
        """The reply as parts for the connection: bytes, and slices of files."""
        out = bytearray(self.prefix)
        splices: list[tuple[int, Any]] = []
        self.write(response, out, splices)
        if not splices:
            _PREFIX.pack_into(out, 0, len(out) - 4, correlation_id)
            return [out]
        size = len(out) - 4 + sum(part.size for _, part in splices)
        _PREFIX.pack_into(out, 0, size, correlation_id)
        parts: list[Any] = []
        start = 0
        for position, part in splices:
            parts += (out[start:position], part)
            start = position
        if start < len(out):
            parts.append(out[start:])
        return parts


class Dispatch:
    def __init__(self, services: Services, wrap_handler: WrapHandler | None = None) -> None:
        self._services = services
        self._wrap_handler = wrap_handler
        self._routes: dict[tuple[int, int], Route] = {}
        self.log_requests = False

    def frame(self, frame: memoryview, connection: Connection) -> None:
        """Handles one request; called by the connection for each frame, in order."""
        try:
            self._request(frame, connection)
        except MalformedMessage as error:
            connection.close(f"malformed request: {error}")
        except CloseConnection as error:
            connection.close(str(error))

    def _request(self, frame: memoryview, connection: Connection) -> None:
        try:
            api_key, version, correlation_id, size = _HEADER.unpack_from(frame)
        except struct.error:
            raise MalformedMessage(f"{len(frame)} bytes are too few for a header") from None
        route = self._routes.get((api_key, version))
        if route is None:
            found = self._find_route(api_key, version, correlation_id, frame, connection)
            if found is None:
                return
            route = found
        position = _CLIENT_ID_AT
        client_id = None
        if size >= 0:
            position += size
            client_id = connection.client_id
            if bytes(frame[_CLIENT_ID_AT:position]) != connection.client_id_bytes:
                client_id = _client_id(frame, position, connection)
        if route.flexible:
            position = skip_header_tags(frame, position)
        request, _ = route.read(frame, position)
        context = RequestContext(self._services, connection, api_key, version, correlation_id, client_id)
        if self.log_requests:
            _log_request(route, request, context)
        try:
            result = route.handle(request, context)
        except Exception as error:
            result = self._failed(route, request, context, error)
        connection = context.connection
        if result.__class__ is route.response:
            connection.send(route.encode(context.correlation_id, result))
        elif result is not None:
            self._later(route, request, context, result)

    def _later(self, route: Route, request: Any, context: RequestContext, result: Any) -> None:
        reply = context.connection.reserve()
        if isinstance(result, Parked):
            self._park(reply, route, request, context, result)
        else:
            assert inspect.isawaitable(result), f"{route.api_key.name} returned {type(result).__name__}"
            work = self._await(route, request, context, result, reply)
            self._services.background.start(work, route.api_key.name.lower())

    def _park(
        self, reply: Reply, route: Route, request: Any, context: RequestContext, parked: Parked
    ) -> None:
        def answer(response: Any) -> None:
            reply.parked = None
            self._fill(reply, route, request, context, response)

        purgatory = self._services.purgatory
        if not parked.after_disconnect:
            if context.connection.closing:
                purgatory.cancel(parked)
                return
            reply.parked = parked
        purgatory.park(parked, answer)

    async def _await(
        self, route: Route, request: Any, context: RequestContext, result: Awaitable[Any], reply: Reply
    ) -> None:
        try:
            response = await result
        except asyncio.CancelledError:
            stopping = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The broker is stopping.")
            self._fill(reply, route, request, context, stopping)
            raise
        except Exception as error:
            response = error
        self._fill(reply, route, request, context, response)

    def _fill(self, reply: Reply, route: Route, request: Any, context: RequestContext, response: Any) -> None:
        """Gives an answer that was waited for: a response, nothing, or what was raised instead.

        One step of the work may lead to the next one, which is waited for in turn.
        """
        try:
            if isinstance(response, Parked):
                self._park(reply, route, request, context, response)
                return
            if isinstance(response, Exception):
                response = self._failed(route, request, context, response)
            empty = response is None or response is NO_RESPONSE
            reply.fill([] if empty else route.encode(context.correlation_id, response))
        except (CloseConnection, MalformedMessage) as error:
            context.connection.close(str(error))
        except Exception as error:
            # Only a bug gets here; the answers behind this one must not wait for it.
            name = f"{route.api_key.name} v{route.version}"
            log.error("the answer to %s from %s failed", name, context.connection.peer, exc_info=error)
            context.connection.close(f"the answer to {name} could not be written")

    def _failed(self, route: Route, request: Any, context: RequestContext, error: Exception) -> Any:
        """The answer to a request whose handler raised."""
        if isinstance(error, CloseConnection | MalformedMessage):
            raise error
        if not isinstance(error, KafkaError):
            name = f"{route.api_key.name} v{route.version}"
            log.error("%s from %s failed", name, context.connection.peer, exc_info=error)
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The broker failed; its log says where.")
        return route.fail(request, error, context)

    # --- what is not the hot path ---------------------------------------------------------------

    def _find_route(
        self, key: int, version: int, correlation_id: int, frame: memoryview, connection: Connection
    ) -> Route | None:
        """The route of a version that was not used before; None when the answer was given here."""
        api = TABLE.get(ApiKey(key)) if key in ApiKey._value2member_map_ else None
        if api is None:
            raise CloseConnection(f"API key {key} (version {version}) is not known here")
        if not api.minimum <= version <= api.maximum:
            if key != _API_VERSIONS:
                raise CloseConnection(f"{ApiKey(key).name} has no version {version} here")
            if len(frame) <= _CLIENT_ID_AT:
                raise MalformedMessage("ApiVersions without a body")
            connection.send(_encode_v0(correlation_id, unsupported_api_versions()))
            return None
        handle = api.handle
        if self._wrap_handler is not None:
            handle = self._wrap_handler(ApiKey(key), handle)
        route = Route(api, ApiKey(key), version, handle)
        self._routes[key, version] = route
        return route


def _log_request(route: Route, request: Any, context: RequestContext) -> None:
    request_log.info(
        "%s %s v%d #%d client=%s %s",
        context.connection.peer,
        route.api_key.name,
        route.version,
        context.correlation_id,
        context.client_id,
        request,
    )


def _client_id(frame: memoryview, end: int, connection: Connection) -> str:
    """Decodes a client id that differs from the last one of this connection."""
    if end > len(frame):
        raise MalformedMessage("the client id is cut")
    raw = bytes(frame[_CLIENT_ID_AT:end])
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"the client id is not text: {error}") from None
    connection.client_id_bytes = raw
    connection.client_id = text
    return text


def _encode_v0(correlation_id: int, response: Any) -> list[Any]:
    out = bytearray(8)
    writer(type(response), 0)(response, out, [])
    _PREFIX.pack_into(out, 0, len(out) - 4, correlation_id)
    return [out]
