"""Forks and restored topics over the wire, and to whom these APIs are told."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from moldau.broker.apis import BETWEEN_BROKERS
from moldau.client.snapshots.time_travel import ForkedTopic, fork_topic
from moldau.client.transport.cluster import Cluster
from moldau.protocol.api_keys import FIRST_PRIVATE_KEY, ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.begin_restore import BeginRestoreRequest, RestoreConfig, RestorePartition
from moldau.protocol.messages.end_restore import EndRestoreRequest
from moldau.protocol.messages.restore_batches import RestoreBatchesRequest
from moldau.protocol.records import Record, encode_batch
from moldau.testing import Broker
from tests.contract.wire import Wire
from tests.shared.waiting import until

NOW = 1_700_000_000_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0, "moldau.restores.max": 2}) as broker:
        yield broker


def ask(broker: Broker, work: Callable[[Cluster], Awaitable[Any]]) -> Any:
    async def inside() -> Any:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            return await work(cluster)

    return asyncio.run(inside())


def fork(broker: Broker, source: str, name: str, **options: Any) -> ForkedTopic:
    made: ForkedTopic = ask(broker, lambda cluster: fork_topic(cluster, source, name, **options))
    return made


def values(broker: Broker, topic: str, *, committed: bool) -> list[bytes]:
    """What a plain Kafka consumer reads."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"group-of-{topic}-{committed}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    ends = 0
    while ends < len(broker.node.metadata.image.topics_by_name[topic].partitions):
        message = consumer.poll(10)
        assert message is not None, "nothing came"
        if message.error() is None:
            found.append(message.value())
        else:
            ends += 1
    consumer.close()
    return found


@pytest.mark.slow
def test_a_fork_is_a_topic_like_any_other(broker: Broker) -> None:
    broker.create_topic("orders", 2, {"segment.bytes": 1_048_576, "retention.ms": -1})
    for number in range(20):
        broker.produce("orders", f"{number}", partition=number % 2, timestamp_ms=NOW + number)
    made = fork(broker, "orders", "copy", configs={"retention.ms": None, "max.message.bytes": "2000"})
    assert [(p.log_start_offset, p.cut_offset, p.log_end_offset) for p in made.partitions] == [
        (0, 10, 10)
    ] * 2
    image = broker.node.metadata.image
    assert image.topics_by_name["copy"].topic_id == made.topic_id
    assert dict(image.overrides[2, "copy"]) == {"segment.bytes": "1048576", "max.message.bytes": "2000"}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    producer.produce("copy", b"new", partition=0)
    assert producer.flush(10) == 0
    assert len(broker.records("orders")) == 20
    assert broker.records("copy", 0)[-1].offset == 10
    assert sorted(values(broker, "copy", committed=False)) == sorted(
        [b"new", *(str(number).encode() for number in range(20))]
    )


def test_as_it_was_at_a_time(broker: Broker) -> None:
    for number in range(10):
        broker.produce("orders", f"{number}", timestamp_ms=NOW + number)
    fork(broker, "orders", "copy", timestamp_ms=NOW + 4)
    assert [record.value for record in broker.records("copy")] == [b"0", b"1", b"2", b"3", b"4"]
    fork(broker, "orders", "all", timestamp_ms=NOW + 1000)
    assert len(broker.records("all")) == 10
    fork(broker, "orders", "nothing", timestamp_ms=NOW - 1)
    assert broker.records("nothing") == []
    assert broker.produce("nothing", "first") == 0


