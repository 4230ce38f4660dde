"""A broker for the module, and registries that run on it."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import httpx
import pytest

from moldau.broker.apis import TABLE
from moldau.registry.server import ServerOptions, serve
from moldau.registry.service import Registry
from moldau.testing import Broker


@pytest.fixture(scope="module")
def _broker() -> Iterator[Broker]:
    # The broker loads its handlers when they are first asked for, in its own thread. Under pytest that means
    # rewriting, and CPython 3.11 fails when two threads rewrite at once (gh-106905): all are loaded here.
    for api in TABLE.values():
        assert api.handle
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture
def broker(_broker: Broker) -> Iterator[Broker]:
    yield _broker
    _broker.reset()


class Running:
    """A registry in a thread of its own, behind a real port."""

    def __init__(self, url: str, registry: Registry, loop: asyncio.AbstractEventLoop) -> None:
        self.url = url
        self.registry = registry
        self.loop = loop
        self.http = httpx.Client(base_url=url, timeout=30, trust_env=False)

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)


@contextmanager
def running(broker: Broker, **options) -> Iterator[Running]:
    started: Future[Running] = Future()
    stopping: Future[Callable[[], None]] = Future()

    async def work() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        stopping.set_result(lambda: loop.call_soon_threadsafe(stop.set))

        def ready(url: str, registry: Registry) -> None:
            started.set_result(Running(url, registry, loop))

        wanted = ServerOptions(**{"bootstrap_servers": broker.bootstrap_servers, **options})
        await serve(wanted, ready, stop)

    def body() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=body, name="registry", daemon=True)
    thread.start()
    found = started.result(30)
    try:
        yield found
    finally:
        found.http.close()
        stopping.result(1)()
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture
def start(broker: Broker):
    """Makes registries; they are stopped at the end of the test."""
    return lambda **options: running(broker, **options)
