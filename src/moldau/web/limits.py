"""What one client, and all of them together, may ask of a service at once.

Invariant: a body is kept up to its limit, never further. A little beyond it is read and forgotten, so that a
client that sends slightly too much hears why; the connection is closed after that.
"""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from moldau.web.problems import http_problem

#: How many times its limit a body is read before the connection is closed in the middle of it.
_READ_AND_FORGOTTEN = 4


@dataclass(frozen=True, slots=True)
class Limits:
    #: A larger body is answered with 413.
    max_body_bytes: int = 2 * 1024 * 1024
    #: All headers together; more are answered with 431.
    max_header_bytes: int = 32 * 1024
    #: A body that is not there by then is answered with 408, a handler that is not ready with 503.
    request_timeout_ms: int = 120_000
    #: More than these at the same time are answered with 503.
    max_concurrent_requests: int = 1_000
    #: Open connections, with and without a request; more are answered with 503.
    max_connections: int = 10_000
    #: Requests a second of one user, or of one address without a login; more are answered with 429. 0 is any.
    max_requests_per_second: float = 0
    #: So many may come at once after a pause.
    request_burst: int = 100


def check_headers(limits: Limits, headers: Iterable[tuple[bytes, bytes]]) -> None:
    if sum(len(name) + len(value) for name, value in headers) > limits.max_header_bytes:
        raise http_problem(431, f"The headers are larger than {limits.max_header_bytes} bytes")


async def read_body(limits: Limits, parts: AsyncIterator[bytes], declared: int = 0) -> bytes:
    """``declared`` is how long the client says that the body is; 0 where it does not say."""
    too_large = http_problem(413, f"The request is larger than {limits.max_body_bytes} bytes")
    if declared > _READ_AND_FORGOTTEN * limits.max_body_bytes:
        raise too_large
    found, size = list[bytes](), 0
    async for part in parts:
        size += len(part)
        if size <= limits.max_body_bytes:
            found.append(part)
        elif size <= _READ_AND_FORGOTTEN * limits.max_body_bytes:
            found.clear()
        else:
            break
    if size > limits.max_body_bytes:
        raise too_large
    return b"".join(found)
