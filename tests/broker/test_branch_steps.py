"""Forks and snapshots on a cluster of three: every broker with a replica has its own branch."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.broker.branch_steps import take_step
from moldau.client.snapshots.files import open_writer, read_snapshot
from moldau.client.snapshots.snapshots import restore_snapshot, take_snapshot
from moldau.client.snapshots.time_travel import ForkedTopic, fork_topic
from moldau.client.transport import cluster as transport
from moldau.client.transport.cluster import Cluster as Client
from moldau.protocol.control_records import ControlType, Marker, encode_marker
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.branch_partitions import MAKE, BranchPartition, BranchPartitionsRequest
from moldau.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from moldau.protocol.messages.fork_topic import ForkTopicRequest
from moldau.protocol.records import Record, encode_batch
from moldau.replication.partition import Partition
from moldau.testing import Broker, Cluster
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow
REPLICAS = ((1, 2), (2, 3), (3, 1))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, {"default.replication.factor": 2}) as running:
        create(running, "orders", *REPLICAS)
        for index in range(3):
            leader = running.leader("orders", index)
            for number in range(10):
                running[leader].produce("orders", f"{index}.{number}", partition=index, timestamp_ms=number)
        yield running


def create(cluster: Cluster, name: str, *replicas: tuple[int, ...]) -> None:
    listed = [CreatableReplicaAssignment(index, list(ids)) for index, ids in enumerate(replicas)]

    async def send(client: Client) -> None:
        request = CreateTopicsRequest([CreatableTopic(name, -1, -1, listed)])
        (made,) = (await (await client.controller()).send(request)).topics
        assert made.error_code == 0, made.error_message

    ask(cluster, send)
    wait_for_sync(cluster, name)


def wait_for_sync(cluster: Cluster, name: str) -> None:
    def in_sync() -> bool:
        topic = cluster.image.topics_by_name.get(name)
        return topic is not None and all(len(each.isr) == len(each.replicas) for each in topic.partitions)

    wait_until(in_sync, lambda: cluster.image.topics_by_name.get(name))
    wait_until(lambda: all(name in cluster[each].node.replicas.by_name for each in cluster.running))


def ask(cluster: Cluster, work: Callable[[Client], Awaitable[Any]]) -> Any:
    async def inside() -> Any:
        async with await transport.Cluster.open(cluster.bootstrap_servers) as client:
            return await work(client)

    return asyncio.run(inside())


def fork(cluster: Cluster, source: str, name: str, **options: Any) -> ForkedTopic:
    made: ForkedTopic = ask(cluster, lambda client: fork_topic(client, source, name, **options))
    return made


def replica(cluster: Cluster, broker_id: int, topic: str, index: int) -> Partition | None:
    return cluster[broker_id].node.replicas.get(TopicPartition(topic, index))


def content(cluster: Cluster, broker_id: int, topic: str, index: int) -> bytes:
    found = replica(cluster, broker_id, topic, index)
    if found is None or found.log is None:
        return b""
    part = found.log.read(found.log.log_start_offset, 1 << 20, found.log.log_end_offset, at_least_one=True)
    return b"" if part is None else part.read()


def test_every_replica_makes_its_own_branch(cluster: Cluster) -> None:
    made = fork(cluster, "orders", "copy")
    assert [each.cut_offset for each in made.partitions] == [10, 10, 10]
    described = cluster.image.topics_by_name["copy"].partitions
    assert [each.replicas for each in described] == list(REPLICAS)
    assert [sorted(each.isr) for each in described] == [sorted(each) for each in REPLICAS]
    for index, replicas in enumerate(REPLICAS):
        for broker_id in replicas:
            wait_until(
                lambda i=index, b=broker_id: (
                    content(cluster, b, "copy", i) == content(cluster, b, "orders", i)
                )
            )
            found = replica(cluster, broker_id, "copy", index)
            assert found is not None
            assert found.bytes_replicated == 0, "nothing was sent between brokers"
        leader = cluster.leader("copy", index)
        assert len(cluster[leader].records("copy", index)) == 10
        cluster[leader].produce("copy", "new", partition=index)
    assert all(b"new" not in content(cluster, b, "orders", 0) for b in (1, 2))


def test_through_a_broker_that_is_not_the_controller(cluster: Cluster) -> None:
    other = next(each for each in cluster.running if each != cluster.controller_id)

    async def send(client: Client) -> Any:
        return await (await client.connection(other)).send(ForkTopicRequest("orders", "early", timestamp=4))

    answer = ask(cluster, send)
    assert answer.error_code == 0, answer.error_message
    assert [each.cut_offset for each in answer.partitions] == [5, 5, 5]
    again = ask(cluster, send)
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_transaction_that_is_cut_ends_alike_everywhere(cluster: Cluster) -> None:
    create(cluster, "paid", (2, 3))
    leader = cluster.leader("paid")

    async def write() -> None:
        partition = cluster[leader].node.replicas.find("paid", 0)
        now_ms = cluster[leader].clock.now_ms()
        batch = encode_batch(
            [Record(index, now_ms, None, b"%d" % index) for index in range(3)],
            producer_id=5,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        partition.append(memoryview(batch), 1, now_ms, 13)
        marker = encode_marker(
            Marker(ControlType.COMMIT, 0), producer_id=5, producer_epoch=0, timestamp_ms=now_ms
        )
        partition.append_internal(memoryview(marker), now_ms)

    cluster[leader].run(write())
    source = replica(cluster, leader, "paid", 0)
    assert source is not None
    wait_until(lambda: source.high_watermark == 4)
    made = fork(cluster, "paid", "unpaid", offsets={0: 3})
    (part,) = made.partitions
    assert (part.cut_offset, part.log_end_offset) == (3, 4), "a marker that aborts comes after the cut"
    assert sorted(cluster.image.topics_by_name["unpaid"].partitions[0].isr) == [2, 3]
    wait_until(lambda: content(cluster, 2, "unpaid", 0) == content(cluster, 3, "unpaid", 0) != b"")


def test_a_broker_that_is_away_copies_its_part_later(cluster: Cluster) -> None:
    away = next(each for each in (1, 2, 3) if each != cluster.controller_id)
    cluster.kill(away)
    wait_until(lambda: not cluster.image.is_live(away))
    wait_until(lambda: all(each.leader >= 0 for each in cluster.image.topics_by_name["orders"].partitions))
    fork(cluster, "orders", "without")
    described = cluster.image.topics_by_name["without"].partitions
    assert all(away not in each.isr for each in described)
    cluster.restart(away)
    wait_for_sync(cluster, "without")
    wait_for_sync(cluster, "orders")
    for index, replicas in enumerate(REPLICAS):
        if away in replicas:
            assert content(cluster, away, "without", index) == content(cluster, away, "orders", index)


def test_a_fork_that_fails_leaves_nothing(cluster: Cluster, monkeypatch: Any) -> None:
    controller = cluster[cluster.controller_id or 1]

    async def refuse(*arguments: Any) -> None:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "not today")

    monkeypatch.setattr("moldau.broker.topic_branches._create", refuse)
    with pytest.raises(KafkaError) as refused:
        fork(cluster, "orders", "never")
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert "never" not in controller.topics()
    for broker_id in cluster.running:
        logs = cluster[broker_id].node.logs
        assert [each.topic_partition for each in logs if each.topic_partition.topic == "never"] == []


def test_a_snapshot_is_restored_with_replicas(cluster: Cluster, tmp_path: Path) -> None:
    path = str(tmp_path / "orders")

    async def there_and_back(client: Client) -> None:
        await take_snapshot(client, "orders", open_writer(path), now_ms=0)
        await restore_snapshot(client, read_snapshot(path), name="back")

    ask(cluster, there_and_back)
    wait_for_sync(cluster, "back")
    for each in cluster.image.topics_by_name["back"].partitions:
        assert len(each.replicas) == 2
        first, second = (content(cluster, b, "back", each.partition) for b in each.replicas)
        assert first == second
        assert first


@pytest.mark.parametrize(
    ("name", "offset", "code"),
    [
        ("", 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("../elsewhere", 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a\0b", 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("source", 1, ErrorCode.TOPIC_ALREADY_EXISTS),
        ("fork", 2, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_who_only_says_that_it_is_a_broker_makes_nothing(
    tmp_path: Path, name: str, offset: int, code: ErrorCode
) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("source")
        broker.produce("source", b"v")
        before = sorted(tmp_path.rglob("*"))
        request = BranchPartitionsRequest(
            MAKE, "source", name, bytes(15) + b"1", partitions=[BranchPartition(0, offset)]
        )
        with pytest.raises(KafkaError) as refused:
            broker.run(take_step(broker.node.services, request))
        assert refused.value.code is code
        assert sorted(tmp_path.rglob("*")) == before
