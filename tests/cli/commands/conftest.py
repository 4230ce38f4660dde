"""A schema registry for the commands that talk to one, on the broker of the test."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from moldau.testing import Broker
from tests.shared.services import running_registry


@contextmanager
def serving(bootstrap_servers: str, **options: object) -> Iterator[str]:
    """A registry in a thread of its own; its URL."""
    with running_registry(bootstrap_servers, **options) as found:
        yield found.url


@pytest.fixture
def serve_registry(broker: Broker) -> Callable[..., object]:
    return lambda **options: serving(broker.bootstrap_servers, **options)


@pytest.fixture
def registry(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty registry, which the commands find by themselves."""
    with serving(broker.bootstrap_servers) as url:
        monkeypatch.setenv("MOLDAU_SCHEMA_REGISTRY_URL", url)
        yield url
