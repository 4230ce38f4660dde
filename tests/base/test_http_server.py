"""The small HTTP server against raw sockets: several requests on one connection, bounds, rubbish, bugs."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from moldau.base.http_server import HttpServer, Request, Response


async def echo(request: Request) -> Response:
    if request.path == "/bug":
        raise RuntimeError("a bug")
    text = f"{request.method} {request.path} {dict(request.query)} {request.body.decode()}"
    return Response(text.encode())


def play(scene: Callable[[Callable[[bytes], Awaitable[bytes]]], Awaitable[None]]) -> None:
    async def run() -> None:
        server = HttpServer(echo)
        port = await server.start("127.0.0.1", 0)

        async def talk(data: bytes) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            writer.write_eof()
            try:
                return await reader.read()
            finally:
                writer.close()

        try:
            await scene(talk)
        finally:
            await server.close()

    asyncio.run(run())


def test_requests_follow_each_other_on_one_connection() -> None:
    async def scene(talk: Callable[[bytes], Awaitable[bytes]]) -> None:
        answer = await talk(
            b"GET /a?x=1&y=%20 HTTP/1.1\r\nHost: localhost\r\n\r\n"
            b"POST /b HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi"
            b"HEAD /c HTTP/1.1\r\nConnection: close\r\n\r\n"
        )
        assert answer.count(b"HTTP/1.1 200 OK\r\n") == 3
        assert b"GET /a {'x': '1', 'y': ' '} " in answer
        assert b"POST /b {} hi" in answer
        assert answer.endswith(b"Connection: close\r\n\r\n")

    play(scene)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
        (b"hello\r\n\r\n", 400),
        (b"GET http://elsewhere/ HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000 + b"\r\n\r\n", 431),
        (b"GET /bug HTTP/1.1\r\nConnection: close\r\n\r\n", 500),
    ],
)
def test_what_is_wrong_has_a_status(data: bytes, status: int) -> None:
    async def scene(talk: Callable[[bytes], Awaitable[bytes]]) -> None:
        assert (await talk(data)).startswith(f"HTTP/1.1 {status} ".encode())

    play(scene)


def test_who_says_nothing_or_half_gets_nothing() -> None:
    async def scene(talk: Callable[[bytes], Awaitable[bytes]]) -> None:
        assert await talk(b"") == b""
        assert await talk(b"GET / HT") == b""
        assert await talk(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab") == b""

    play(scene)
