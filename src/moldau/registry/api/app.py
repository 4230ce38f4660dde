"""The registry over HTTP: from requests to calls, from answers and errors to responses.

Every request takes the same way: who asks (401), which route (404, 405), which media types (406, 415), the
handler, and where another instance leads, the same request there once more.

Invariant: every request gets an answer with a body in JSON, errors as ``{"error_code", "message"}``.
Nothing here knows what a schema is. No header lets a foreign web page read an answer (CORS is off).
"""

import asyncio
import base64
import binascii
import hmac
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from moldau.client.replicated_state.replicated_state import NotLeader
from moldau.registry.api.call import Call
from moldau.registry.api.forwarding import FORWARDED, Forwarding
from moldau.registry.api.openapi import MEDIA_TYPE, document
from moldau.registry.api.resources import Text
from moldau.registry.api.routes import Matched, match
from moldau.registry.errors import RegistryError, unknown_leader
from moldau.registry.service import Registry

log = logging.getLogger("moldau.registry")

#: What an answer may be called, the one that is meant without a word first.
MEDIA_TYPES = (MEDIA_TYPE, "application/vnd.schemaregistry+json", "application/json")
#: How often who leads is asked for when nobody takes a write: for longer than a dead leader is remembered.
_ATTEMPTS = 60
_AGAIN_SECONDS = 0.25
_TAKEN = frozenset({*MEDIA_TYPES, "application/octet-stream"})


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Users are names and passwords; without any, everybody may do everything."""

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_request_bytes: int = 2 * 1024 * 1024


class Api:
    """An ASGI application."""

    def __init__(self, registry: Registry, options: ApiOptions | None = None) -> None:
        self.registry = registry
        self.options = options or ApiOptions()
        self._forwarding = Forwarding()

    async def close(self) -> None:
        await self._forwarding.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _lifespan(scope, receive, send)
            return
        response = await self.respond(Request(scope, receive))
        await response(scope, receive, send)

    async def respond(self, request: Request) -> Response:
        media_type = MEDIA_TYPE
        try:
            self._authenticate(request)
            media_type = _accepted(request.headers.get("accept"))
            if request.url.path == "/openapi.json" and request.method == "GET":
                return _json(document(), "application/json")
            matched = _route(request)
            _check_content_type(request)
            return await self._answer(request, matched, media_type)
        except RegistryError as error:
            return _error(error, media_type)

    async def _answer(self, request: Request, matched: Matched, media_type: str) -> Response:
        call = Call(
            self.registry, request, matched.parameters, matched.context, self.options.max_request_bytes
        )
        for _ in range(_ATTEMPTS):
            try:
                answer = await matched.route.handler(call)
            except NotLeader as elsewhere:
                if request.headers.get(FORWARDED):
                    raise unknown_leader() from None  # the two do not agree who leads: the sender asks again
                url = elsewhere.leader.url
                response = await self._forwarding.send(request, await call.raw_body(), url)
                if response is not None:
                    return response
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                return _text(answer, media_type) if isinstance(answer, Text) else _json(answer, media_type)
        raise unknown_leader()

    def _authenticate(self, request: Request) -> None:
        users = self.options.users
        if not users:
            return
        name, password = _credentials(request.headers.get("authorization", ""))
        expected = users.get(name)
        # The comparison takes its time for unknown names too.
        right = hmac.compare_digest(password.encode(), (expected or "").encode())
        if expected is None or not right:
            raise RegistryError(401, 401, "Unauthorized")


def _route(request: Request) -> Matched:
    raw: bytes | None = request.scope.get("raw_path")
    path = request.scope["path"] if raw is None else raw.decode("latin-1")
    found = match(request.method, path)
    if isinstance(found, Matched):
        return found
    if found:
        raise RegistryError(405, 405, "HTTP 405 Method Not Allowed")
    raise RegistryError(404, 404, "HTTP 404 Not Found")


def _accepted(header: str | None) -> str:
    """The media type of the answer: the best that the client takes, in its own order of weights."""
    if header is None or not header.strip():
        return MEDIA_TYPE
    offers = []
    for place, part in enumerate(header.split(",")):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        offers.append((-_weight(parameters), place, name))
    for weight, _, name in sorted(offers):
        if weight == 0:
            continue
        if name in ("*/*", "application/*"):
            return MEDIA_TYPE
        if name in MEDIA_TYPES:
            return name
    raise RegistryError(406, 406, "HTTP 406 Not Acceptable")


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0


def _check_content_type(request: Request) -> None:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given and given not in _TAKEN and request.method in ("POST", "PUT"):
        raise RegistryError(415, 415, "HTTP 415 Unsupported Media Type")


def _credentials(header: str) -> tuple[str, str]:
    scheme, _, data = header.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(data.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password


def _json(answer: Any, media_type: str, status: int = 200) -> Response:
    # Escaped, as half a surrogate pair has no place in UTF-8.
    data = json.dumps(answer, separators=(",", ":")).encode("ascii")
    return Response(data, status, media_type=media_type)


def _text(answer: Text, media_type: str) -> Response:
    return Response(answer, media_type=media_type)


def _error(error: RegistryError, media_type: str) -> Response:
    response = _json({"error_code": error.code, "message": error.message}, media_type, error.status)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = 'Basic realm="schema-registry"'
    return response


async def _lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    """Whoever runs the application opens and closes the registry: there is nothing to do."""
    assert scope["type"] == "lifespan", scope["type"]
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
