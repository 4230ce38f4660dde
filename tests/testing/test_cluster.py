"""Three real brokers in one process: one controller, requests to any of them, and brokers that die."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from moldau.base.names import TopicPartition
from moldau.cluster.records import ResourceType as Resource
from moldau.testing import Cluster
from tests.shared.waiting import wait_until


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, racks={1: "a", 2: "b", 3: "c"}) as running:
        yield running
        _CLIENTS.clear()


#: A client that nobody holds is gone before its answer comes.
_CLIENTS: list[AdminClient] = []


def admin(cluster: Cluster, broker_id: int) -> AdminClient:
    _CLIENTS.append(AdminClient({"bootstrap.servers": cluster[broker_id].bootstrap_servers}))
    return _CLIENTS[-1]


def others(cluster: Cluster) -> list[int]:
    return [each for each in cluster.running if each != cluster.controller_id]


def test_one_of_them_is_the_controller_and_all_know_each_other(cluster: Cluster) -> None:
    assert cluster.running == [1, 2, 3]
    assert cluster.controller_id in (1, 2, 3)
    ids = {broker.node.logs.cluster_id for broker in cluster.brokers.values()}
    assert len(ids) == 1
    for broker_id in cluster.running:
        described = admin(cluster, broker_id).describe_cluster().result(10)
        assert sorted(node.id for node in described.nodes) == [1, 2, 3]
        assert described.controller.id == cluster.controller_id
    assert {each.rack for each in cluster.image.brokers.values()} == {"a", "b", "c"}


def test_requests_for_the_controller_reach_it_from_any_broker(cluster: Cluster) -> None:
    for broker_id in cluster.running:
        client, name = admin(cluster, broker_id), f"t{broker_id}"
        client.create_topics([NewTopic(name, 2, 1)])[name].result(10)
        client.create_partitions([NewPartitions(name, 3)])[name].result(10)
        assert len(cluster.image.topics_by_name[name].partitions) == 3
        resource = ConfigResource(
            ResourceType.TOPIC, name, incremental_configs=[_set("retention.ms", "1000")]
        )
        client.incremental_alter_configs([resource])[resource].result(10)
        assert cluster.image.configs(Resource.TOPIC, name) == {"retention.ms": "1000"}
        with pytest.raises(Exception, match="already exists"):
            client.create_topics([NewTopic(name, 2, 1)])[name].result(10)
        client.delete_topics([name])[name].result(10)
        assert name not in cluster.image.topics_by_name


def test_settings_of_a_broker_are_checked_there_and_stored_by_the_controller(cluster: Cluster) -> None:
    broker_id = others(cluster)[0]
    client = admin(cluster, broker_id)
    good = ConfigResource(
        ResourceType.BROKER, str(broker_id), incremental_configs=[_set("log.cleaner.threads", "2")]
    )
    client.incremental_alter_configs([good])[good].result(10)
    wait_until(lambda: cluster[broker_id].node.settings.log_cleaner_threads == 2)
    bad = ConfigResource(
        ResourceType.BROKER, str(broker_id), incremental_configs=[_set("log.cleaner.threads", "-2")]
    )
    with pytest.raises(Exception, match=r"log\.cleaner\.threads"):
        client.incremental_alter_configs([bad])[bad].result(10)


def test_a_producer_without_a_topic_and_with_ids_from_the_controller(cluster: Cluster) -> None:
    delivered: list[tuple[object, int]] = []
    for broker_id in others(cluster):
        servers = cluster[broker_id].bootstrap_servers
        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        producer.produce(
            f"made-{broker_id}", b"x", on_delivery=lambda e, m: delivered.append((e, m.offset()))
        )
        producer.flush(20)
    assert delivered == [(None, 0), (None, 0)]


def test_the_death_of_the_controller(cluster: Cluster) -> None:
    admin(cluster, 1).create_topics([NewTopic("t", 3, 1)])["t"].result(10)
    dead = cluster.controller_id
    assert dead is not None
    epoch = cluster.image.controller_epoch
    led = next(each for each in cluster.image.topics_by_name["t"].partitions if each.leader == dead)
    cluster.kill(dead)
    wait_until(lambda: cluster.controller_id is not None)
    assert cluster.image.controller_epoch == epoch + 1
    wait_until(lambda: not cluster.image.is_live(dead))
    lost = cluster.image.topics_by_name["t"].partitions[led.partition]
    assert (lost.leader, lost.isr, lost.elr, lost.last_known_elr) == (-1, (), (dead,), (dead,))
    # The others go on, and the dead one is welcome back.
    client = admin(cluster, cluster.running[0])
    client.create_topics([NewTopic("u", 1, 1)])["u"].result(10)
    cluster.restart(dead)
    wait_until(lambda: cluster.leader("t", led.partition) == dead)
    back = cluster.image.topics_by_name["t"].partitions[led.partition]
    assert back.leader_epoch == led.leader_epoch + 2
    assert cluster[dead].node.metadata.image.topics_by_name.keys() >= {"t", "u"}


@pytest.mark.slow
def test_a_broker_that_stops_hands_over_what_it_leads(cluster: Cluster) -> None:
    admin(cluster, 1).create_topics([NewTopic("t", 3, 3)])["t"].result(10)
    for stopped in (others(cluster)[0], cluster.controller_id):
        assert stopped is not None
        cluster[stopped].stop()
        wait_until(lambda: cluster.controller_id is not None)
        wait_until(lambda stopped=stopped: not cluster.image.is_live(stopped))
        for partition in cluster.image.topics_by_name["t"].partitions:
            assert stopped not in (partition.leader, *partition.isr)
            assert partition.leader != -1
        cluster.restart(stopped)


def test_a_controller_that_lost_its_role_campaigns_again(cluster: Cluster) -> None:
    """Its epoch is taken away under its feet, as by a session that ended while it was paused."""
    deposed = cluster.controller_id
    assert deposed is not None
    node = cluster[deposed].node

    async def lose() -> None:
        node.metadata.on_deposed()

    cluster[deposed].run(lose())
    wait_until(lambda: cluster.image.controller_epoch == 2)
    wait_until(lambda: cluster.controller_id is not None)
    for broker_id in cluster.running:
        name = f"t{broker_id}"
        admin(cluster, broker_id).create_topics([NewTopic(name, 1, 1)])[name].result(10)


def test_a_paused_broker_keeps_its_session(cluster: Cluster) -> None:
    paused = others(cluster)[0]
    cluster.pause(paused)
    admin(cluster, cluster.controller_id or 0).create_topics([NewTopic("t", 1, 1)])["t"].result(10)
    assert cluster.image.is_live(paused)
    cluster.resume(paused)
    wait_until(lambda: "t" in cluster[paused].node.metadata.image.topics_by_name)


def test_all_stop_and_start_again() -> None:
    cluster = Cluster(3)
    with cluster:
        admin(cluster, 1).create_topics([NewTopic("t", 3, 3)])["t"].result(10)
    with cluster:
        wait_until(lambda: all(each.leader != -1 for each in cluster.image.topics_by_name["t"].partitions))


def _set(name: str, value: str) -> ConfigEntry:
    from confluent_kafka.admin import AlterConfigOpType

    return ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)


def test_a_follower_that_is_cut_off_leaves_and_comes_back(cluster: Cluster) -> None:
    admin(cluster, 1).create_topics([NewTopic("t", 1, 3)])["t"].result(10)
    leader = cluster.leader("t")
    alone = next(each for each in others(cluster) if each != leader)
    rest = {1, 2, 3} - {alone}

    def in_sync() -> set[int]:
        return set(cluster.image.topics_by_name["t"].partitions[0].isr)

    def end(broker_id: int) -> int:
        partition = cluster[broker_id].node.replicas.get(TopicPartition("t", 0))
        assert partition is not None
        assert partition.log is not None
        return partition.log.log_end_offset

    wait_until(lambda: in_sync() == {1, 2, 3})
    cluster.partition([alone], rest)
    cluster[leader].produce("t", "without it")
    cluster.clock.advance(60)
    wait_until(lambda: in_sync() == rest)
    assert end(alone) == 0
    assert sorted(cluster.image.active_brokers()) == [1, 2, 3], "sessions go on"
    cluster.restart(alone)
    assert cluster[alone].node.peers.cut_off == rest
    cluster.heal()
    wait_until(lambda: in_sync() == {1, 2, 3})
    assert end(alone) == 1
