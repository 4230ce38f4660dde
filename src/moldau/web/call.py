"""One request as a service's handlers see it: path, query and body, from text to values.

A service that needs more makes a subclass with what it reads from its requests, and with its own state.

Invariant: what a client got wrong becomes a ``Problem``. A handler reads the parameters that its route
declares and no others, so that the OpenAPI document is true.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

from moldau.web.authentication import Principal
from moldau.web.json_text import read_json
from moldau.web.limits import Limits, read_body
from moldau.web.problems import http_problem
from moldau.web.routes import Matched

_T = TypeVar("_T")
#: What reading a body raises when the client has gone before its end.
ClientGone = ClientDisconnect


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was let in and has a route."""

    request: Request
    matched: Matched
    principal: Principal
    request_id: str
    limits: Limits
    #: What the answer will be called.
    media_type: str = "application/json"


class Call:
    """``parameters`` are the variable parts of the path."""

    def __init__(self, asked: Asked) -> None:
        self.request = asked.request
        self.parameters = asked.matched.parameters
        #: The path of the route, with its parameters in braces.
        self.route_path = asked.matched.route.path
        self.principal = asked.principal
        self.request_id = asked.request_id
        self.media_type = asked.media_type
        self.limits = asked.limits
        self._query = {parameter.name for parameter in asked.matched.route.query}
        self._texts: Mapping[str, str] | None = None
        self._body: bytes | None = None
        #: Whether a handler waits for the body at the moment.
        self.reads_body = False

    # The query.

    def text(self, name: str) -> str | None:
        if self._texts is None:
            self._texts = self._read_query()
        return self._texts.get(self._declared(name))

    def texts(self, name: str) -> list[str]:
        """All values of a parameter that is given several times."""
        return self.request.query_params.getlist(self._declared(name))

    def flag(self, name: str) -> bool:
        return (self.text(name) or "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        text = self.text(name)
        if text is None or text == "":
            return default
        try:
            return int(text)
        except ValueError:
            raise http_problem(400, f"{name}={text} is no number") from None

    def page(self, found: list[_T]) -> list[_T]:
        """The part of a list that ``offset`` and ``limit`` ask for."""
        offset, limit = self.number("offset", 0), self.number("limit", -1)
        begin = max(offset, 0)
        return found[begin:] if limit < 0 else found[begin : begin + limit]

    def _read_query(self) -> Mapping[str, str]:
        """The last value of each parameter."""
        raw: bytes = self.request.scope["query_string"]
        if b"%" in raw or b"+" in raw:
            return self.request.query_params
        # Without escapes there is nothing to decode, and the pairs are found in less time.
        pairs = (each.partition("=") for each in raw.decode("latin-1").split("&") if each)
        return {name: value for name, _, value in pairs}

    def _declared(self, name: str) -> str:
        assert name in self._query, f"the route does not declare {name}"
        return name

    # The body.

    async def raw_body(self) -> bytes:
        if self._body is None:
            self.reads_body = True
            length = self.request.headers.get("content-length", "0")
            declared = int(length) if length.isdecimal() else 0
            self._body = await read_body(self.limits, self.request.stream(), declared)
            self.reads_body = False
        return self._body

    async def body(self) -> dict[str, Any]:
        """The JSON object that the body is."""
        found = await self.json()
        if not isinstance(found, dict):
            raise http_problem(400, "The request is no JSON object")
        return found

    async def json(self) -> Any:
        """The JSON value that the body is."""
        try:
            return read_json(await self.raw_body())
        except ValueError as error:
            raise http_problem(400, f"The request is no JSON: {error}") from None

    def body_parts(self) -> AsyncIterator[bytes]:
        """The body as it comes, for a handler that keeps little of it; its limits are the handler's."""
        assert self._body is None, "the body has been read already"
        self._body = b""
        return self.request.stream()

    @property
    def body_type(self) -> str:
        """What the client calls its body, without parameters; empty where it does not say."""
        return self.request.headers.get("content-type", "").partition(";")[0].strip().lower()

    def forwarded_headers(self) -> dict[str, str]:
        """What another instance has to know when the request is sent on to it; for subclasses."""
        return {}

    def header(self, name: str) -> str | None:
        return self.request.headers.get(name)
