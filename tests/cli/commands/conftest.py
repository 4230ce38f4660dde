"""A schema registry for the commands that talk to one, on the broker of the test."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from moldau.testing import Broker


@contextmanager
def serving(bootstrap_servers: str, **options: object) -> Iterator[str]:
    """A registry in a thread of its own; its URL."""
    from moldau.registry.server import ServerOptions, serve

    started: Future[str] = Future()
    stopping: Future[Callable[[], None]] = Future()

    async def work() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        stopping.set_result(lambda: loop.call_soon_threadsafe(stop.set))
        wanted = {"bootstrap_servers": bootstrap_servers, **options}
        await serve(ServerOptions(**wanted), lambda url, _: started.set_result(url), stop)  # type: ignore[arg-type]

    thread = threading.Thread(target=lambda: asyncio.run(work()), name="registry", daemon=True)
    thread.start()
    try:
        yield started.result(30)
    finally:
        stopping.result(1)()
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture
def serve_registry(broker: Broker) -> Callable[..., object]:
    return lambda **options: serving(broker.bootstrap_servers, **options)


@pytest.fixture
def registry(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty registry, which the commands find by themselves."""
    with serving(broker.bootstrap_servers) as url:
        monkeypatch.setenv("MOLDAU_SCHEMA_REGISTRY_URL", url)
        yield url
