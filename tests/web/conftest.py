"""A service with a few routes, behind a real port in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest

from moldau.web.application import Application, Service
from moldau.web.call import Call
from moldau.web.openapi import Description
from moldau.web.problems import Problem
from moldau.web.routes import Answer, Route, RouteTable, Text, flag, number
from moldau.web.server import Listener, ListenerOptions, serve


async def greet(call: Call) -> Any:
    name = call.parameters["name"]
    if name == "nobody":
        raise Problem(40401, 404, "There is nobody", {"X-Why": "nobody"})
    return {"hello": name, "loud": call.flag("loud"), "by": call.principal.name}


async def echo(call: Call) -> Any:
    return Answer(await call.body(), 201, (("Location", "/echo/1"),))


async def plain(call: Call) -> Any:
    return Text("as it is")


async def nothing(call: Call) -> Any:
    return Answer()


async def broken(call: Call) -> Any:
    raise RuntimeError("a bug")


async def some(call: Call) -> Any:
    return call.page(list(range(10)))


PAGE = (number("offset"), number("limit"))
ROUTES = (
    Route("GET", "/people/{name}", greet, "Greet", (flag("loud", "Shout"),), answer="Greeting"),
    Route("POST", "/echo", echo, "Echo", body="Anything", status=201),
    Route("GET", "/text", plain, "A text"),
    Route("DELETE", "/text", nothing, "Forget it", status=204),
    Route("GET", "/broken", broken, "A bug"),
    Route("GET", "/numbers", some, "Numbers", PAGE),
)
SCHEMAS = {"Greeting": {"type": "object"}, "Anything": {"type": "object"}}


def service(*more: Route) -> Service:
    return Service(Description("Test", "1", schemas=SCHEMAS), RouteTable((*ROUTES, *more)))


class Serving:
    """``stop`` begins the end and returns; the ``with`` waits for it."""

    def __init__(self, url: str, loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
        self.url = url
        self.loop = loop
        self.stop = stop

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=10, trust_env=False, **options)


@contextmanager
def serving(make: Callable[[], Application], **options: Any) -> Iterator[Serving]:
    """Runs the application that ``make`` makes inside the thread's event loop."""
    started: Future[Serving] = Future()

    async def work() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        application = make()
        with Listener(ListenerOptions(**options)) as listener:

            def ready() -> None:
                def end() -> None:
                    with suppress(RuntimeError):  # it has ended by itself
                        loop.call_soon_threadsafe(stop.set)

                started.set_result(Serving(listener.url, loop, end))

            try:
                await serve(application, listener, ready, stop)
            finally:
                await application.close()

    def body() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=body, name="web", daemon=True)
    thread.start()
    found = started.result(10)
    try:
        yield found
    finally:
        found.stop()
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def run_service() -> Callable[..., Any]:
    """Runs the test's service; takes what ``Application`` takes, and options of the ``listener``."""

    def run(*more: Route, listener: dict[str, Any] | None = None, **options: Any) -> Any:
        return serving(lambda: Application(service(*more), **options), **(listener or {}))

    return run


@pytest.fixture
def run_application() -> Callable[..., Any]:
    return serving


@pytest.fixture
def test_service() -> Callable[..., Service]:
    return service
