"""A broker for the module, and proxies (with a schema registry, where one is wanted) that run on it."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from moldau.broker.apis import TABLE
from moldau.client.transport.security import PLAINTEXT, Security
from moldau.registry.server import ServerOptions as RegistryOptions
from moldau.registry.server import serve as serve_registry
from moldau.rest.proxy import Proxy, ProxyOptions
from moldau.rest.server import ServerOptions, serve
from moldau.rest.sessions import SessionOptions
from moldau.testing import Broker

PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def _broker() -> Iterator[Broker]:
    # Loaded before two threads could do it at once; see the registry's tests.
    for api in TABLE.values():
        assert api.handle
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture
def broker(_broker: Broker) -> Iterator[Broker]:
    yield _broker
    _broker.reset()


class Running:
    """A service in a thread of its own, behind a real port."""

    def __init__(self, url: str, service: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.url = url
        self.service = service
        self.loop = loop
        self.http = httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, trust_env=False)

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_SECONDS)


@contextmanager
def running(serve: Any, options: Any) -> Iterator[Running]:
    started: Future[Running] = Future()
    stopping: Future[Callable[[], None]] = Future()

    async def work() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        stopping.set_result(lambda: loop.call_soon_threadsafe(stop.set))
        await serve(options, lambda url, service: started.set_result(Running(url, service, loop)), stop)

    def body() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=body, name="service", daemon=True)
    thread.start()
    found = started.result(PATIENCE_SECONDS)
    try:
        yield found
    finally:
        found.http.close()
        stopping.result(1)()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def options_for(
    bootstrap_servers: str, security: Security = PLAINTEXT, proxy: dict[str, Any] | None = None, **more: Any
) -> ServerOptions:
    sessions = SessionOptions(bootstrap_servers, security)
    return ServerOptions(ProxyOptions(sessions, **{"group_id": None, **(proxy or {})}), **more)


@pytest.fixture
def start(broker: Broker) -> Callable[..., Any]:
    """Makes proxies: takes fields of ``ProxyOptions`` as ``proxy``, and those of ``ServerOptions``."""
    return lambda **more: running(serve, options_for(broker.bootstrap_servers, **more))


@pytest.fixture
def start_at() -> Callable[..., Any]:
    """The same at another cluster."""
    return lambda servers, **more: running(serve, options_for(servers, **more))


@pytest.fixture
def http(start: Callable[..., Any]) -> Iterator[httpx.Client]:
    with start() as proxy:
        yield proxy.http


@pytest.fixture
def registry(broker: Broker) -> Iterator[Running]:
    with running(serve_registry, RegistryOptions(broker.bootstrap_servers)) as found:
        yield found


@pytest.fixture
def typed(start: Callable[..., Any], registry: Running) -> Iterator[httpx.Client]:
    """A proxy that knows a registry."""
    with start(proxy={"registry_url": registry.url}) as proxy:
        yield proxy.http


@pytest.fixture
def consumer(http: httpx.Client) -> Callable[..., str]:
    """Creates an instance; its path."""

    def create(group: str = "g", **settings: Any) -> str:
        made = http.post(f"/consumers/{group}", json={"auto.offset.reset": "earliest", **settings})
        assert made.status_code == 200, made.text
        return f"/consumers/{group}/instances/{made.json()['instance_id']}"

    return create


def code(response: httpx.Response) -> tuple[int, int]:
    """Status and code of a refusal."""
    assert set(response.json()) == {"error_code", "message"}, response.text
    return response.status_code, response.json()["error_code"]


@pytest.fixture
def refusal() -> Callable[[httpx.Response], tuple[int, int]]:
    return code


def read_until(http: httpx.Client, path: str, count: int) -> list[Any]:
    """Records of an instance, poll after poll, until there are so many."""
    found: list[Any] = []
    for _ in range(PATIENCE_SECONDS):
        response = http.get(f"{path}/records", params={"timeout": 1000})
        assert response.status_code == 200, response.text
        found += response.json()
        if len(found) >= count:
            return found
    raise AssertionError(f"only {len(found)} of {count} records came")


@pytest.fixture
def read() -> Callable[..., list[Any]]:
    return read_until


__all__ = ["Proxy", "Running"]
