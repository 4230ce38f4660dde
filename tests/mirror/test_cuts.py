"""A mirror whose connections to both sides break at random under load: the target equals the source.

``MOLDAU_MIRROR_CUTS`` is how many connections break. A group that moves over in the middle of it reads each
record once.
"""

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from moldau.mirror.rules.properties import read_settings
from moldau.testing import Broker
from tests.mirror.cutting_proxy import CuttingProxy
from tests.mirror.flows import FAST, SETTINGS, committed, log_bounds, log_bytes, running
from tests.mirror.test_kills import ends, load, same
from tests.shared.ports import free_port
from tests.shared.waiting import wait_until

CUTS = int(os.environ.get("MOLDAU_MIRROR_CUTS", "10"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120 + CUTS * 10)]


@contextmanager
def behind_a_proxy(seed: int) -> Iterator[tuple[Broker, CuttingProxy]]:
    """A broker with two listeners: one for the test, and one that is reached through a proxy alone."""
    own, hidden = free_port(), free_port()
    with CuttingProxy(hidden, seed) as proxy:
        listeners = {
            "listeners": f"PLAINTEXT://127.0.0.1:{own},CUT://127.0.0.1:{hidden}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{own},CUT://127.0.0.1:{proxy.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CUT:PLAINTEXT",
        }
        with Broker({**SETTINGS, **listeners}) as broker:
            yield broker, proxy


@pytest.mark.parametrize("mode", ["exact", "translated"])
def test_cuts_of_the_network(mode: str) -> None:
    seed = random.randrange(1 << 30)
    with behind_a_proxy(seed) as (a, to_a), behind_a_proxy(seed + 1) as (b, to_b):
        a.create_topic("orders", partitions=2)
        properties = {
            "clusters": "A,B",
            "A.bootstrap.servers": f"127.0.0.1:{to_a.port}",
            "B.bootstrap.servers": f"127.0.0.1:{to_b.port}",
            "A->B.enabled": "true",
            **FAST,
            "moldau.mode": mode,
            "topics": "orders",
        }
        with running(read_settings(properties)):
            with load(a, seed):
                wait_until(lambda: sum(ends(b)) > 0, seconds=60)
                to_a.mean_bytes = to_b.mean_bytes = 100_000
                to_a.cut_all()  # so that those that are open have their lot drawn too
                to_b.cut_all()
                wait_until(
                    lambda: to_a.cuts + to_b.cuts >= CUTS,
                    lambda: (seed, to_a.cuts, to_b.cuts),
                    seconds=60 + CUTS * 5,
                )
            to_a.mean_bytes = to_b.mean_bytes = None
            to_a.cut_all()
            to_b.cut_all()
            wait_until(
                lambda: same(a, b, mode),
                lambda: (seed, log_bounds(a, "orders"), ends(b)),
                seconds=90,
            )
        if mode == "exact":
            for partition in (0, 1):
                assert log_bytes(a, "orders", partition) == log_bytes(b, "A.orders", partition), seed


@pytest.mark.parametrize("mode", ["exact", "translated"])
def test_a_group_that_moves_over_in_the_middle_reads_each_record_once(mode: str) -> None:
    """It reads at the source under load, stops, and goes on at the target by its offsets there."""
    with Broker(SETTINGS) as a, Broker(SETTINGS) as b:
        a.create_topic("orders", partitions=2)
        brokers = {"A": a, "B": b}
        properties = {
            "clusters": "A,B",
            **{f"{alias}.bootstrap.servers": each.bootstrap_servers for alias, each in brokers.items()},
            "A->B.enabled": "true",
            **FAST,
            "moldau.mode": mode,
        }
        with running(read_settings(properties)):
            with load(a, 7):
                first = read(a, "orders", 200)
            wait_until(lambda: same(a, b, mode), seconds=60)
            wait_until(lambda: left(a, "orders") == left(b, "A.orders"), seconds=60)
        rest = read(b, "A.orders", len(committed(a, "orders")) - len(first), last=True)
        whole = [record[2:] for record in committed(a, "orders")]
        assert sorted(map(repr, first + rest)) == sorted(map(repr, whole))


def read(broker: Broker, topic: str, count: int, *, last: bool = False) -> list[tuple[object, ...]]:
    """So many records as the group; what was read is committed. Behind the last ones nothing comes."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "shop",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    found: list[tuple[object, ...]] = []
    deadline = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < deadline, (len(found), count)
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append((message.key(), message.value(), tuple(message.headers() or ())))
    consumer.commit(asynchronous=False)
    assert not last or consumer.poll(0.5) is None, "a record too many"
    consumer.close()
    return found


def left(broker: Broker, topic: str) -> int:
    """Committed records behind the group's offsets."""
    from confluent_kafka import TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"})
    places = consumer.committed([TopicPartition(topic, index) for index in (0, 1)], 30)
    consumer.close()
    return sum(
        sum(record[0] >= place.offset for record in committed(broker, topic, place.partition))
        for place in places
    )
