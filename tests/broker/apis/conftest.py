"""One broker for the whole folder, emptied before every test, and ``ask``, which calls a handler of it."""

from collections.abc import Iterator

import pytest

from moldau.testing import Broker
from tests.broker.apis.asking import Ask

#: Internal topics with one partition are created at once, and a group does not wait for more members.
SETTINGS = {
    "node.id": 1,
    "num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}


@pytest.fixture(scope="session")
def session_broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


@pytest.fixture
def broker(session_broker: Broker) -> Broker:
    session_broker.reset()
    return session_broker


@pytest.fixture
def ask(broker: Broker) -> Ask:
    return Ask(broker)
