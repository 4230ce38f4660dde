"""Questions about the stores of an application, over HTTP.

    GET /stores                           every store, with its kind and its rows
    GET /stores/{store}?from=a&to=c       rows by key, in order
    GET /stores/{store}/{key}?since=0     the row of a key; of windows, those that start in a range

Invariant: an answer names the offsets up to which the input was taken for it; the rows of a partition are all
of that moment.
"""

import asyncio
import threading
from concurrent.futures import Future
from heapq import nsmallest
from typing import Any

from moldau.streams.engine.records import Windowed
from moldau.streams.errors import StreamsError
from moldau.streams.runner.orders import Application
from moldau.streams.runner.store_views import Place, StoreViews, row_json
from moldau.web.application import Application as WebApplication
from moldau.web.application import Service
from moldau.web.call import Asked, Call
from moldau.web.openapi import Description
from moldau.web.problems import Problem
from moldau.web.routes import Route, RouteTable, number, text
from moldau.web.server import Listener, ListenerOptions, serve

_DEFAULT_ROWS, _MOST_ROWS = 100, 10_000
_FAR = 1 << 62
_NO_STORE, _NO_KEY, _BAD_KEY = 40401, 40402, 40001


class StoreCall(Call):
    def __init__(self, asked: Asked, views: StoreViews, lock: asyncio.Lock) -> None:
        super().__init__(asked)
        self.views = views
        self.lock = lock

    async def refreshed(self, store: str | None = None) -> StoreViews:
        """The views, up to date; other requests wait, so that a view is read by one at a time."""
        if store is not None:
            try:
                self.views.check(store)
            except StreamsError as error:
                raise Problem(_NO_STORE, 404, str(error)) from None
        async with self.lock:
            await asyncio.to_thread(self.views.refresh)
        return self.views


async def list_stores(call: StoreCall) -> Any:
    views = await call.refreshed()
    return [
        {
            "name": name,
            "kind": views.kind(name),
            "rows": views.size(name),
            "as_of": _places(views.places(name)),
        }
        for name in views.names()
    ]


async def get_row(call: StoreCall) -> Any:
    store = call.parameters["store"]
    views = await call.refreshed(store)
    try:
        key = views.key_of(store, call.parameters["key"])
    except StreamsError as error:
        raise Problem(_BAD_KEY, 400, str(error)) from None
    rows, places = views.get(store, key)
    if views.kind(store) in ("window", "session"):
        since, until = call.number("since", 0), call.number("until", _FAR)
        chosen = [row_json(row) for row in rows if since <= row.key.start <= until]
        return {"windows": chosen[:_MOST_ROWS], "as_of": _places(places)}
    if not rows:
        raise Problem(_NO_KEY, 404, f"store {store} has no key {call.parameters['key']}")
    return {**row_json(rows[0]), "as_of": _places(places)}


async def get_range(call: StoreCall) -> Any:
    store = call.parameters["store"]
    views = await call.refreshed(store)
    limit = min(max(call.number("limit", _DEFAULT_ROWS), 1), _MOST_ROWS)
    low, high = call.text("from"), call.text("to")
    try:
        first = None if low is None else views.order_of(store, views.key_of(store, low))
        last = None if high is None else views.order_of(store, views.key_of(store, high))
    except StreamsError as error:
        raise Problem(_BAD_KEY, 400, str(error)) from None
    since, until = call.number("since", 0), call.number("until", _FAR)
    found: list[tuple[tuple[bytes, int], int, Any]] = []
    for row in views.all(store):
        place = views.order_of(store, row.key)
        if (first is not None and place < first) or (last is not None and place > last):
            continue
        start = row.key.start if isinstance(row.key, Windowed) else 0
        if isinstance(row.key, Windowed) and not since <= start <= until:
            continue
        found.append(((place, start), len(found), row))
    chosen = nsmallest(limit, found)
    return {
        "rows": [row_json(row) for _, _, row in chosen],
        "more": len(found) > limit,
        "as_of": _places(views.places(store)),
    }


def _places(places: list[Place]) -> list[dict[str, Any]]:
    return [place._asdict() for place in places]


_WINDOWS = (
    number("since", "The earliest start of a window, in milliseconds."),
    number("until", "The latest start of a window."),
)
ROUTES = (
    Route("GET", "/stores", list_stores, "Every store."),
    Route(
        "GET",
        "/stores/{store}",
        get_range,
        "Rows of a store, by key.",
        (
            text("from", "The first key."),
            text("to", "The last key."),
            number("limit", "Most rows."),
            *_WINDOWS,
        ),
    ),
    Route("GET", "/stores/{store}/{key}", get_row, "The row of a key, or its windows.", _WINDOWS),
)


class StoreServer:
    """Answers on a thread of its own until ``close``."""

    def __init__(self, application: Application, port: int, host: str = "127.0.0.1") -> None:
        try:
            self._listener = Listener(ListenerOptions(host, port))
        except OSError as error:
            raise StreamsError(
                f"stores cannot be served on port {port}: {error.strerror}; choose another with --http-port"
            ) from None
        self.url = self._listener.url
        views = StoreViews(application)
        started: Future[None] = Future()
        self._stop: Future[Any] = Future()

        async def work() -> None:
            lock, stop = asyncio.Lock(), asyncio.Event()
            loop = asyncio.get_running_loop()
            self._stop.set_result(lambda: loop.call_soon_threadsafe(stop.set))
            description = Description("Stores of Moldau streams", "1")
            web = WebApplication(
                Service(description, RouteTable(ROUTES)), lambda asked: StoreCall(asked, views, lock)
            )
            with self._listener as listener:
                await serve(web, listener, lambda: started.set_result(None), stop)

        self._thread = threading.Thread(target=lambda: asyncio.run(work()), name="stores", daemon=True)
        self._thread.start()
        started.result(30)

    def close(self) -> None:
        self._stop.result(1)()
        self._thread.join(15)
