"""Three brokers on a real ZooKeeper: one cluster, one controller, and ZooKeeper going away for a while."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing import Broker
from tests.shared.waiting import wait_until
from tests.shared.zookeeper_server import ZooKeeper

pytest.importorskip("kazoo")


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZooKeeper]:
    server = ZooKeeper(tmp_path / "zookeeper")
    yield server
    server.stop()


@pytest.fixture
def brokers(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[list[Broker]]:
    connect = zookeeper.chroot()
    made = [
        Broker(
            {
                "broker.id": number,
                "zookeeper.connect": connect,
                "zookeeper.session.timeout.ms": 4000,
                "zookeeper.connection.timeout.ms": 30000,
            },
            data_dir=tmp_path / str(number),
        )
        for number in range(3)
    ]
    for broker in made:
        broker.start()
    yield made
    for broker in made:
        broker.stop()


def leaders(broker: Broker) -> list[int]:
    return [each.leader for each in broker.node.metadata.image.topics_by_name["t"].partitions]


@pytest.mark.slow
def test_a_cluster_on_zookeeper(zookeeper: ZooKeeper, brokers: list[Broker]) -> None:
    servers = ",".join(broker.bootstrap_servers for broker in brokers)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("t", 3, 3)])["t"].result(30)
    wait_until(lambda: all("t" in broker.topics() for broker in brokers))
    assert sorted(leaders(brokers[0])) == [0, 1, 2]
    delivered: list[object] = []
    producer = Producer({"bootstrap.servers": servers, "acks": "all"})

    def produce(count: int) -> None:
        for number in range(count):
            producer.produce("t", str(number), on_delivery=lambda error, message: delivered.append(error))
        producer.flush(60)

    produce(10)
    # Away for longer than a session lasts: nobody leads, because another one might; then all goes on.
    zookeeper.stop()
    wait_until(lambda: not any(replica.leading for broker in brokers for replica in broker.node.replicas))
    zookeeper.start()
    wait_until(
        lambda: all(any(replica.leading for replica in broker.node.replicas) for broker in brokers),
        lambda: [leaders(broker) for broker in brokers],
    )
    produce(10)
    assert delivered == [None] * 20
    # A broker dies: ZooKeeper sees it when its session ends, and others lead.
    brokers[0].kill()
    wait_until(lambda: 0 not in leaders(brokers[1]) and -1 not in leaders(brokers[1]))
    produce(10)
    assert delivered == [None] * 30
    brokers[0].start()
    wait_until(
        lambda: all(
            len(each.isr) == 3 for each in brokers[1].node.metadata.image.topics_by_name["t"].partitions
        )
    )
