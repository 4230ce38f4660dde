"""A broker for the module, and registries that run on it."""

from collections.abc import Iterator

import pytest

from moldau.testing import Broker
from tests.shared.services import load_handlers, running_registry


@pytest.fixture(scope="module")
def _broker() -> Iterator[Broker]:
    load_handlers()
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture
def broker(_broker: Broker) -> Iterator[Broker]:
    yield _broker
    _broker.reset()


@pytest.fixture
def start(broker: Broker):
    """Makes registries; they are stopped at the end of the test."""
    return lambda **options: running_registry(broker.bootstrap_servers, **options)
