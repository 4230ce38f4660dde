"""A topic survives the death of brokers: real brokers, real clients, and nothing acknowledged is lost."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from moldau.base.names import TopicPartition
from moldau.client.transport.cluster import Cluster as Client
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.testing import Cluster
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow

SETTINGS = {
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, SETTINGS) as running:
        yield running


def create(cluster: Cluster, name: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.create_topics([NewTopic(name, partitions, 3, config=config)]).values():
        future.result(30)


class Writer:
    """A producer with acks=all that notes what was acknowledged and what was refused."""

    def __init__(self, cluster: Cluster, **config: Any) -> None:
        self.acknowledged: list[str] = []
        self.errors: list[str] = []
        self.producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                **config,
            }
        )

    def write(self, topic: str, *values: str, partition: int = 0) -> None:
        for value in values:
            self.producer.produce(topic, value, partition=partition, on_delivery=self._delivered)
        self.producer.flush(60)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append(message.value().decode())
        else:
            self.errors.append(error.name())


def read(cluster: Cluster, topic: str, count: int, **config: Any) -> list[str]:
    """So many records from the beginning, by a consumer in a group."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **config,
        }
    )
    consumer.subscribe([topic])
    found: list[str] = []
    try:
        wait_until(
            lambda: found.extend(_values(consumer)) or len(found) >= count, lambda: f"{len(found)} of {count}"
        )
    finally:
        consumer.close()
    return found


def _values(consumer: Consumer) -> list[str]:
    return [message.value().decode() for message in consumer.consume(100, 0.2) if message.error() is None]


def isr(cluster: Cluster, topic: str, partition: int = 0) -> set[int]:
    return set(cluster.image.topics_by_name[topic].partitions[partition].isr)


def end_offsets(cluster: Cluster, topic: str) -> dict[int, int]:
    found = {}
    for broker_id in cluster.running:
        log = cluster[broker_id].node.replicas.find(topic, 0).log
        assert log is not None
        found[broker_id] = log.log_end_offset
    return found


def test_what_is_acknowledged_is_on_all_replicas_and_survives_its_leader(cluster: Cluster) -> None:
    create(cluster, "orders")
    writer = Writer(cluster)
    writer.write("orders", *(f"a{number}" for number in range(50)))
    assert end_offsets(cluster, "orders") == {1: 50, 2: 50, 3: 50}
    first = cluster.leader("orders")
    cluster.kill(first)
    writer.write("orders", *(f"b{number}" for number in range(50)))
    assert cluster.leader("orders") not in (first, -1)
    assert isr(cluster, "orders") == {1, 2, 3} - {first}
    assert writer.errors == []
    assert read(cluster, "orders", 100) == writer.acknowledged

    cluster.restart(first)
    wait_until(lambda: isr(cluster, "orders") == {1, 2, 3})
    assert end_offsets(cluster, "orders") == {1: 100, 2: 100, 3: 100}


def test_every_broker_dies_once_and_nothing_is_lost(cluster: Cluster) -> None:
    create(cluster, "orders")
    writer = Writer(cluster)
    for victim in (1, 2, 3):
        writer.write("orders", *(f"{victim}-{number}" for number in range(20)))
        cluster.kill(victim)
        writer.write("orders", *(f"{victim}-without-{number}" for number in range(20)))
        cluster.restart(victim)
        wait_until(lambda: isr(cluster, "orders") == {1, 2, 3})
    assert writer.errors == []
    assert read(cluster, "orders", 120) == writer.acknowledged


def test_too_few_replicas_are_said_and_recovered_from(cluster: Cluster) -> None:
    create(cluster, "orders", **{"min.insync.replicas": "2"})
    writer = Writer(cluster, **{"message.timeout.ms": 3000})
    writer.write("orders", "a")
    leader = cluster.leader("orders")
    others = {1, 2, 3} - {leader}
    for victim in others:
        cluster.kill(victim)
    wait_until(lambda: isr(cluster, "orders") == {leader})
    writer.write("orders", "refused")
    assert writer.errors == ["_MSG_TIMED_OUT"]
    for victim in others:
        cluster.restart(victim)
    wait_until(lambda: isr(cluster, "orders") == {1, 2, 3})
    writer = Writer(cluster)
    writer.write("orders", "b")
    assert read(cluster, "orders", 2) == ["a", "b"]


