"""A service over HTTP: from requests to calls, from answers and problems to responses.

Every request takes the same way: whether there is capacity for it (503), its headers (431), whether a foreign
page sent it (403), who asks (401) and whether that is too often (429), which media type (406), which route
(404, 405), which body (415), the handler, and where another instance leads, the same request there once more.

Invariant: every request gets an answer, and a problem is a JSON body in the service's style, or a page of a
service for people. Every answer carries the request's id. No header lets a foreign web page read an answer
(CORS is off), and none that a page can have its visitor's browser send changes anything.
"""

import asyncio
import itertools
import json
import logging
import re
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from moldau.metrics.prometheus import OPENMETRICS_TYPE, PROMETHEUS_TYPE, exposition, wants_openmetrics
from moldau.metrics.readings import Sources
from moldau.web.authentication import ANONYMOUS, Authenticate, Principal, anybody
from moldau.web.call import Asked, Call
from moldau.web.foreign_pages import check_page
from moldau.web.forwarding import EVENT_STREAM, Forwarding
from moldau.web.limits import Limits, check_headers
from moldau.web.media_types import accepted, check_content_encoding, check_content_type
from moldau.web.openapi import Description, document
from moldau.web.problems import Problem, ProblemStyle, error_code_and_message, http_problem
from moldau.web.rates import Rates
from moldau.web.request_metrics import NO_ROUTE, RequestCounts
from moldau.web.routes import Answer, Matched, RouteTable, Streamed, Text

log = logging.getLogger("moldau.web")
#: One line for each request, at INFO: who, what, how it ended, how long it took; never a query or a body.
access_log = logging.getLogger("moldau.web.access")

#: Answers to requests whose body did not arrive, or was too large to be read to its end.
_UNREAD = (408, 413)
REQUEST_ID = "X-Request-Id"
_REQUEST_ID = REQUEST_ID.lower().encode()
_LEGAL_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


@dataclass(frozen=True, slots=True)
class Service:
    """What a service is, beside its handlers' state."""

    description: Description
    table: RouteTable
    #: What an answer may be called; the first one is meant where the client does not say.
    media_types: tuple[str, ...] = ("application/json",)
    #: What a body may be called.
    body_types: tuple[str, ...] = ("application/json", "application/octet-stream")
    problem_style: ProblemStyle = error_code_and_message
    #: What clients of this kind of service ask for in vain, by the first part of the path, in a few words.
    missing: Mapping[str, str] = field(default_factory=dict)
    #: How a problem is answered where JSON is not what the client wants, such as a page for people.
    problem_page: "Callable[[Request, Problem], Response] | None" = None
    #: What every answer carries beside its own headers.
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Whether pages of others may send requests too, as to a receiver of what they have to tell.
    takes_foreign_pages: bool = False
    #: HEAD is answered as GET is, which has to change nothing, and OPTIONS with the methods of a path.
    answers_head: bool = False


@dataclass(slots=True)
class _Request:
    """A request that is being handled, with what is known of it so far."""

    request: Request
    request_id: str
    media_type: str
    principal: Principal = ANONYMOUS
    call: Call | None = None


