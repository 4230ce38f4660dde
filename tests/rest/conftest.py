"""A broker for the module, and proxies (with a schema registry, where one is wanted) that run on it."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from moldau.client.transport.security import PLAINTEXT, Security
from moldau.rest.proxy import ProxyOptions
from moldau.rest.server import ServerOptions, serve
from moldau.rest.sessions import SessionOptions
from moldau.testing import Broker
from tests.shared.services import PATIENCE_SECONDS, Running, load_handlers, running, running_registry


@pytest.fixture(scope="module")
def _broker() -> Iterator[Broker]:
    load_handlers()
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture
def broker(_broker: Broker) -> Iterator[Broker]:
    yield _broker
    _broker.reset()


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
    with running_registry(broker.bootstrap_servers) as found:
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
