"""Connections that break at the worst moment: idempotent producers of every client write each record once."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.testing import Broker, drop, fail
from tests.integration.client_contract import Client, Producing, Sent
from tests.integration.every_client import CLIENTS
from tests.integration.history_checker import PartitionHistory, Value

pytestmark = pytest.mark.slow

#: What happens to every so-many-th request.
TROUBLE: dict[str, Callable[[int], Any]] = {
    "lost answers": lambda count: drop(handled=True) if count % 3 == 2 else None,
    "lost requests": lambda count: drop() if count % 3 == 2 else None,
    "errors that pass": lambda count: fail("NOT_LEADER_OR_FOLLOWER") if count % 3 == 2 else None,
}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, moldau_broker: Broker) -> Iterator[Client]:
    client = CLIENTS[request.param](moldau_broker.bootstrap_servers)
    yield client
    client.close()


@pytest.mark.parametrize("trouble", TROUBLE)
def test_every_record_once_and_in_order(
    client: Client, moldau_broker: Broker, topic: str, trouble: str
) -> None:
    moldau_broker.create_topic(topic)
    history = PartitionHistory(topic)
    count = 0

    def interfere(request: Any) -> Any:
        nonlocal count
        count += 1
        return TROUBLE[trouble](count)

    with moldau_broker.intercept("Produce", interfere):
        producer = client.producer(Producing(linger_ms=1))
        for start in range(0, 60, 10):
            burst = [Value("p", start + number) for number in range(10)]
            for value in burst:
                history.send(value)
                producer.send(topic, Sent(value.encode()))
            for value, offset in zip(burst, producer.flush(), strict=True):
                assert isinstance(offset, int), offset
                history.acknowledge(value, offset)
    assert count > 6
    log = [(record.offset, Value.decode(record.value)) for record in moldau_broker.records(topic)]
    assert len(log) == 60
    assert history.anomalies(log) == []
