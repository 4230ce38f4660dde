"""The table of a service's routes, from which requests are answered and the OpenAPI document is made.

    Route("GET", "/subjects/{subject}/versions", list_versions, "List versions", (flag("deleted"),))

A part of the path in braces is a parameter: ``{subject}`` is a text, ``{id:integer}`` stands for a number.

Invariant: a path is matched as it was sent, segment by segment, and decoded after that: a parameter may
contain a slash (``%2F``). What is not in the table does not exist.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import unquote

#: From a ``Call`` of the service to its answer: a JSON value, a ``Text`` or an ``Answer``.
Handler: TypeAlias = Callable[[Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the path or the query; its type is one of JSON Schema."""

    name: str
    type: str = "string"
    description: str = ""


def flag(name: str, description: str = "") -> Parameter:
    return Parameter(name, "boolean", description)


def number(name: str, description: str = "") -> Parameter:
    return Parameter(name, "integer", description)


def text(name: str, description: str = "") -> Parameter:
    return Parameter(name, "string", description)


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    handler: Handler
    summary: str
    #: Handlers can read these parameters of the query and no others.
    query: tuple[Parameter, ...] = ()
    #: The names of the schemas of body and answer among the components of the OpenAPI document.
    body: str | None = None
    answer: str | None = None
    #: Of an answer that is no problem.
    status: int = 200
    #: What answers and bodies of this route may be called, where that differs from the rest of the service.
    media_types: tuple[str, ...] = ()
    body_types: tuple[str, ...] = ()
    #: Whether an answer that is no problem has a body.
    has_answer: bool = True

    @property
    def segments(self) -> list[str | Parameter]:
        return _segments(self.path)

    @property
    def plain_path(self) -> str:
        """The path as OpenAPI writes it: without types."""
        parts = (f"{{{part.name}}}" if isinstance(part, Parameter) else part for part in self.segments)
        return "/" + "/".join(parts)


class Text(str):
    """An answer that is sent as it is, where any other text would be sent as JSON."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with a status or headers of its own; a body of None is no body."""

    body: Any = None
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer that is sent piece by piece, as its client takes it; None is the media type of the route.

    The next piece is asked for when the last one has left, so nothing piles up for a client that is slow.
    """

    parts: AsyncIterator[bytes]
    media_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    #: Whether the body is still being read while the answer is sent.
    reads_body: bool = False


@dataclass(frozen=True, slots=True)
class Matched:
    route: Route
    parameters: dict[str, str]


#: The first part of a path that no route begins with.
_ANY = ""


class RouteTable:
    """``prefix`` is a path under which all routes exist a second time, such as ``/contexts/{context}``."""

    def __init__(self, routes: Iterable[Route], *, prefix: str = "") -> None:
        self.routes = tuple(routes)
        self._prefix = _segments(prefix) if prefix else []
        #: By length and first part of the path, in the order of the table; a parameter is under every one.
        #: With each route its last part, which most routes differ in; None where that is a parameter.
        self._by_start: dict[tuple[int, str], list[tuple[list[str | Parameter], Route, str | None]]] = {}
        firsts = {str(each.segments[0]) for each in self.routes} | {_ANY}
        for route in self.routes:
            segments = route.segments
            first, last = segments[0], None if isinstance(segments[-1], Parameter) else segments[-1]
            for start in firsts if isinstance(first, Parameter) else (first,):
                self._by_start.setdefault((len(segments), start), []).append((segments, route, last))

    def match(self, method: str, raw_path: str) -> Matched | list[str]:
        """The route of a request; otherwise the methods that the path has, none where it does not exist."""
        segments = raw_path.partition("?")[0].strip("/").split("/")
        if "%" in raw_path:
            segments = [unquote(part) for part in segments]
        before: dict[str, str] = {}
        length = len(self._prefix)
        if length and len(segments) > length:
            found = _parameters(self._prefix, segments[:length])
            if found is not None:
                before, segments = found, segments[length:]
        methods = []
        known = self._by_start.get((len(segments), segments[0]))
        end = segments[-1]
        for pattern, route, last in self._by_start.get((len(segments), _ANY), ()) if known is None else known:
            if last is not None and last != end:
                continue
            parameters = _parameters(pattern, segments)
            if parameters is None:
                continue
            if route.method == method:
                return Matched(route, before | parameters)
            methods.append(route.method)
        return methods


def _segments(path: str) -> list[str | Parameter]:
    return [_parameter(part) if part.startswith("{") else part for part in path.strip("/").split("/")]


def _parameter(part: str) -> Parameter:
    name, _, kind = part[1:-1].partition(":")
    return Parameter(name, kind or "string")


def _parameters(pattern: list[str | Parameter], segments: list[str]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for expected, segment in zip(pattern, segments, strict=True):
        if isinstance(expected, Parameter):
            found[expected.name] = segment
        elif expected != segment:
            return None
    return found