class Application:
    """An ASGI application; ``make_call`` makes the service's own kind of ``Call``."""

    def __init__(
        self,
        service: Service,
        make_call: Callable[[Asked], Call] = Call,
        *,
        authenticate: Authenticate = anybody,
        limits: Limits | None = None,
        forwarding: Forwarding | None = None,
    ) -> None:
        self.service = service
        self.limits = limits or Limits()
        self.authenticates = authenticate is not anybody
        #: Names by which it may be asked for, beside those of this machine; None for every name.
        self.own_names: tuple[str, ...] | None = None
        self._make_call = make_call
        self._authenticate = authenticate
        self._forwarding = forwarding
        self._in_flight = 0
        self._rates = Rates(self.limits.max_requests_per_second, self.limits.request_burst)
        #: What ``/metrics`` shows; a service may add sources of its own.
        self.sources = Sources()
        self.counts = RequestCounts(service.description.title, lambda: self._in_flight)
        self.counts.register(self.sources)
        self._id_prefix = uuid.uuid4().hex[:12]
        self._id_numbers = itertools.count(1)

    async def close(self) -> None:
        if self._forwarding is not None:
            await self._forwarding.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _lifespan(scope, receive, send)
            return
        clock = asyncio.get_running_loop().time
        began = clock()
        request = Request(scope, receive)
        given = _Request(request, self._request_id(request), self.service.media_types[0])
        response = await self._respond(given)
        response.headers[REQUEST_ID] = given.request_id
        response.headers.update(self.service.headers)
        with suppress(ClientDisconnect):  # in the middle of a stream: nobody is left to hear of it
            await response(scope, receive, send)
        route = NO_ROUTE if given.call is None else given.call.route_path
        now = clock()
        self.counts.answered(route, request.method, response.status_code, now - began, now)
        if access_log.isEnabledFor(logging.INFO):
            self._log(given, response, clock() - began)

    def _log(self, given: _Request, response: Response, seconds: float) -> None:
        request = given.request
        access_log.info(
            '%s %s "%s %s" %d %d bytes %.1f ms id=%s',
            "-" if request.client is None else request.client.host,
            given.principal.name,
            request.method,
            _raw_path(request),
            response.status_code,
            len(getattr(response, "body", b"")),  # a stream has none at any one time
            seconds * 1000,
            given.request_id,
        )

    async def _respond(self, given: _Request) -> Response:
        if self._in_flight >= self.limits.max_concurrent_requests:
            return self._problem(given, http_problem(503, "Too many requests at the same time"))
        self._in_flight += 1
        try:
            async with asyncio.timeout(self.limits.request_timeout_ms / 1000) as deadline:
                return await self._answer(given)
        except Problem as problem:
            return self._problem(given, problem)
        except TimeoutError:
            if not deadline.expired():
                return self._failed(given)
            return self._problem(given, self._timed_out(given.call))
        except ClientDisconnect:
            return self._problem(given, http_problem(400, "The request ended before its body"))
        except Exception:
            return self._failed(given)
        finally:
            self._in_flight -= 1

    async def _answer(self, given: _Request) -> Response:
        request, service = given.request, self.service
        check_headers(self.limits, request.scope["headers"])
        if not service.takes_foreign_pages:
            check_page(request.method, partial(_header, request), self.own_names)
        given.principal = await self._authenticate(request)
        self._rates.take(_who(given), asyncio.get_running_loop().time())
        if request.scope["path"] == "/metrics" and request.method == "GET":
            # Prometheus asks for media types of its own.
            return self._metrics(_header(request, b"accept") or "")
        as_get = service.answers_head and request.method == "HEAD"
        found = service.table.match("GET" if as_get else request.method, _raw_path(request))
        if service.answers_head and request.method == "OPTIONS" and found and isinstance(found, list):
            return _methods(found)
        own = found.route.media_types if isinstance(found, Matched) else ()
        given.media_type = (own or service.media_types)[0]  # of a refusal, too
        given.media_type = accepted(_header(request, b"accept"), own or service.media_types)
        if request.scope["path"] == "/openapi.json" and request.method == "GET":
            return _json(document(service.description, service.table), "application/json")
        matched = self._route(request, found)
        check_content_encoding(_header(request, b"content-encoding"))
        body_types = matched.route.body_types or service.body_types
        content_type = _header(request, b"content-type")
        check_content_type(request.method, content_type, body_types)
        asked = Asked(request, matched, given.principal, given.request_id, self.limits, given.media_type)
        call = self._make_call(asked)
        given.call = call

        async def handle() -> Response:
            return _response(await matched.route.handler(call), matched.route.status, given.media_type)

        if self._forwarding is None:
            return await handle()
        return await self._forwarding.handle(call, handle)

    def _metrics(self, accept: str) -> Response:
        openmetrics = wants_openmetrics(accept)
        text = "".join(exposition(self.sources, asyncio.get_running_loop().time(), openmetrics=openmetrics))
        return Response(text, media_type=OPENMETRICS_TYPE if openmetrics else PROMETHEUS_TYPE)

    def _request_id(self, request: Request) -> str:
        """The client's own id, or a new one where it has none that a log can take."""
        given = _header(request, _REQUEST_ID)
        if given is not None and _LEGAL_REQUEST_ID.fullmatch(given):
            return given
        return f"{self._id_prefix}-{next(self._id_numbers)}"

    def _route(self, request: Request, found: Matched | list[str]) -> Matched:
        if isinstance(found, Matched):
            return found
        missing = self.service.missing.get(_raw_path(request).strip("/").partition("/")[0])
        if not found and missing is not None:
            raise http_problem(404, f"HTTP 404 Not Found: {missing}")
        raise http_problem(405 if found else 404)

    def _timed_out(self, call: Call | None) -> Problem:
        seconds = self.limits.request_timeout_ms / 1000
        if call is not None and call.reads_body:
            return http_problem(408, f"The request was not received in {seconds:g} s")
        return http_problem(503, f"The request could not be answered in {seconds:g} s")

    def _failed(self, given: _Request) -> Response:
        """A bug of ours: the client gets an answer, the log gets the reason."""
        log.exception("request %s failed", given.request_id)
        return self._problem(given, http_problem(500))

    def _problem(self, given: _Request, problem: Problem) -> Response:
        if self.service.problem_page is not None:
            response = self.service.problem_page(given.request, problem)
        else:
            # Who wanted a stream of events gets none: the problem is an answer like any other.
            media_type = "application/json" if given.media_type == EVENT_STREAM else given.media_type
            response = _json(self.service.problem_style(problem), media_type, problem.status)
        response.headers.update(problem.headers)
        if problem.status in _UNREAD or _body_is_too_large(given.request, self.limits):
            # The rest of the body is not waited for.
            response.headers["Connection"] = "close"
        return response


