"""A small HTTP/1.1 server for the process that must stay small: metrics, health, a few pages of JSON.

Services with an API stand on ``web/``; this one has no routes, no TLS and no uploads worth the name.

Invariant: everything that a peer can make grow is bounded: connections, heads, bodies, and the time that it
takes to send them. On the loopback address no foreign page of a browser is answered. A handler that fails is
a 500 and a line in the log, never a hanging connection.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import parse_qsl

from moldau.base.host_names import is_loopback, is_own_name

log = logging.getLogger("moldau.http")

_HEAD_BYTES_MOST = 16 * 1024
_BODY_BYTES_MOST = 1024 * 1024
_CONNECTIONS_MOST = 64
_IDLE_SECONDS = 60.0
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    #: Still percent-encoded, without the query.
    path: str
    query: Mapping[str, str]
    #: By name in lower case.
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Handle: TypeAlias = Callable[[Request], Awaitable[Response]]


class _Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class HttpServer:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._only_own_names = False

    async def start(self, host: str, port: int) -> int:
        """Listens, and returns the port, which the system chose if it was 0."""
        self._only_own_names = is_loopback(host)
        self._server = await asyncio.start_server(self._serve, host, port, limit=_HEAD_BYTES_MOST)
        chosen: int = self._server.sockets[0].getsockname()[1]
        return chosen

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._connections) > _CONNECTIONS_MOST:
                await _write(writer, Response(b"too many connections\n", status=503), close=True)
                return
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the peer is gone, or too slow
        except asyncio.CancelledError:
            pass  # the server stops
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer(self, request: Request) -> Response:
        if self._only_own_names and not is_own_name(request.headers.get("host", "")):
            return Response(b"ask by the address, or as localhost\n", status=403)
        return await self._handle(request)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answers one request; whether there may be another one on this connection."""
        try:
            async with asyncio.timeout(_IDLE_SECONDS):
                request = await _read(reader)
        except _Refused as refusal:
            await _write(writer, Response(f"{refusal}\n".encode(), status=refusal.status), close=True)
            return False
        if request is None:
            return False
        try:
            response = await self._answer(request)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            response = Response(b"the request failed; the log says why\n", status=500)
        close = request.headers.get("connection", "").lower() == "close"
        async with asyncio.timeout(_IDLE_SECONDS):
            await _write(writer, response, close=close, head_only=request.method == "HEAD")
        return not close


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise _Refused(431, f"the head of a request may have {_HEAD_BYTES_MOST} bytes") from None
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        raise _Refused(400, "this is no HTTP/1.1 request")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    path, _, query = words[1].partition("?")
    return Request(words[0], path, dict(parse_qsl(query)), headers, await _body(reader, headers))


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if "transfer-encoding" in headers:
        raise _Refused(400, "send a body with Content-Length")
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit() or len(length) > 12:
        raise _Refused(400, "Content-Length is no number")
    if int(length) > _BODY_BYTES_MOST:
        raise _Refused(413, f"a body may have {_BODY_BYTES_MOST} bytes")
    return await reader.readexactly(int(length))


async def _write(
    writer: asyncio.StreamWriter, response: Response, *, close: bool, head_only: bool = False
) -> None:
    headers = {
        "Content-Type": response.content_type,
        "Content-Length": str(len(response.body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        **response.headers,
    }
    if close:
        headers["Connection"] = "close"
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {response.status} {_REASONS.get(response.status, 'Unknown')}\r\n{lines}\r\n"
    writer.write(head.encode("latin-1"))
    if not head_only:
        writer.write(response.body)
    await writer.drain()
