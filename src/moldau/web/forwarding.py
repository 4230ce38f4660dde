"""Sends a request on to the instance that leads, and its answer back.

Who leads may change meanwhile: an instance that does not listen any more, or answers that it does not lead,
has done nothing, and the handler is asked again who does.

Invariant: a request is forwarded once: it carries a mark, and an instance that gets it so does not forward it
again. What the leader answers is passed on as it is. Where no answer
came, it is not known whether it was done, as with every write whose answer is lost.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
from starlette.responses import Response, StreamingResponse

from moldau.web.call import Call
from moldau.web.problems import Problem

#: The header of Confluent's services.
FORWARDED = "X-Forward"
#: Longer than a request may wait at the other instance, which the REST proxy's long polls do for a minute.
_TIMEOUT_SECONDS = 90.0
#: Any number at once: what is forwarded is bounded like all requests, and long polls and streams keep their
#: connections. One that is idle is given up before the other side does that, after five seconds.
_CONNECTIONS = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=2.0)
_PASSED_ON = ("accept", "content-type", "authorization")
_PASSED_BACK = frozenset({"location", "www-authenticate", "retry-after", "x-delivery"})
#: Answers of this media type have no end of their own, and are passed on as they come.
EVENT_STREAM = "text/event-stream"
#: How often the handler is asked again for the leader: for longer than a dead leader stays in the group.
_ATTEMPTS = 60
_AGAIN_SECONDS = 0.25


#: Confluent's codes; the first one says that nothing was done.
UNKNOWN_LEADER, FORWARDING_FAILED = 50004, 50003


def unknown_leader() -> Problem:
    return Problem(UNKNOWN_LEADER, 500, "The leader is not known at the moment")


def forwarding_failed(why: object) -> Problem:
    return Problem(FORWARDING_FAILED, 500, f"Error while forwarding the request to the leader: {why}")


class Forwarding:
    """``leader_url`` finds in what a handler raised where the leader is; None where it raised something else.

    ``unknown_leader`` is the problem of an instance that knows no leader; in an answer its code says that
    nothing was done. ``failed`` is the problem of a leader that did not answer. ``tls`` is for leaders at
    https addresses. ``again_seconds`` is the pause before the handler is asked again.
    """

    def __init__(
        self,
        leader_url: Callable[[Exception], str | None],
        *,
        unknown_leader: Callable[[], Problem] = unknown_leader,
        failed: Callable[[str], Problem] = forwarding_failed,
        tls: ssl.SSLContext | None = None,
        again_seconds: float | None = None,
    ) -> None:
        self._again_seconds = _AGAIN_SECONDS if again_seconds is None else again_seconds
        self._leader_url = leader_url
        self._unknown_leader = unknown_leader
        self._failed = failed
        self._tls = tls
        self._client: httpx.AsyncClient | None = None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def handle(self, call: Call, handle: Callable[[], Awaitable[Response]]) -> Response:
        """The answer of our own handler, or of the instance that it names."""
        for _ in range(_ATTEMPTS):
            try:
                return await handle()
            except Exception as error:
                url = self._leader_url(error)
                if url is None:
                    raise
            if call.request.headers.get(FORWARDED):
                raise self._unknown_leader()  # the two disagree who leads: the sender asks again
            response = await self._send(call, await call.raw_body(), url)
            if response is not None:
                return response
            await asyncio.sleep(self._again_seconds)
        raise self._unknown_leader()

    async def _send(self, call: Call, body: bytes, leader_url: str) -> Response | None:
        """None when no leader accepted it, and so nothing was done."""
        if self._client is None:
            verify = True if self._tls is None else self._tls
            self._client = httpx.AsyncClient(
                timeout=_TIMEOUT_SECONDS, limits=_CONNECTIONS, trust_env=False, verify=verify
            )
        request = call.request
        raw_path: bytes = request.scope.get("raw_path") or request.url.path.encode()
        query: bytes = request.scope.get("query_string", b"")
        target = raw_path.partition(b"?")[0] + (b"?" + query if query else b"")
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        headers |= {**call.forwarded_headers(), FORWARDED: "true", "X-Request-Id": call.request_id}
        url = httpx.URL(leader_url).copy_with(raw_path=target)
        try:
            sent = self._client.build_request(request.method, url, content=body, headers=headers)
            answer = await self._client.send(sent, stream=True)
            if answer.headers.get("content-type", "").startswith(EVENT_STREAM):
                return StreamingResponse(_passed_on(answer), answer.status_code, media_type=EVENT_STREAM)
            await answer.aread()
        except httpx.ConnectError as error:
            if isinstance(error.__cause__, ssl.SSLError) or "CERTIFICATE" in str(error):
                raise self._failed(f"{leader_url}: {error}") from error  # waiting would not help
            return None
        except httpx.HTTPError as error:
            raise self._failed(f"{leader_url}: {error or type(error).__name__}") from error
        if answer.status_code >= 400 and _code(answer) == self._unknown_leader().code:
            return None
        media_type = answer.headers.get("content-type")
        kept = {name: value for name, value in answer.headers.items() if name in _PASSED_BACK}
        return Response(answer.content, answer.status_code, kept, media_type=media_type)


async def _passed_on(answer: httpx.Response) -> AsyncIterator[bytes]:
    """The pieces of an answer that goes on; at its end, or when the client goes, the other side is closed."""
    try:
        async for part in answer.aiter_raw():
            yield part
    except httpx.HTTPError:
        return  # the other side has gone: the client sees that its stream ends
    finally:
        await answer.aclose()


def _code(answer: httpx.Response) -> object:
    try:
        found = answer.json()
    except ValueError:
        return None
    return found.get("error_code") if isinstance(found, dict) else None
