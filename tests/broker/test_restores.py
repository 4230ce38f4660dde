"""Topics that are being restored: bounded in number and in time, and gone with whoever forgot them."""

from collections.abc import Iterator

import pytest

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import Record, encode_batch
from moldau.testing import Broker
from tests.shared.waiting import turns

IDLE_SECONDS = 60


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"moldau.restores.max": 2, "moldau.restore.idle.ms": IDLE_SECONDS * 1000}) as broker:
        yield broker


def begin(broker: Broker, name: str) -> bytes:
    async def run() -> bytes:
        services = broker.node.services
        return services.restores.begin(services, name, [(0, 9)], {})

    return broker.run(run())


def send(broker: Broker, topic_id: bytes, offset: int) -> int:
    async def run() -> int:
        services = broker.node.services
        batch = encode_batch([Record(offset, 0, None, b"v", ())], base_offset=offset, leader_epoch=0)
        return services.restores.append(services, topic_id, 0, memoryview(batch))

    return broker.run(run())


def count(broker: Broker) -> int:
    async def run() -> int:
        await turns(10)
        return len(broker.node.services.restores)

    return broker.run(run())


def test_there_are_only_so_many_at_once(broker: Broker) -> None:
    begin(broker, "one")
    begin(broker, "two")
    with pytest.raises(KafkaError, match="2 topics are being restored already"):
        begin(broker, "three")
    assert count(broker) == 2


def test_the_same_name_twice(broker: Broker) -> None:
    broker.create_topic("one")
    with pytest.raises(KafkaError) as refused:
        begin(broker, "one")
    assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert count(broker) == 0


def test_only_the_silent_one_is_given_up(broker: Broker) -> None:
    begin(broker, "silent")
    busy = begin(broker, "busy")
    broker.clock.advance(IDLE_SECONDS / 2)
    assert send(broker, busy, 0) == 1
    broker.clock.advance(IDLE_SECONDS / 2 + 1)
    assert count(broker) == 1
    assert send(broker, busy, 1) == 2
    broker.clock.advance(2 * IDLE_SECONDS + 1)
    assert count(broker) == 0
    with pytest.raises(KafkaError, match="being restored"):
        send(broker, busy, 2)