def test_at_offsets(broker: Broker) -> None:
    broker.create_topic("orders", 2)
    for number in range(10):
        broker.produce("orders", f"{number}", partition=number % 2)
    made = fork(broker, "orders", "copy", offsets={0: 2})
    assert [each.cut_offset for each in made.partitions] == [2, 5]
    for offsets, code in (
        ({0: 6}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({5: 0}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        with pytest.raises(KafkaError) as refused:
            fork(broker, "orders", "bad", offsets=offsets)
        assert refused.value.code is code


def test_what_is_refused(broker: Broker) -> None:
    broker.create_topic("orders")
    for source, name, options, code in (
        ("nope", "copy", {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", "orders", {}, ErrorCode.TOPIC_ALREADY_EXISTS),
        ("orders", "a/b", {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("orders", "__consumer_offsets", {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("orders", "copy", {"configs": {"nonsense": "1"}}, ErrorCode.INVALID_CONFIG),
        ("orders", "copy", {"timestamp_ms": 1, "offsets": {0: 0}}, ErrorCode.INVALID_REQUEST),
    ):
        with pytest.raises(KafkaError) as refused:
            fork(broker, source, name, **options)
        assert refused.value.code is code, (source, name)
    assert broker.topics() == ["orders"]


def test_a_producer_of_the_source_may_write_to_the_fork(broker: Broker) -> None:
    """Its sequences begin at 0 there: the fork has never heard of it."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    broker.create_topic("orders")
    for number in range(5):
        producer.produce("orders", f"{number}".encode())
        assert producer.flush(10) == 0
    fork(broker, "orders", "copy")
    for number in range(3):
        producer.produce("copy", f"copy {number}".encode())
        producer.produce("orders", f"more {number}".encode())
        assert producer.flush(10) == 0
    assert [record.value for record in broker.records("copy")][5:] == [b"copy 0", b"copy 1", b"copy 2"]
    assert len(broker.records("orders")) == 8


@pytest.mark.slow
def test_transactions(broker: Broker) -> None:
    broker.create_topic("orders")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions()
    for number, commit in enumerate([True, False, True]):
        producer.begin_transaction()
        producer.produce("orders", f"{number}a".encode())
        producer.flush()
        producer.produce("orders", f"{number}b".encode())
        producer.flush()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    # 0a 0b C 1a 1b A 2a 2b C
    producer.begin_transaction()
    producer.produce("orders", b"open")
    producer.flush()
    assert fork(broker, "orders", "whole").partitions[0].cut_offset == 9
    assert values(broker, "whole", committed=True) == [b"0a", b"0b", b"2a", b"2b"]
    made = fork(broker, "orders", "cut", offsets={0: 7})
    assert (made.partitions[0].cut_offset, made.partitions[0].log_end_offset) == (7, 8)
    assert values(broker, "cut", committed=True) == [b"0a", b"0b"]
    broker.produce("cut", "after")
    assert values(broker, "cut", committed=False) == [b"0a", b"0b", b"1a", b"1b", b"2a", b"after"]
    producer.abort_transaction()


def test_forks_survive_a_restart(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        for number in range(10):
            broker.produce("orders", f"{number}")
        made = fork(broker, "orders", "copy", offsets={0: 6})
        broker.produce("copy", "more")
        broker.stop()
        broker.start()
        assert [record.value for record in broker.records("copy")] == [
            *(str(number).encode() for number in range(6)),
            b"more",
        ]
        assert broker.node.metadata.image.topics_by_name["copy"].topic_id == made.topic_id
        assert not list(tmp_path.glob("data/*/branch.unfinished"))
        assert not list(tmp_path.glob("data/*-delete"))


def test_two_forks_of_one_name_at_once(broker: Broker) -> None:
    broker.produce("orders", "1")

    async def both(cluster: Cluster) -> list[Any]:
        forks = (fork_topic(cluster, "orders", "copy") for _ in range(2))
        return await asyncio.gather(*forks, return_exceptions=True)

    made, refused = sorted(ask(broker, both), key=lambda each: isinstance(each, KafkaError))
    assert isinstance(made, ForkedTopic)
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert [record.value for record in broker.records("copy")] == [b"1"]
    assert broker.produce("copy", "2") == 1


def test_only_our_own_client_is_told(broker: Broker) -> None:
    def keys(name: str, version: int) -> set[int]:
        with Wire(broker.port) as wire:
            asked = ApiVersionsRequest(client_software_name=name, client_software_version="2.0")
            return {each.api_key for each in wire.ask(asked, version).api_keys}

    ours, theirs = keys("moldau", 4), keys("librdkafka", 4)
    assert keys("moldau", 2) == keys("apache-kafka-java", 3) == theirs
    private = {int(key) for key in ApiKey if key >= FIRST_PRIVATE_KEY}
    assert ours - theirs == private | {int(key) for key in BETWEEN_BROKERS}
    assert max(theirs) < FIRST_PRIVATE_KEY


# --- restoring ----------------------------------------------------------------------------------------


def begin(name: str, *bounds: tuple[int, int], **configs: str) -> BeginRestoreRequest:
    return BeginRestoreRequest(
        name=name,
        partitions=[RestorePartition(*each) for each in bounds],
        configs=[RestoreConfig(key.replace("_", "."), value) for key, value in configs.items()],
    )


def batch_at(offset: int, count: int = 1, epoch: int = 5) -> bytes:
    records = [Record(offset + i, NOW, b"k", b"v%d" % (offset + i)) for i in range(count)]
    return bytes(encode_batch(records, base_offset=offset, leader_epoch=epoch))


def test_batches_come_back_at_their_offsets(broker: Broker) -> None:
    async def restore(cluster: Cluster) -> Any:
        connection = await cluster.controller()
        begun = await connection.send(begin("back", (101, 120), (7, 7), retention_ms="-1"))
        assert begun.error_code == 0
        for data in (batch_at(100, 3), batch_at(103), batch_at(110, 2)):
            sent = await connection.send(RestoreBatchesRequest(begun.topic_id, 0, data))
            assert sent.error_code == 0, sent.error_message
        assert "back" not in [t.name for t in await cluster.topics(None)]
        ended = await connection.send(EndRestoreRequest(begun.topic_id, True))
        assert ended.error_code == 0, ended.error_message
        return [(each.log_start_offset, each.log_end_offset) for each in ended.partitions]

    assert ask(broker, restore) == [(101, 120), (7, 7)]
    assert [record.offset for record in broker.records("back", 0)] == [101, 102, 103, 110, 111]
    partitions = broker.node.metadata.image.topics_by_name["back"].partitions
    assert [each.leader_epoch for each in partitions] == [5, 0]
    assert (broker.produce("back", "x"), broker.produce("back", "y", partition=1)) == (120, 7)


def test_what_a_restore_refuses(broker: Broker) -> None:
    broken = bytearray(batch_at(3))
    broken[-1] ^= 1

    async def restore(cluster: Cluster) -> list[int]:
        connection = await cluster.controller()
        codes = [
            (await connection.send(request)).error_code
            for request in (
                begin("a/b", (0, 1)),
                begin("x"),
                begin("x", (5, 3)),
                begin("x", (0, 1), nonsense="1"),
                RestoreBatchesRequest(bytes(range(16)), 0, batch_at(0)),
                EndRestoreRequest(bytes(range(16)), True),
            )
        ]
        begun = await connection.send(begin("x", (0, 9)))
        requests = [
            RestoreBatchesRequest(begun.topic_id, 0, batch_at(2)),
            RestoreBatchesRequest(begun.topic_id, 0, batch_at(1)),  # behind what is there
            RestoreBatchesRequest(begun.topic_id, 0, batch_at(9)),  # beyond the end
            RestoreBatchesRequest(begun.topic_id, 0, batch_at(3)[:-1]),
            RestoreBatchesRequest(begun.topic_id, 0, bytes(broken)),
            RestoreBatchesRequest(begun.topic_id, 1, batch_at(3)),
            RestoreBatchesRequest(begun.topic_id, 0, None),
            EndRestoreRequest(begun.topic_id, False),
            EndRestoreRequest(begun.topic_id, False),
        ]
        return codes + [(await connection.send(request)).error_code for request in requests]

    assert [ErrorCode(code).name for code in ask(broker, restore)] == [
        "INVALID_TOPIC_EXCEPTION",
        "INVALID_PARTITIONS",
        "INVALID_REQUEST",
        "INVALID_CONFIG",
        "UNKNOWN_TOPIC_ID",
        "UNKNOWN_TOPIC_ID",
        "NONE",
        "INVALID_RECORD",
        "INVALID_RECORD",
        "CORRUPT_MESSAGE",
        "CORRUPT_MESSAGE",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "INVALID_REQUEST",
        "NONE",
        "UNKNOWN_TOPIC_ID",
    ]
    assert broker.topics() == []
    files = broker.node._files
    assert [name for name in files.list_directory("/tmp/kafka-logs") if name.startswith("x")] == []


def test_a_restore_that_nobody_goes_on_with_is_given_up(broker: Broker) -> None:
    async def two(cluster: Cluster) -> list[int]:
        connection = await cluster.controller()
        return [(await connection.send(begin(f"t{number}", (0, 1)))).error_code for number in range(3)]

    assert ask(broker, two) == [0, 0, ErrorCode.POLICY_VIOLATION]
    broker.clock.advance(301)
    broker.run(until(lambda: not len(broker.node.services.restores)))
    assert ask(broker, two) == [0, 0, ErrorCode.POLICY_VIOLATION]
