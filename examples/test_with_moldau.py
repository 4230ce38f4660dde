"""How a service that talks to Kafka is tested with Moldau; run it with ``pytest examples``.

The service is the small class at the top; everything below it is what you would write.
"""

from collections.abc import Iterator

import confluent_kafka
import pytest

from moldau.testing import Broker, drop, fail


class Shop:
    """Takes orders and writes them to a topic."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.failed: list[str] = []
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "retry.backoff.ms": 1}
        )

    def order(self, customer: str, item: str) -> None:
        self._producer.produce("orders", value=item, key=customer, on_delivery=self._delivered)

    def close(self) -> None:
        self._producer.flush(10)

    def _delivered(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is not None:
            self.failed.append(error.name())


@pytest.fixture
def shop(moldau_broker: Broker) -> Iterator[Shop]:
    shop = Shop(moldau_broker.bootstrap_servers)
    yield shop
    shop.close()


def test_an_order_is_written(shop: Shop, moldau_broker: Broker) -> None:
    shop.order("alice", "a lamp")
    shop.close()
    (record,) = moldau_broker.records("orders")
    assert (record.key, record.value) == (b"alice", b"a lamp")


def test_it_does_not_wait_for_the_flush(shop: Shop, moldau_broker: Broker) -> None:
    shop.order("alice", "a lamp")
    shop.order("bob", "a map")
    assert len(moldau_broker.wait_for_records("orders", 2)) == 2


def test_a_lost_answer_does_not_double_the_order(shop: Shop, moldau_broker: Broker) -> None:
    answers = iter([drop(handled=True)])
    with moldau_broker.intercept("Produce", lambda request: next(answers, None)) as produce:
        shop.order("alice", "a lamp")
        shop.close()
    assert produce.calls == 2
    assert [record.value for record in moldau_broker.records("orders")] == [b"a lamp"]


def test_a_refused_order_is_reported(shop: Shop, moldau_broker: Broker) -> None:
    with moldau_broker.intercept("Produce", lambda request: fail("MESSAGE_TOO_LARGE")):
        shop.order("alice", "an elephant")
        shop.close()
    assert shop.failed == ["MSG_SIZE_TOO_LARGE"]


def test_a_broker_of_your_own_can_be_restarted() -> None:
    with Broker({"num.partitions": 3}) as broker:
        broker.create_topic("orders", partitions=1)
        shop = Shop(broker.bootstrap_servers)
        shop.order("alice", "a lamp")
        broker.wait_for_records("orders", 1)
        broker.stop()
        shop.order("bob", "a map")
        broker.start()
        shop.close()
        assert [record.value for record in broker.records("orders")] == [b"a lamp", b"a map"]
