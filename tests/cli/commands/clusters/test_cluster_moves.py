"""Replicas and leaders move by a plan that is shown first, on a real cluster."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from moldau.testing import Cluster
from tests.shared.waiting import wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, {"auto.leader.rebalance.enable": "false"}) as running:
        yield running


@pytest.fixture
def run(cluster: Cluster, moldau: Any) -> Any:
    return lambda *words, code=0: moldau("cluster", *words, "-b", cluster[1].bootstrap_servers, code=code)


def replicas(cluster: Cluster) -> list[tuple[int, ...]]:
    return [each.replicas for each in cluster.image.topics_by_name["t"].partitions]


def test_a_broker_is_drained_and_filled_again(cluster: Cluster, moldau: Any, run: Any) -> None:
    moldau("topics", "create", "t", "-p", "6", "-r", "2", "-b", cluster[1].bootstrap_servers)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(60):
        producer.produce("t", b"x" * 1000, partition=number % 6)
    assert producer.flush(60) == 0
    before = replicas(cluster)
    assert any(3 in each for each in before)

    planned = json.loads(run("drain", "3", "--dry-run", "--json").stdout)
    assert replicas(cluster) == before
    assert planned["bytes"] > 0
    assert all(3 not in move["to"] for move in planned["moves"])

    shown = run("drain", "3")
    assert f"{len(planned['moves'])} partition(s) change" in shown.stdout
    assert all(set(each) == {1, 2} for each in replicas(cluster))
    assert "nothing to do" in run("drain", "3").stdout

    run("add", "3")
    assert sum(3 in each for each in replicas(cluster)) == 4
    led = [each[0] for each in replicas(cluster)]
    assert sorted(led.count(broker) for broker in (1, 2, 3)) == [2, 2, 2]
    assert "nothing to do" in run("rebalance").stdout


def test_a_topic_is_moved_by_hand(cluster: Cluster, moldau: Any, run: Any) -> None:
    moldau("topics", "create", "u", "-p", "2", "-r", "1", "-b", cluster[1].bootstrap_servers)
    run("move", "u:0", "3,1")
    found = cluster.image.topics_by_name["u"].partitions
    assert found[0].replicas == (3, 1)
    run("move", "u", "2")
    wait_until(lambda: [each.leader for each in cluster.image.topics_by_name["u"].partitions] == [2, 2])
    assert "there is no partition nope" in run("move", "nope", "1", code=1).stderr
    assert "names a broker twice" in run("move", "u", "1,1", code=1).stderr
    assert "broker 9 is not live" in run("move", "u", "9", code=1).stderr
    assert "it is a list of ids" in run("move", "u", "x", code=2).stderr
    assert "it is TOPIC or TOPIC:NUMBER" in run("move", "u:x", "1", code=2).stderr
    assert "broker 7 is not live" in run("add", "7", code=1).stderr


def test_preferred_replicas_lead_again(cluster: Cluster, moldau: Any, run: Any) -> None:
    moldau("topics", "create", "v", "-p", "3", "-r", "3", "-b", cluster[1].bootstrap_servers)
    victim = next(each for each in (2, 3) if each != cluster.controller_id)
    cluster.restart(victim)

    def in_sync() -> bool:
        topics = cluster.image.topics_by_name.values()
        return all(set(each.isr) == set(each.replicas) for topic in topics for each in topic.partitions)

    wait_until(in_sync)
    assert all(each.leader != victim for each in cluster.image.topics_by_name["v"].partitions)
    answer = json.loads(run("elect", "v", "--json").stdout)
    assert (answer["moved"], answer["refused"]) == (1, [])
    assert [each.leader for each in cluster.image.topics_by_name["v"].partitions] == [
        each.replicas[0] for each in cluster.image.topics_by_name["v"].partitions
    ]
    assert "0 partition(s) have another leader" in run("elect", "v").stdout
    assert "there is no topic nope" in run("elect", "nope", code=2).stderr
