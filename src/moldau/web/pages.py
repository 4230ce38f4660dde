"""Answers for people instead of programs: pages, redirects, files to keep, and streams of events.

Invariant: a file is never shown by the browser as something else than it is called, and a stream ends when
the browser has gone.
"""

from collections.abc import AsyncIterator, Mapping
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse


def page(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """HTML; half a surrogate pair, which UTF-8 cannot say, becomes a question mark."""
    data = text.encode("utf-8", "replace")
    found = {"Cache-Control": "no-store", **(headers or {})}
    return Response(data, status, found, media_type="text/html; charset=utf-8")


def redirect(location: str, headers: Mapping[str, str] | None = None) -> Response:
    """To be asked for with GET, after a form was sent."""
    return Response(status_code=303, headers={"Location": location, **(headers or {})})


def download(data: bytes, media_type: str, file_name: str) -> Response:
    """A file to keep; a name with other than plain letters is sent as RFC 6266 has it."""
    disposition = f"attachment; filename*=UTF-8''{quote(file_name, safe='')}"
    headers = {"Content-Disposition": disposition, "Cache-Control": "no-store"}
    return Response(data, headers=headers, media_type=media_type)


def asset(data: bytes, media_type: str, tag: str) -> Response:
    """A file that pages need; the browser asks again only whether ``tag`` is still the one."""
    headers = {"Cache-Control": "no-cache", "ETag": f'"{tag}"'}
    return Response(data, headers=headers, media_type=media_type)


def not_modified(tag: str) -> Response:
    return Response(status_code=304, headers={"Cache-Control": "no-cache", "ETag": f'"{tag}"'})


def events(source: AsyncIterator[tuple[str, str]]) -> Response:
    """Server-sent events: names and texts; the source is closed when the browser is gone."""

    async def lines() -> AsyncIterator[bytes]:
        async for name, text in source:
            parts = "".join(f"data: {line}\n" for line in text.split("\n"))
            yield f"event: {name}\n{parts}\n".encode("utf-8", "replace")

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(lines(), headers=headers, media_type="text/event-stream")
