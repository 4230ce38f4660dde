"""One HTTP request from a thread that waits, to an address that was configured.

Invariant: no redirect is followed, so that secrets and keys come from and go to that address alone, and an
answer has a bound.
"""

import urllib.request
from typing import Any


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def fetch(request: urllib.request.Request | str, *, timeout_seconds: float, most_bytes: int) -> bytes:
    """The body of the answer; ``HTTPError`` (a redirect too) or another ``OSError`` without one."""
    with urllib.request.build_opener(_NoRedirects).open(request, timeout=timeout_seconds) as answer:
        data: bytes = answer.read(most_bytes)
        return data
