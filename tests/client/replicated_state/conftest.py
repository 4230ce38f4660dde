"""A broker for the module."""

from collections.abc import Iterator

import pytest

from moldau.testing import Broker
from tests.shared.services import load_handlers


@pytest.fixture(scope="module")
def _broker() -> Iterator[Broker]:
    load_handlers()
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture
def broker(_broker: Broker) -> Iterator[Broker]:
    yield _broker
    _broker.reset()
