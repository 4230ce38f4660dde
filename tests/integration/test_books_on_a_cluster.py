"""What books and courses show of a cluster, with plain Kafka clients: failover, replicas, rebalancing."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.cli.main import cli
from moldau.testing import Cluster
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, SETTINGS) as running:
        yield running


def create(cluster: Cluster, name: str, *replicas: list[int], **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name, len(replicas), replica_assignment=list(replicas), config=settings)
    admin.create_topics([topic])[name].result(60)
    wait_for_isr(cluster, name, *map(set, replicas))


def partition(cluster: Cluster, name: str, index: int = 0) -> Any:
    return cluster.image.topics_by_name[name].partitions[index]


def wait_for_isr(cluster: Cluster, name: str, *isrs: set[int]) -> None:
    wait_until(
        lambda: all(set(partition(cluster, name, index).isr) == isr for index, isr in enumerate(isrs)),
        lambda: cluster.image.topics_by_name.get(name),
    )


def producer(cluster: Cluster, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", **settings})


def send(client: Producer, topic: str, value: str, index: int = 0) -> None:
    """Waits for the acknowledgement; KafkaException when there is none."""
    errors: list[Any] = []
    client.produce(topic, value, partition=index, on_delivery=lambda error, message: errors.append(error))
    assert client.flush(60) == 0
    if errors[0] is not None:
        raise KafkaException(errors[0])


def consumer(cluster: Cluster, topic: str) -> Consumer:
    servers = cluster.bootstrap_servers
    made = Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
    made.subscribe([topic])
    return made


def read(client: Consumer, count: int) -> list[str]:
    found: list[str] = []

    def enough() -> bool:
        found.extend(
            (each.value() or b"").decode() for each in client.consume(10, 0.5) if each.error() is None
        )
        return len(found) >= count

    wait_until(enough, lambda: found)
    return found


def moldau(cluster: Cluster, *words: str) -> None:
    result = CliRunner().invoke(cli, ["cluster", *words, "-b", cluster.bootstrap_servers])
    assert result.exit_code == 0, result.output


def leaders(cluster: Cluster, name: str) -> Counter[int]:
    """How many partitions of a topic each broker leads."""
    return Counter(each.leader for each in cluster.image.topics_by_name[name].partitions)


def test_the_leader_dies_and_comes_back(cluster: Cluster) -> None:
    """A course's demonstration of fault tolerance: one partition on three brokers, its leader is killed."""
    create(cluster, "replicated_topic", [2, 1, 3])
    writing, reading = producer(cluster), consumer(cluster, "replicated_topic")
    for number in (1, 2, 3):
        send(writing, "replicated_topic", f"My Message {number}")
    assert read(reading, 3) == ["My Message 1", "My Message 2", "My Message 3"]
    cluster.kill(2)
    wait_for_isr(cluster, "replicated_topic", {1, 3})
    assert partition(cluster, "replicated_topic").leader == 1
    assert partition(cluster, "replicated_topic").replicas == (2, 1, 3)
    send(writing, "replicated_topic", "My Message 4")
    assert read(reading, 1) == ["My Message 4"]
    reading.close()
    cluster.restart(2)
    wait_for_isr(cluster, "replicated_topic", {1, 2, 3})
    assert partition(cluster, "replicated_topic").leader == 1, "a broker that returns does not lead at once"


def test_nobody_heals_a_lost_replica_and_min_insync_replicas_stop_writers(cluster: Cluster) -> None:
    """A book's chapter on replication: two of three are enough where two are asked for, and not where three
    are; a replica is not made anew elsewhere; a topic with one replica is away with its broker.
    """
    create(cluster, "two", [1, 2, 3], min_insync_replicas="2")
    create(cluster, "three", [1, 2, 3], min_insync_replicas="3")
    create(cluster, "single", [3])
    cluster.kill(3)
    wait_for_isr(cluster, "two", {1, 2})
    wait_for_isr(cluster, "three", {1, 2})
    client = producer(cluster, **{"message.timeout.ms": 3000, "retries": 0})
    send(client, "two", "taken")
    with pytest.raises(KafkaException):
        send(client, "three", "refused")
    with pytest.raises(KafkaException):
        send(client, "single", "nobody leads")
    assert partition(cluster, "single").leader == -1
    assert partition(cluster, "two").replicas == (1, 2, 3)
    cluster.restart(3)
    wait_for_isr(cluster, "three", {1, 2, 3})
    send(producer(cluster), "three", "taken again")