def test_a_group_goes_on_with_its_offsets_at_another_coordinator(cluster: Cluster) -> None:
    create(cluster, "orders")
    Writer(cluster).write("orders", *map(str, range(20)))
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "readers",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(config)
    consumer.subscribe(["orders"])
    found: list[str] = []
    wait_until(lambda: found.extend(_values(consumer)) or len(found) >= 20)
    consumer.commit(asynchronous=False)
    consumer.close()
    offsets = cluster.image.topics_by_name["__consumer_offsets"]
    assert all(len(partition.replicas) == 3 for partition in offsets.partitions)
    victim = cluster.leader("__consumer_offsets", _partition_of("readers", 4))
    cluster.kill(victim)
    Writer(cluster).write("orders", "next")
    assert read(cluster, "orders", 1) == ["next"]


def _partition_of(group: str, partitions: int) -> int:
    from moldau.coordinators.runtime import partition_of

    return partition_of(group, partitions)


def test_transactions_over_several_brokers_survive_their_coordinator(cluster: Cluster) -> None:
    create(cluster, "orders", 3)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": "pay",
            "transaction.timeout.ms": 60_000,
        }
    )
    producer.init_transactions(60)
    committed = []
    for round_ in range(4):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce("orders", f"{round_}-{partition}", partition=partition)
            committed.append(f"{round_}-{partition}")
        producer.commit_transaction(60)
        if round_ == 1:
            cluster.kill(cluster.leader("__transaction_state", _partition_of("pay", 4)))
    producer.begin_transaction()
    producer.produce("orders", "never", partition=0)
    producer.abort_transaction(60)
    found = read(cluster, "orders", len(committed), **{"isolation.level": "read_committed"})
    assert sorted(found) == sorted(committed)


def test_a_broker_that_stops_in_order_loses_nothing_even_with_acks_1(cluster: Cluster) -> None:
    create(cluster, "orders")
    writer = Writer(cluster, acks="1", **{"enable.idempotence": False})
    first = cluster.leader("orders")
    writer.write("orders", *map(str, range(30)))
    cluster[first].stop()
    assert cluster.leader("orders") not in (first, -1)
    writer.write("orders", *map(str, range(30, 60)))
    assert writer.errors == []
    assert read(cluster, "orders", 60) == writer.acknowledged


def test_a_topic_needs_as_many_brokers_as_replicas(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (future,) = admin.create_topics([NewTopic("orders", 1, 4)]).values()
    with pytest.raises(KafkaException) as caught:
        future.result(30)
    assert caught.value.args[0].name() == "INVALID_REPLICATION_FACTOR"


def reassign(cluster: Cluster, topic: str, replicas: list[int]) -> None:
    asked = ReassignablePartition(0, replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(topic, [asked])], timeout_ms=30_000
    )

    async def send() -> Any:
        async with await Client.open(cluster.bootstrap_servers) as client:
            return await (await client.any()).send(request)

    answer = asyncio.run(send())
    assert answer.error_code == 0
    assert [each.error_code for each in answer.responses[0].partitions] == [0]


