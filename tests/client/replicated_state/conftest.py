"""A broker for the module."""

from collections.abc import Iterator

import pytest

from moldau.broker.apis import TABLE
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
