"""Transactional writes: what the coordinator of a broker says of them before anything is appended."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.broker.coordination.transactions import TRANSACTIONS_TOPIC, for_groups, for_producers
from moldau.client.transport.connection import Connection
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.testing import Broker

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"transaction.state.log.num.partitions": 1}) as broker:
        broker.create_topic("orders")
        yield broker


def admit(broker: Broker, *who: Any, adds: bool) -> Any:
    async def ask() -> Any:
        return await broker.node.services.transactions.admit(*who, [ORDERS], adds=adds)

    return broker.run(ask())


def begin(broker: Broker) -> tuple[int, int]:
    """A producer id and epoch for the transactional id "pay"."""

    async def make() -> None:
        await TRANSACTIONS_TOPIC.make(broker.node.services)

    async def ask() -> Any:
        connection = await Connection.open("127.0.0.1", broker.port)
        try:
            return await connection.send(InitProducerIdRequest("pay", 60_000))
        finally:
            connection.close()

    broker.run(make())
    answer = asyncio.run(ask())
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


def test_a_write_adds_its_partitions(broker: Broker) -> None:
    producer_id, epoch = begin(broker)
    assert admit(broker, "pay", producer_id, epoch, adds=True) == {ORDERS: ErrorCode.NONE}
    assert admit(broker, "pay", producer_id, epoch, adds=False) == {ORDERS: ErrorCode.NONE}


def test_a_write_of_an_older_client_has_to_be_announced(broker: Broker) -> None:
    producer_id, epoch = begin(broker)
    assert admit(broker, "pay", producer_id, epoch, adds=False) == {ORDERS: ErrorCode.TRANSACTION_ABORTABLE}


def test_without_a_coordinator_nobody_can_be_asked(broker: Broker) -> None:
    with pytest.raises(KafkaError) as caught:
        admit(broker, "pay", 1, 0, adds=True)
    assert caught.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


LOAD, AGAIN, BUSY = "COORDINATOR_LOAD_IN_PROGRESS", "NOT_ENOUGH_REPLICAS", "CONCURRENT_TRANSACTIONS"


@pytest.mark.parametrize(
    ("code", "to_old_producers", "to_producers", "to_groups"),
    [
        ("NOT_COORDINATOR", AGAIN, AGAIN, "NOT_COORDINATOR"),
        (LOAD, AGAIN, AGAIN, LOAD),
        ("NETWORK_EXCEPTION", AGAIN, AGAIN, LOAD),
        (BUSY, AGAIN, BUSY, BUSY),
        *[(fatal,) * 4 for fatal in ("INVALID_TXN_STATE", "INVALID_PRODUCER_EPOCH", "NONE")],
    ],
)
def test_each_client_gets_an_error_after_which_it_tries_again(
    code: str, to_old_producers: str, to_producers: str, to_groups: str
) -> None:
    verdicts = {ORDERS: ErrorCode[code]}
    assert for_producers(verdicts, adds=False) == {ORDERS: ErrorCode[to_old_producers]}
    assert for_producers(verdicts, adds=True) == {ORDERS: ErrorCode[to_producers]}
    assert for_groups(verdicts) == {ORDERS: ErrorCode[to_groups]}
