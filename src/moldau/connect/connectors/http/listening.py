"""The HTTP service of a receiver, on an event loop in a thread of its own.

Invariant: a request is answered with 204 when its record is written, and not before. Whoever waits is
answered before the service ends.
"""

import asyncio
import hmac
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from moldau.connect.connectors.http.inbox import Inbox, NotWritten, Unknown
from moldau.connect.connectors.http.received import Shape
from moldau.connect.errors import DataException
from moldau.connect.records import SourceRecord
from moldau.web.application import Application, Service
from moldau.web.authentication import Authenticate, HttpLogin, MappedAuthentication, Principal, anybody
from moldau.web.call import Call
from moldau.web.limits import Limits
from moldau.web.media_types import ANY
from moldau.web.openapi import Description
from moldau.web.problems import Problem, http_problem
from moldau.web.routes import Answer, Matched, Route, RouteTable
from moldau.web.server import Listener, ListenerOptions, serve

_STOP_SECONDS = 5
#: How long a body may take, beside the time that its record waits.
_BODY_MS = 30_000


@dataclass(frozen=True, slots=True)
class Login:
    """Who may send; empty fields are not asked for."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    def authenticate(self) -> Authenticate:
        return MappedAuthentication(self._principal, "receiver") if self.user or self.token else anybody

    def _principal(self, given: HttpLogin) -> Principal | None:
        name, password = _same(given.name, self.user), _same(given.password, self.password)
        token = _same(given.token, self.token)
        if self.user and name and password:
            return Principal(self.user)
        return Principal("token") if self.token and token else None


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


@dataclass(frozen=True, slots=True)
class Bounds:
    max_body_bytes: int
    max_records: int
    max_bytes: int
    max_connections: int
    answer_timeout_ms: int


class Receiving:
    """Listens from the beginning; OSError or ssl.SSLError where it cannot."""

    def __init__(self, where: ListenerOptions, shape: Shape, login: Login, bounds: Bounds) -> None:
        self._shape = shape
        self._login = login
        self._bounds = bounds
        self._listener = Listener(where)
        self.port = self._listener.port
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="http-receiver", daemon=True)
        self._thread.start()
        try:
            ready.result()
        except BaseException:
            self._listener.socket.close()
            raise

    def take(self, most: int, timeout_seconds: float) -> list[SourceRecord]:
        work = self._inbox.take(most, timeout_seconds)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def written(self) -> None:
        self._loop.call_soon_threadsafe(self._inbox.written)

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end)
            self._thread.join(2 * _STOP_SECONDS)
        self._listener.socket.close()

    # --- in the thread ----------------------------------------------------------------------------------

    def _run(self, ready: "Future[None]") -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    async def _serve(self, ready: "Future[None]") -> None:
        self._loop = asyncio.get_running_loop()
        self._inbox = Inbox(self._bounds.max_records, self._bounds.max_bytes)
        self._stop = asyncio.Event()
        application = self._application()
        await serve(application, self._listener, partial(ready.set_result, None), self._stop)

    def _end(self) -> None:
        self._inbox.close()
        self._stop.set()

    def _application(self) -> Application:
        bounds = self._bounds
        service = Service(
            Description("Receiver", "1"),
            _Paths(self._shape.topic_of, self._receive),
            media_types=("application/json", ANY),
            body_types=(ANY,),
            takes_foreign_pages=True,
        )
        limits = Limits(
            max_body_bytes=bounds.max_body_bytes,
            request_timeout_ms=bounds.answer_timeout_ms + _BODY_MS,
            max_concurrent_requests=bounds.max_connections,
            max_connections=bounds.max_connections,
        )
        return Application(service, authenticate=self._login.authenticate(), limits=limits)

    async def _receive(self, call: Call) -> Answer:
        headers: list[tuple[bytes, bytes]] = call.request.scope["headers"]
        size = self._declared(call) + sum(len(name) + len(value) for name, value in headers)
        try:
            with self._inbox.room(size) as room:
                body = await call.raw_body()
                record = self._shape.record(call.parameters["topic"], call.parameters["path"], headers, body)
                await self._inbox.write(record, room, self._bounds.answer_timeout_ms / 1000)
        except DataException as error:
            raise http_problem(400, error.message) from None
        except NotWritten as error:
            raise Problem(503, 503, f"{error}. Send it again later", {"Retry-After": "1"}) from None
        except Unknown as error:
            raise http_problem(504, str(error)) from None
        return Answer(None, 204)

    def _declared(self, call: Call) -> int:
        """How many bytes a body will have; as many as it may where its sender does not say."""
        said = call.header("content-length") or ""
        most = self._bounds.max_body_bytes
        return min(int(said), most) if said.isdecimal() else most


class _Paths(RouteTable):
    """One route for all paths that have a topic."""

    def __init__(self, topic_of: Callable[[str], str | None], handler: Callable[[Call], Any]) -> None:
        self._topic_of = topic_of
        self._route = Route("POST", "/{path}", handler, "Write a record", status=204, has_answer=False)
        super().__init__([self._route])

    def match(self, method: str, raw_path: str) -> Matched | list[str]:
        topic = self._topic_of(raw_path)
        if topic is None:
            return []
        if method != "POST":
            return ["POST"]
        return Matched(self._route, {"topic": topic, "path": raw_path})