def _header(request: Request, name: bytes) -> str | None:
    """The first header of a name in small letters; quicker than Starlette's lookup."""
    headers: list[tuple[bytes, bytes]] = request.scope["headers"]
    for each, value in headers:
        if each == name:
            return value.decode("latin-1")
    return None


def _who(given: _Request) -> str:
    """Whose requests are counted together: a user's, or those of an address where nobody has looked who."""
    client, principal = given.request.client, given.principal
    by_name = principal.is_verified and principal is not ANONYMOUS
    return principal.name if by_name else f"@{client.host if client else ''}"


def _body_is_too_large(request: Request, limits: Limits) -> bool:
    """By what the client says; one that does not say is found out when the body is read."""
    length = _header(request, b"content-length") or "0"
    return not length.isdecimal() or int(length) > limits.max_body_bytes


def _raw_path(request: Request) -> str:
    raw: bytes | None = request.scope.get("raw_path")
    return str(request.scope["path"]) if raw is None else raw.decode("latin-1").partition("?")[0]


def _response(found: Any, status: int, media_type: str) -> Response:
    if isinstance(found, Response):
        return found
    if isinstance(found, Streamed):
        kind = _Duplex if found.reads_body else StreamingResponse
        return kind(found.parts, status, dict(found.headers), media_type=found.media_type or media_type)
    answer = found if isinstance(found, Answer) else Answer(found, status)
    if isinstance(answer.body, Text):
        response = Response(answer.body, answer.status or status, media_type=media_type)
    elif isinstance(found, Answer) and answer.body is None:
        response = Response(status_code=answer.status or status)
    else:
        response = _json(answer.body, media_type, answer.status or status)
    response.headers.update(dict(answer.headers))
    return response


def _methods(methods: list[str]) -> Response:
    named = [*(("HEAD",) if "GET" in methods else ()), *dict.fromkeys(methods), "OPTIONS"]
    return Response(", ".join(named), headers={"Allow": ",".join(named)}, media_type="text/plain")


def _json(answer: Any, media_type: str, status: int = 200) -> Response:
    # Escaped, as half a surrogate pair cannot be written in UTF-8.
    data = json.dumps(answer, separators=(",", ":")).encode("ascii")
    return Response(data, status, media_type=media_type)


class _Duplex(StreamingResponse):
    """Leaves the body to the handler: who waits for the client to go would take its pieces away."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.stream_response(send)


async def _lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    """Nothing to do: the service is opened and closed by the program that runs the application."""
    assert scope["type"] == "lifespan", scope["type"]
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
