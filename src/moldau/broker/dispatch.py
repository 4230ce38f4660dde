"""From a frame to a reply: header, version, decoding, the handler, and every way it can end.

A request with few elements is decoded, handled and answered on the spot. One with many is decoded and
answered in turns, and so is what a handler wants to do in steps or has to wait for; its connection has no
other request handled meanwhile.

Invariant: every request is answered, errors included, or its connection is closed with a line in the log
that says why. This is the one place where a ``KafkaError`` becomes an answer.
"""

import asyncio
import inspect
import logging
import struct
from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any, TypeAlias

from moldau.base.clock import stopwatch
from moldau.broker.apis import TABLE, Api, unsupported_api_versions
from moldau.broker.bounds.flow_control import RECEIVE_BUFFER_BYTES
from moldau.broker.bounds.turns import in_turns
from moldau.broker.connection import Connection, Reply
from moldau.broker.context import CloseConnection, LargeRequestContext, RequestContext, Services
from moldau.broker.forwarding import FORWARDED, unwrap_with
from moldau.broker.monitoring.requests import RequestMetrics, Tally, error_counter
from moldau.broker.purgatory import NO_RESPONSE, Parked
from moldau.protocol import messages
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import SteppedReader, SteppedWriter, reader, stepped_reader, stepped_writer, writer
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.framing import skip_header_tags
from moldau.protocol.primitives import MalformedMessage, TooManyElements
from moldau.protocol.schema import declaration

log = logging.getLogger("moldau.broker.dispatch")
request_log = logging.getLogger("moldau.request")

#: API key, version, correlation id and the length of the client id that follows.
_HEADER = struct.Struct(">hhih")
_CLIENT_ID_AT = _HEADER.size
#: Length and correlation id of a response.
_PREFIX = struct.Struct(">ii")
_API_VERSIONS = int(ApiKey.API_VERSIONS)
#: Requests with more elements are decoded and answered in turns.
ELEMENTS_AT_ONCE = 200
#: Of requests in larger frames only one is worked on at a time, of others a few.
_LARGE_FRAME_BYTES = 16 * 1024
_FEW = 8
#: How long one of them keeps others waiting for its place.
_PLACE_SECONDS = 1.0

#: A response, a ``Parked``, a generator or an awaitable of one of these, or None where nothing is answered.
Handler: TypeAlias = Callable[[Any, RequestContext], Any]
#: Frame, where its body begins, correlation id, client id, connection: a whole answer, or None.
PlainPath: TypeAlias = Callable[[memoryview, int, int, "str | None", Connection], "bytearray | None"]
#: Puts something around the handler of an API; the handlers themselves know nothing of it.
WrapHandler: TypeAlias = Callable[[ApiKey, Handler], Handler]


class Route:
    """One version of one API, ready to run."""

    __slots__ = (
        "api_key",
        "fail",
        "flexible",
        "forwarded",
        "handle",
        "plain",
        "prefix",
        "read",
        "request",
        "response",
        "tally",
        "version",
        "write",
    )

    def __init__(
        self, api: Api, api_key: ApiKey, version: int, handle: Handler, tally: Tally | None = None
    ) -> None:
        """``tally`` counts the requests; one of its own where nobody looks at it."""
        request, response = messages.load(api_key)
        self.tally = RequestMetrics().tally(api_key, version) if tally is None else tally
        self.api_key = api_key
        self.version = version
        self.forwarded = api_key in FORWARDED
        self.read = reader(request, version)
        self.write = writer(response, version)
        self.request = request
        self.response = response
        self.flexible = version in declaration(request).flexible
        # A flexible response has a header with (empty) tagged fields; ApiVersions never has.
        tagged = version in declaration(response).flexible and api_key != ApiKey.API_VERSIONS
        self.prefix = bytes(9 if tagged else 8)
        self.handle = handle
        self.fail = api.fail
        #: Answers the usual requests from their bytes, where nothing stands before the handler.
        self.plain: PlainPath | None = None

    @property
    def read_in_steps(self) -> SteppedReader:
        return stepped_reader(self.request, self.version)

    @property
    def write_in_steps(self) -> SteppedWriter:
        return stepped_writer(self.response, self.version)

    @property
    def has_error_code(self) -> bool:
        """Whether the response can say that the request as a whole was refused."""
        fields = declaration(self.response).fields
        return any(f.name == "error_code" and self.version in f.present for f in fields)

    def encode(self, correlation_id: int, response: Any) -> list[Any]:
        """The reply as parts for the connection: bytes, and slices of files."""
        out = bytearray(self.prefix)
        splices: list[tuple[int, Any]] = []
        self.write(response, out, splices)
        if not splices:
            _PREFIX.pack_into(out, 0, len(out) - 4, correlation_id)
            return [out]
        return _with_splices(out, splices, correlation_id)

    def encode_in_steps(
        self, correlation_id: int, response: Any, limit: int
    ) -> Generator[None, None, list[Any]]:
        """The same, one element at a time; KafkaError when it has more bytes than the limit."""
        out = bytearray(self.prefix)
        splices: list[tuple[int, Any]] = []
        for _ in self.write_in_steps(response, out, splices):
            if len(out) > limit:
                message = f"The answer would be larger than moldau.response.bytes.max={limit}."
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
            yield
        return _with_splices(out, splices, correlation_id)


