"""A topic as it was: ends and tables as of a time, against a real broker."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from moldau.base.names import TopicPartition
from moldau.client.consumer.raw_reader import read_raw
from moldau.client.snapshots.time_travel import Table, ends_as_of, fork_topic, table_as_of
from moldau.client.transport.cluster import Cluster
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import Record, batches, encode_batch
from moldau.testing import Broker

NOW = 1_700_000_000_000
P0 = TopicPartition("users", 0)
P1 = TopicPartition("users", 1)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def ask(broker: Broker, work: Callable[[Cluster], Awaitable[Any]]) -> Any:
    async def inside() -> Any:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            return await work(cluster)

    return asyncio.run(inside())


def table(broker: Broker, timestamp_ms: int | None, *partitions: TopicPartition) -> Table:
    found: Table = ask(broker, lambda cluster: table_as_of(cluster, partitions or [P0], timestamp_ms))
    return found


def rows(found: Table) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(row.offset, row.key, row.value) for row in found.rows]


def test_ends_as_of(broker: Broker) -> None:
    broker.create_topic("users", 2)
    for number in range(6):
        broker.produce("users", "v", partition=number % 2, timestamp_ms=NOW + number)

    def ends(timestamp_ms: int) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = ask(broker, lambda c: ends_as_of(c, [P0, P1], timestamp_ms))
        return found

    assert ends(NOW - 1) == {P0: 0, P1: 0}
    assert ends(NOW + 2) == {P0: 2, P1: 1}
    assert ends(NOW + 100) == {P0: 3, P1: 3}


def test_a_late_record_belongs_to_what_came_later(broker: Broker) -> None:
    """As of a time is a beginning of the log, not a choice among its records."""
    for offset, time in enumerate([0, 5, 3]):
        broker.produce("users", f"{offset}", key=f"{offset}", timestamp_ms=NOW + time)
    assert rows(table(broker, NOW + 4)) == [(0, b"0", b"0")]


def test_the_table_at_a_time(broker: Broker) -> None:
    for number, (key, value) in enumerate(
        [("a", "1"), ("b", "1"), ("a", "2"), (None, "x"), ("b", None), ("c", "1")]
    ):
        broker.produce("users", value, key=key, timestamp_ms=NOW + number)
    assert rows(table(broker, NOW + 1)) == [(0, b"a", b"1"), (1, b"b", b"1")]
    assert rows(table(broker, NOW + 3)) == [(1, b"b", b"1"), (2, b"a", b"2")]
    now = table(broker, None)
    assert rows(now) == [(2, b"a", b"2"), (5, b"c", b"1")]
    assert (now.without_key, now.is_complete, now.ends) == (1, True, {P0: 6})


def test_aborted_records_are_not_in_the_table(broker: Broker) -> None:
    broker.create_topic("users")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions()
    for value, commit in ((b"1", True), (b"2", False)):
        producer.begin_transaction()
        producer.produce("users", value, b"key")
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)()
    found = table(broker, None)
    assert rows(found) == [(0, b"key", b"1")]
    assert found.is_complete


def append_raw(broker: Broker, batch: bytes) -> None:
    async def append() -> None:
        partition = broker.node.replicas.find("users", 0)
        partition.leading_log().append_batches(memoryview(batch), NOW)
        partition.high_watermark = partition.leading_log().log_end_offset

    broker.run(append())


def test_where_history_is_complete(broker: Broker) -> None:
    """Offsets that are missing were taken by compaction, inside a batch or between two of them."""
    broker.create_topic("users")
    kept = [Record(1, NOW, b"a", b"1"), Record(3, NOW, b"b", b"1")]
    append_raw(broker, bytes(encode_batch(kept, base_offset=0, last_offset_delta=3)))
    assert table(broker, None).complete_from == {P0: 4}
    append_raw(broker, bytes(encode_batch([Record(7, NOW + 5, b"c", b"1")], base_offset=7)))
    append_raw(broker, bytes(encode_batch([Record(8, NOW + 9, b"c", b"2")], base_offset=8)))
    found = table(broker, None)
    assert (found.complete_from, found.is_complete) == ({P0: 7}, False)
    assert rows(found) == [(1, b"a", b"1"), (3, b"b", b"1"), (8, b"c", b"2")]
    assert rows(table(broker, NOW + 6)) == [(1, b"a", b"1"), (3, b"b", b"1"), (7, b"c", b"1")]


def test_retention_takes_history_too(broker: Broker) -> None:
    for number in range(4):
        broker.produce("users", "v", key=f"{number}")

    async def delete() -> None:
        broker.node.replicas.find("users", 0).delete_records(2)

    broker.run(delete())
    found = table(broker, None)
    assert (found.complete_from, [row.key for row in found.rows]) == ({P0: 2}, [b"2", b"3"])


def test_raw_batches_in_small_pieces(broker: Broker) -> None:
    for number in range(30):
        broker.produce("users", "v" * 50, key=f"{number}")

    async def read(cluster: Cluster) -> list[int]:
        return [
            header.base_offset
            async for piece in read_raw(cluster, P0, 3, 27, max_bytes=300)
            for _, header in batches(piece.records)
        ]

    offsets = ask(broker, read)
    assert offsets[:24] == list(range(3, 27))


def test_a_cluster_of_another_kind_does_not_know_forks(scripted: Any) -> None:
    async def inside() -> None:
        async with scripted({}) as broker:
            broker.api_versions = {ApiKey.METADATA: (0, 13), ApiKey.API_VERSIONS: (0, 4)}
            async with await Cluster.open(broker.address) as cluster:
                with pytest.raises(KafkaError, match="does not offer FORK_TOPIC") as refused:
                    await fork_topic(cluster, "a", "b")
                assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION

    asyncio.run(inside())
