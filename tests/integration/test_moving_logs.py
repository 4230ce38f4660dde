"""A replica moves to another directory of its broker while the broker is killed again and again."""

import asyncio
import random
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.base import names
from moldau.client.admin.admin import Admin
from moldau.client.admin.replicas import move_log_dirs
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import KafkaError
from tests.integration.broker_process import BrokerProcess
from tests.shared.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
PLACE = names.TopicPartition("orders", 0)
COUNT = 3000
KILLS = 3


def directories(servers: str) -> dict[str, bool]:
    """The directories that have the partition, and whether it is still being copied there."""

    async def ask() -> dict[str, bool]:
        async with await Cluster.open(servers) as cluster:
            (found,) = (await Admin(cluster).describe_log_dirs()).values()
            assert not isinstance(found, KafkaError)
            return {
                each.path: replica.is_future
                for each in found
                for place, replica in each.replicas.items()
                if tuple(place) == tuple(PLACE)
            }

    return asyncio.run(ask())


def move(servers: str, path: str) -> None:
    async def ask() -> None:
        async with await Cluster.open(servers) as cluster:
            assert await move_log_dirs(cluster, {(PLACE, 1): path}) == {(PLACE, 1): None}

    asyncio.run(ask())


def values(servers: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("orders", 0, 0)])
    found: list[bytes] = []

    def enough() -> bool:
        found.extend(each.value() for each in consumer.consume(1000, 0.5) if each.error() is None)
        return len(found) >= COUNT

    wait_until(enough, lambda: len(found))
    consumer.close()
    return found


def test_kill_9_in_the_middle_of_a_move(tmp_path: Path) -> None:
    both = [str(tmp_path / name) for name in ("a", "b")]
    rate = {"replica.alter.log.dirs.io.max.bytes.per.second": "500000"}
    with BrokerProcess(tmp_path / "a", {"log.dirs": ",".join(both), **rate}) as broker:
        servers = broker.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        for number in range(COUNT):
            producer.produce("orders", b"%06d" % number + b"x" * 1000, partition=0)
        assert producer.flush(60) == 0
        ((source, _),) = directories(servers).items()
        target = next(path for path in both if path != source)
        move(servers, target)
        chance = random.Random(5)
        for _ in range(KILLS):
            wait_until(lambda: target in directories(servers))
            time.sleep(chance.uniform(0.0, 0.3))  # the moment of the kill is drawn by lot
            broker.kill()
            broker.start()
        wait_until(lambda: directories(servers) == {target: False}, lambda: directories(servers))
        assert [int(each[:6]) for each in values(servers)] == list(range(COUNT))
        assert broker.stop() == 0
        broker.start()
        assert directories(servers) == {target: False}
        assert not list(Path(source).glob("orders-0")), "the old directory has lost its name"
