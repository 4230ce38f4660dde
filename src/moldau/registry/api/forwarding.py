"""Hands a request on to the instance that leads, and its answer back.

Who leads may change meanwhile: an instance that does not listen any more, or says that it does not lead, has
done nothing, and the caller finds out anew who does.

Invariant: a request is handed on once: it carries a mark, and who gets it so does not hand it on again.
What the leader answers is passed on as it is; that nobody answered is error 50003, and then nobody knows
whether it was done, as with every write whose answer is lost.
"""

import httpx
from starlette.requests import Request
from starlette.responses import Response

from moldau.registry.errors import UNKNOWN_LEADER, forwarding_failed

#: The header of Confluent's registry.
FORWARDED = "X-Forward"
_TIMEOUT_SECONDS = 60.0
_PASSED_ON = ("accept", "content-type", "authorization")


def _code(answer: httpx.Response) -> object:
    try:
        found = answer.json()
    except ValueError:
        return None
    return found.get("error_code") if isinstance(found, dict) else None


class Forwarding:
    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def send(self, request: Request, body: bytes, leader_url: str) -> Response | None:
        """None when nobody took it, and so nothing was done."""
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=_TIMEOUT_SECONDS, trust_env=False)
        raw_path: bytes = request.scope.get("raw_path") or request.url.path.encode()
        query: bytes = request.scope.get("query_string", b"")
        target = raw_path.partition(b"?")[0] + (b"?" + query if query else b"")
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        try:
            answer = await self._client.request(
                request.method,
                httpx.URL(leader_url).copy_with(raw_path=target),
                content=body,
                headers={**headers, FORWARDED: "true"},
            )
        except httpx.ConnectError:
            return None
        except httpx.HTTPError as error:
            raise forwarding_failed(f"{leader_url}: {error or type(error).__name__}") from error
        if answer.status_code >= 500 and _code(answer) == UNKNOWN_LEADER:
            return None
        media_type = answer.headers.get("content-type")
        return Response(answer.content, answer.status_code, media_type=media_type)