class CountingRoute(Route):
    """Counts the errors in its answers; a produce or a fetch does that where it makes them, which costs
    less.
    """

    __slots__ = ("_count_errors",)

    def __init__(self, api: Api, api_key: ApiKey, version: int, handle: Handler, tally: Tally) -> None:
        super().__init__(api, api_key, version, handle, tally)
        self._count_errors = error_counter(self.response)

    def encode(self, correlation_id: int, response: Any) -> list[Any]:
        if self._count_errors is not None:
            self._count_errors(response, self.tally.requests.error)
        return super().encode(correlation_id, response)

    def encode_in_steps(
        self, correlation_id: int, response: Any, limit: int
    ) -> Generator[None, None, list[Any]]:
        if self._count_errors is not None:
            self._count_errors(response, self.tally.requests.error)
        return super().encode_in_steps(correlation_id, response, limit)


def _with_splices(out: bytearray, splices: list[tuple[int, Any]], correlation_id: int) -> list[Any]:
    size = len(out) - 4 + sum(part.size for _, part in splices)
    _PREFIX.pack_into(out, 0, size, correlation_id)
    parts: list[Any] = []
    start = 0
    for position, part in splices:
        parts += (out[start:position], part)
        start = position
    if not start:
        return [out]
    if start < len(out):
        parts.append(out[start:])
    return parts


