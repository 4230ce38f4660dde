from collections.abc import Iterator

import pytest

from moldau.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as running:
        yield running