def test_a_partition_moves_to_other_brokers_and_back_with_all_its_records(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topic = NewTopic("orders", 1, replica_assignment=[[1]])
    for future in admin.create_topics([topic]).values():
        future.result(30)
    writer = Writer(cluster)
    writer.write("orders", *map(str, range(20)))
    for target in ([2, 3], [1, 2, 3], [3]):
        reassign(cluster, "orders", target)
        wait_until(
            lambda target=target: _replicas(cluster, "orders") == target, lambda: _replicas(cluster, "orders")
        )
        wait_until(lambda target=target: isr(cluster, "orders") == set(target))
        writer.write("orders", *(f"{target}-{number}" for number in range(10)))
        elsewhere = {1, 2, 3} - set(target)
        wait_until(
            lambda elsewhere=elsewhere: all(
                cluster[each].node.replicas.get(TopicPartition("orders", 0)) is None for each in elsewhere
            )
        )
    assert writer.errors == []
    assert read(cluster, "orders", 50) == writer.acknowledged


def _replicas(cluster: Cluster, topic: str) -> list[int]:
    return list(cluster.image.topics_by_name[topic].partitions[0].replicas)


@pytest.mark.parametrize("damage", ["lost", "damaged"])
def test_a_replica_that_is_lost_or_damaged_is_copied_again(tmp_path: Path, damage: str) -> None:
    with Cluster(3, SETTINGS, data_dir=tmp_path) as cluster:
        create(cluster, "orders")
        writer = Writer(cluster)
        writer.write("orders", *map(str, range(20)))
        leader = cluster.leader("orders")
        victim = next(each for each in cluster.running if each != leader)
        cluster[victim].stop()
        directory = tmp_path / str(victim) / "orders-0"
        if damage == "lost":
            shutil.rmtree(directory)
        else:
            segment = directory / f"{0:020d}.log"
            segment.write_bytes(segment.read_bytes()[:40] + b"?" * 40 + segment.read_bytes()[80:])
            (tmp_path / str(victim) / ".kafka_cleanshutdown").unlink()
        cluster.restart(victim)
        wait_until(lambda: set(cluster.image.topics_by_name["orders"].partitions[0].isr) == {1, 2, 3})
        assert [record.value for record in cluster[victim].records("orders")] == [
            record.value for record in cluster[leader].records("orders")
        ]
        strays = [path.name for path in directory.parent.iterdir() if path.name.endswith("-stray")]
        assert len(strays) <= (damage == "damaged")


def test_deleted_records_are_gone_from_every_replica_when_the_answer_comes(cluster: Cluster) -> None:
    create(cluster, "orders")
    writer = Writer(cluster)
    writer.write("orders", *map(str, range(20)))

    def delete(offset: int, timeout_ms: int) -> tuple[int, int]:
        async def ask() -> Any:
            topic = DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, offset)])
            client = await Client.open(cluster.bootstrap_servers)
            async with client:
                leader = await client.connection(cluster.leader("orders"))
                return await leader.send(DeleteRecordsRequest([topic], timeout_ms))

        result = asyncio.run(ask()).topics[0].partitions[0]
        return result.error_code, result.low_watermark

    def starts() -> list[int]:
        place = TopicPartition("orders", 0)
        logs = [cluster[each].node.replicas.find(*place).log for each in (1, 2, 3)]
        return [-1 if log is None else log.log_start_offset for log in logs]

    assert delete(5, 60_000) == (0, 5)
    assert starts() == [5, 5, 5]
    follower = next(each for each in (1, 2, 3) if each != cluster.leader("orders"))
    cluster.pause(follower)
    try:
        assert delete(7, 300) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    finally:
        cluster.resume(follower)
    assert delete(7, 60_000) == (0, 7)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_move_waits_for_its_rate(cluster: Cluster, side: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topic = NewTopic("orders", 1, replica_assignment=[[1]])
    for future in admin.create_topics([topic]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
    for _ in range(40):
        producer.produce("orders", b"x" * 100_000)
    assert producer.flush(60) == 0

    def configure(resource: ConfigResource.Type, name: str, config: str, value: str) -> None:
        entry = ConfigEntry(config, value, incremental_operation=AlterConfigOpType.SET)
        changed = ConfigResource(resource, name, incremental_configs=[entry])
        for outcome in admin.incremental_alter_configs([changed]).values():
            outcome.result(30)

    def rate(bytes_a_second: int) -> None:
        for broker in ("1", "2", "3"):
            name = f"{side}.replication.throttled.rate"
            configure(ConfigResource.Type.BROKER, broker, name, str(bytes_a_second))

    rate(1)
    configure(ConfigResource.Type.TOPIC, "orders", f"{side}.replication.throttled.replicas", "*")
    reassign(cluster, "orders", [1, 2])

    def copied() -> int:
        replica = cluster[2].node.replicas.get(TopicPartition("orders", 0))
        return 0 if replica is None or replica.log is None else replica.log.log_end_offset

    # The first answer is taken at once, and paid for with a byte a second.
    wait_until(lambda: copied() > 0)
    assert copied() < 40
    assert isr(cluster, "orders") == {1}
    rate(1 << 40)
    wait_until(lambda: isr(cluster, "orders") == {1, 2})
    assert copied() == 40