class Dispatch:
    def __init__(self, services: Services, wrap_handler: WrapHandler | None = None) -> None:
        self._services = services
        services.unwrap = unwrap_with(self)
        self._wrap_handler = wrap_handler
        self._routes: dict[tuple[int, int], Route] = {}
        self._few = asyncio.Semaphore(_FEW)
        self._one = asyncio.Semaphore(1)
        self.log_requests = False
        self.requests = services.requests

    def wrap_again(self, wrap_handler: WrapHandler | None) -> None:
        """Puts something else around the handlers from now on."""
        self._wrap_handler = wrap_handler
        self._routes.clear()

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
            route = self._find_route(api_key, version, correlation_id, frame, connection)
            if route is None:
                return
        tally = route.tally
        began = 0.0
        if tally.left:
            tally.left -= 1
        else:
            began = tally.begin()
        position = _CLIENT_ID_AT
        client_id = None
        if size >= 0:
            position += size
            client_id = connection.client_id
            if bytes(frame[_CLIENT_ID_AT:position]) != connection.client_id_bytes:
                client_id = _client_id(frame, position, connection)
        if route.flexible:
            position = skip_header_tags(frame, position)
        if route.plain is not None and not self.log_requests:
            answer = route.plain(frame, position, correlation_id, client_id, connection)
            if answer is not None:
                handled = stopwatch() if began else 0.0
                connection.send([answer])
                if began:
                    tally.answered(began, handled, connection.read_at, len(frame), None)
                return
        try:
            request, _ = route.read(frame, position, ELEMENTS_AT_ONCE)
        except TooManyElements:
            large = LargeRequestContext(
                self._services, connection, api_key, version, correlation_id, client_id
            )
            self._later_in_turns(route, frame, position, large)
            return
        context = RequestContext(self._services, connection, api_key, version, correlation_id, client_id)
        if self.log_requests:
            _log_request(route, request, context)
        try:
            if route.forwarded and not self._services.is_controller:
                result = self._services.forwarding.forward(request, context)
            else:
                result = route.handle(request, context)
        except Exception as error:
            result = self._failed(route, request, context, error)
        connection = context.connection
        handled = stopwatch() if began else 0.0
        if result.__class__ is route.response:
            connection.send(route.encode(context.correlation_id, result))
        elif result is not None:
            self._later(route, request, context, result, began)
            return
        if began:
            tally.answered(began, handled, connection.read_at, len(frame), request)

    def _later(
        self, route: Route, request: Any, context: RequestContext, result: Any, began: float = 0.0
    ) -> None:
        connection = context.connection
        alone = not isinstance(result, Parked)
        reply = connection.reserve(alone=alone)
        reply.handled_at = now = stopwatch()
        reply.began_at = began or now
        if not alone:
            self._park(reply, route, request, context, result)
            return
        kind = type(result).__name__
        assert inspect.isawaitable(result) or inspect.isgenerator(result), f"{route.api_key.name}: {kind}"
        self._start(reply, route, request, context, result)

    def _start(
        self, reply: Reply, route: Route, request: Any, context: RequestContext, result: Any
    ) -> "asyncio.Task[None]":
        work = self._work(reply, route, request, context, result)
        return self._services.background.start(work, route.api_key.name.lower())

    def _later_in_turns(
        self, route: Route, frame: memoryview, position: int, context: LargeRequestContext
    ) -> None:
        """Queues a request with many elements; its frame may be in the buffer that all connections share."""
        if len(frame) <= RECEIVE_BUFFER_BYTES:
            frame = memoryview(bytearray(frame))
        reply = context.connection.reserve(alone=True)
        reply.began_at = reply.handled_at = stopwatch()
        work = self._work_on_large(reply, route, frame, position, context)
        self._services.background.start(work, route.api_key.name.lower())

    def _park(
        self, reply: Reply, route: Route, request: Any, context: RequestContext, parked: Parked
    ) -> None:
        def answer(response: Any) -> None:
            reply.parked = None
            self._fill(reply, route, request, context, response)

        purgatory = self._services.purgatory
        parked.api_key = route.api_key
        if not parked.after_disconnect:
            if context.connection.closing:
                purgatory.cancel(parked)
                return
            reply.parked = parked
        purgatory.park(parked, answer)

    async def _work_on_large(
        self, reply: Reply, route: Route, frame: memoryview, position: int, context: LargeRequestContext
    ) -> None:
        """Decodes and answers a request with many elements, when it is its turn."""
        request = route.request()
        work: asyncio.Task[None] | None = None
        try:
            async with self._one if len(frame) > _LARGE_FRAME_BYTES else self._few:
                if context.connection.closing and route.api_key is not ApiKey.PRODUCE:
                    return  # its client is gone; one with acks=0 may be, and means what it sent
                limit = self._services.settings.moldau_request_elements_max
                request, _ = await in_turns(route.read_in_steps(frame, position, limit))
                if self.log_requests:
                    _log_request(route, request, context)
                try:
                    elsewhere = route.forwarded and not self._services.is_controller
                    handle = self._services.forwarding.forward if elsewhere else route.handle
                    result = handle(request, context)
                except Exception as error:
                    result = error
                work = self._start(reply, route, request, context, result)
                del result  # the stack of an error would lead back to the error
                # What waits for long, for a disk or for another broker, does not keep its place.
                await asyncio.wait([work], timeout=_PLACE_SECONDS)
        except asyncio.CancelledError:
            if work is None:
                self._fill(reply, route, request, context, _stopping())
            raise
        except TooManyElements as error:
            self._refuse_elements(reply, route, context, error)
        except MalformedMessage as error:
            context.connection.close(f"malformed request: {error}")

    def _refuse_elements(
        self, reply: Reply, route: Route, context: RequestContext, error: TooManyElements
    ) -> None:
        limit = self._services.settings.moldau_request_elements_max
        reason = f"{error}: moldau.request.elements.max={limit}"
        if not route.has_error_code:
            context.connection.close(reason)
            return
        log.warning("refused a request of %s: %s", context.connection.peer, reason)
        refusal = KafkaError(ErrorCode.INVALID_REQUEST, f"{reason}.")
        self._fill(reply, route, route.request(), context, refusal)

    async def _work(
        self, reply: Reply, route: Route, request: Any, context: RequestContext, result: Any
    ) -> None:
        """Waits for an answer that takes steps or time, and gives it."""
        try:
            response = await self._result(result, context)
            if isinstance(response, route.response):
                limit = self._services.settings.moldau_response_bytes_max
                steps = route.encode_in_steps(context.correlation_id, response, limit)
                parts = await in_turns(steps)
                route.tally.answered_later(reply.began_at, reply.handled_at, request)
                reply.fill(parts)
                return
        except asyncio.CancelledError:
            self._fill(reply, route, request, context, _stopping())
            raise
        except Exception as error:
            # Not kept in a variable of this function: its stack would lead back to it.
            self._fill(reply, route, request, context, error)
            return
        if isinstance(response, Parked):
            reply.wait_with_others()
        self._fill(reply, route, request, context, response)

    async def _result(self, result: Any, context: RequestContext) -> Any:
        while True:
            if inspect.isawaitable(result):
                result = await result
            elif result.__class__ is not GeneratorType:
                return result
            elif context.large:  # it has its turn
                result = await in_turns(result)
            else:
                async with self._few:
                    result = await in_turns(result)

    def _fill(self, reply: Reply, route: Route, request: Any, context: RequestContext, response: Any) -> None:
        """Gives an answer that was waited for: a response, nothing, or what was raised instead.

        One step of the work may lead to the next one, which is waited for in turn.
        """
        try:
            if response.__class__ is not route.response:
                if isinstance(response, Parked):
                    self._park(reply, route, request, context, response)
                    return
                if inspect.isawaitable(response) or response.__class__ is GeneratorType:
                    self._start(reply, route, request, context, response)
                    return
                if isinstance(response, CloseConnection | MalformedMessage):
                    context.connection.close(str(response))
                    return
                if isinstance(response, Exception):
                    response = self._failed(route, request, context, response)
            empty = response is None or response is NO_RESPONSE
            if reply.began_at:
                route.tally.answered_later(reply.began_at, reply.handled_at, request)
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
            try:
                raise error
            finally:
                del error  # its stack would lead back to it
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
            connection.send(encode_v0(correlation_id, unsupported_api_versions()))
            return None
        try:
            handle = api.handle
            if self._wrap_handler is not None:
                handle = self._wrap_handler(ApiKey(key), handle)
            tally = self.requests.tally(key, version)
            kind = Route if key in (ApiKey.PRODUCE, ApiKey.FETCH) else CountingRoute
            route = kind(api, ApiKey(key), version, handle, tally)
            if key == ApiKey.PRODUCE and route.flexible and handle is api.handle:
                from moldau.broker.plain_produce import PlainProduce

                route.plain = PlainProduce(self._services, version).answer
        except (OSError, ImportError) as error:
            # Out of descriptors or memory, most likely. The next request tries again.
            raise CloseConnection(f"{ApiKey(key).name} could not be loaded: {error}") from error
        self._routes[key, version] = route
        return route


def _stopping() -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The broker is stopping.")


def _log_request(route: Route, request: Any, context: RequestContext) -> None:
    from moldau.broker.access.redaction import shown

    request_log.info(
        "%s %s v%d #%d client=%s %s",
        context.connection.peer,
        route.api_key.name,
        route.version,
        context.correlation_id,
        context.client_id,
        shown(request),
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


def encode_v0(correlation_id: int, response: Any) -> list[Any]:
    out = bytearray(8)
    writer(type(response), 0)(response, out, [])
    _PREFIX.pack_into(out, 0, len(out) - 4, correlation_id)
    return [out]
