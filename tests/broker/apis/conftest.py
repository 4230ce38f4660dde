"""One broker for the whole folder, emptied before every test, and ``ask``, which calls a handler of it."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from asking import Ask

from moldau.testing import Broker


@pytest.fixture(scope="session")
def moldau_settings() -> Mapping[str, str | int]:
    """Internal topics with one partition are created at once, and a group does not wait for more members."""
    return {
        "node.id": 1,
        "num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
    }


@pytest.fixture
def broker(moldau_broker: Broker) -> Broker:
    return moldau_broker


@pytest.fixture
def ask(broker: Broker) -> Ask:
    return Ask(broker)