@pytest.mark.parametrize("unclean", ["true", "false"])
def test_unclean_elections_lose_records_or_wait(cluster: Cluster, unclean: str) -> None:
    """The only one that is left was not in sync: it leads, and records are lost, or nobody does."""
    create(cluster, "t", [3, 1], unclean_leader_election_enable=unclean)
    client = producer(cluster)
    send(client, "t", "both have it")
    cluster.kill(1)
    wait_for_isr(cluster, "t", {3})
    send(client, "t", "one has it")
    cluster.kill(3)
    wait_until(lambda: not cluster.image.is_live(3))
    cluster.restart(1)
    if unclean == "true":
        wait_until(lambda: partition(cluster, "t").leader == 1)
        assert read(consumer(cluster, "t"), 1) == ["both have it"]
    else:
        wait_until(lambda: cluster.image.is_live(1))
        assert partition(cluster, "t").leader == -1
        cluster.restart(3)
        wait_until(lambda: partition(cluster, "t").leader == 3)
        assert read(consumer(cluster, "t"), 2) == ["both have it", "one has it"]


def test_a_follower_has_the_leaders_bytes(cluster: Cluster) -> None:
    create(cluster, "t", [1, 2, 3])
    client = producer(cluster)
    for number in range(20):
        send(client, "t", str(number))

    def content(broker_id: int) -> bytes:
        log = cluster[broker_id].node.replicas.find("t", 0).log
        assert log is not None
        found = log.read(0, 1 << 20, log.log_end_offset, at_least_one=True)
        return b"" if found is None else found.read()

    wait_until(lambda: content(1) == content(2) == content(3) != b"")


# --- the three cases of rebalancing, with the leaders of each broker before and after ---------------------

SIX = ([1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2])


def test_a_broker_returns(cluster: Cluster) -> None:
    create(cluster, "t", *SIX)
    assert leaders(cluster, "t") == {1: 2, 2: 2, 3: 2}
    cluster.kill(2)
    wait_until(lambda: leaders(cluster, "t")[2] == 0)
    cluster.restart(2)
    wait_for_isr(cluster, "t", *map(set, SIX))
    assert leaders(cluster, "t")[2] == 0, "others go on leading"
    moldau(cluster, "elect")
    wait_until(lambda: leaders(cluster, "t") == {1: 2, 2: 2, 3: 2})


def test_a_broker_is_lost_and_another_takes_its_id(tmp_path: Any) -> None:
    with Cluster(3, SETTINGS, data_dir=tmp_path) as cluster:
        create(cluster, "t", *SIX)
        send(producer(cluster), "t", "kept", 1)
        cluster.kill(2)
        wait_until(lambda: leaders(cluster, "t")[2] == 0)
        (tmp_path / "2").rename(tmp_path / "burnt")
        cluster.restart(2)
        wait_for_isr(cluster, "t", *map(set, SIX))
        moldau(cluster, "elect")
        wait_until(lambda: leaders(cluster, "t") == {1: 2, 2: 2, 3: 2})
        assert read(consumer(cluster, "t"), 1) == ["kept"]


def test_a_cluster_grows_and_shrinks(cluster: Cluster) -> None:
    create(cluster, "t", *([1, 2], [2, 1]) * 3)
    assert leaders(cluster, "t") == {1: 3, 2: 3}
    moldau(cluster, "add", "3")
    wait_until(lambda: leaders(cluster, "t") == {1: 2, 2: 2, 3: 2}, lambda: leaders(cluster, "t"))
    moldau(cluster, "drain", "1")
    moldau(cluster, "elect")
    wait_until(lambda: leaders(cluster, "t") == {2: 3, 3: 3}, lambda: leaders(cluster, "t"))
