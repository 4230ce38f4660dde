"""Moves with a throttle: set for the replicas that move, and gone when they have."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from moldau.cluster.records import ResourceType
from moldau.testing import Cluster

RATE = "leader.replication.throttled.rate"
REPLICAS = "follower.replication.throttled.replicas"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, {"auto.leader.rebalance.enable": "false"}) as running:
        yield running


@pytest.mark.slow
def test_a_move_is_throttled_and_the_throttle_removed(cluster: Cluster, moldau: Any) -> None:
    address = ("-b", cluster[1].bootstrap_servers)
    moldau("topics", "create", "t", "-p", "1", "-r", "1", *address)
    (before,) = cluster.image.topics_by_name["t"].partitions[0].replicas
    target = next(each for each in (1, 2, 3) if each != before)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for _ in range(100):
        producer.produce("t", b"x" * 1000)
    assert producer.flush(60) == 0
    seen: list[dict[str, str]] = []

    def look(*changed: Any) -> None:
        seen.append(dict(cluster[1].node.metadata.image.configs(ResourceType.TOPIC, "t")))

    cluster[1].node.metadata.on_change(look)
    words = ("cluster", "move", "t", str(target), "--throttle", "1KB")
    planned = json.loads(moldau(*words, "--dry-run", "--json", *address).stdout)
    assert planned["bytes_per_second"] == 1024
    assert planned["seconds"] == pytest.approx(planned["bytes"] / 1024, abs=0.1)
    assert seen == []
    moldau("cluster", "move", "t", str(target), "--throttle", "100MB", *address)
    assert any(each.get(REPLICAS) == f"0:{target}" for each in seen)
    image = cluster.image
    assert image.topics_by_name["t"].partitions[0].replicas == (target,)
    assert REPLICAS not in image.configs(ResourceType.TOPIC, "t")
    assert all(RATE not in image.configs(ResourceType.BROKER, str(each)) for each in (1, 2, 3))
    refused = moldau("cluster", "move", "t", "1", "--throttle", "1MB", "--no-wait", *address, code=2)
    assert "--no-wait does not go with it" in refused.stderr
    assert "is no number of bytes" in moldau("cluster", "drain", "1", "--throttle", "x", code=2).stderr
