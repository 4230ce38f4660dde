"""A disk that becomes full: producers are refused before it is, and taken again when there is room."""

import json
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.testing import Broker
from tests.shared.waiting import wait_until

FLOOR = 1_000_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    settings = {
        "moldau.disk.free.min.bytes": FLOOR,
        "moldau.disk.free.warn.bytes": 10 * FLOOR,
        "moldau.metrics.port": 0,
        "group.initial.rebalance.delay.ms": 0,
    }
    with Broker(settings) as made:
        made.create_topic("orders")
        yield made


def set_free(broker: Broker, size: int | None) -> None:
    assert broker._memory is not None
    broker._memory[0].faults.bytes_until_full = size
    broker.clock.advance(1.5)


def refuses(broker: Broker) -> bool:
    monitoring = broker.node.monitoring
    assert monitoring is not None
    assert monitoring.address is not None
    host, port = monitoring.address
    url = f"http://{host}:{port}/jolokia/read/moldau.log:type=LogDirectory,name=RefusesProduce,*"
    with urllib.request.urlopen(url, timeout=60) as answer:
        (values,) = json.load(answer)["value"].values()
    return bool(values["Value"])


@pytest.mark.slow
def test_refused_below_the_floor_and_taken_again(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    broker.produce("orders", b"before")
    set_free(broker, 5 * FLOOR)
    wait_until(lambda: "nearly full: 5 MB" in caplog.text)
    broker.produce("orders", b"scarce")
    set_free(broker, FLOOR - 1)
    wait_until(lambda: refuses(broker))
    with pytest.raises(KafkaError, match=r"moldau\.disk\.free\.min\.bytes") as caught:
        broker.produce("orders", b"refused")
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    # What the platform writes itself goes on, and so do reads.
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()
    assert len(broker.records("orders")) == 2

    set_free(broker, FLOOR + 50_000)
    assert refuses(broker), "on the edge it stays as it is"
    delivered: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 50})
    producer.produce("orders", b"waits", on_delivery=lambda error, _: delivered.append(error))
    producer.poll(0.2)
    set_free(broker, 2 * FLOOR)
    assert producer.flush(60) == 0
    assert delivered == [None], "a client has only waited"
    wait_until(lambda: not refuses(broker))
    assert [record.value for record in broker.records("orders")] == [b"before", b"scarce", b"waits"]


def test_a_topic_that_is_made_while_there_is_no_room(broker: Broker) -> None:
    set_free(broker, FLOOR - 1)
    wait_until(lambda: refuses(broker))
    broker.create_topic("new")
    with pytest.raises(KafkaError, match="until there is room"):
        broker.produce("new", b"refused")
    set_free(broker, None)
    wait_until(lambda: not refuses(broker))
    broker.produce("new", b"v")
    assert len(broker.records("new")) == 1
