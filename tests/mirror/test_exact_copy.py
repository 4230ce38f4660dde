"""Mirrors with the same offsets: what is at the source is at the target, byte for byte."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Place

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import NewPartitions
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.mirror.topics import own_configs
from moldau.testing import Broker
from tests.mirror.flows import SETTINGS, ask, content, log_bounds, log_bytes, running, settings
from tests.shared.waiting import wait_until

IDENTITY = {"replication_policy_class": "IdentityReplicationPolicy"}


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, Broker]]:
    with Broker(SETTINGS) as a, Broker(SETTINGS) as b:
        yield {"A": a, "B": b}


@pytest.fixture
def pair(brokers: dict[str, Broker]) -> dict[str, Broker]:
    for broker in brokers.values():
        broker.reset()
    return brokers


def equal(pair: dict[str, Broker], topic: str) -> bool:
    a, b = pair.values()
    return topic in b.topics() and log_bounds(a, topic) == log_bounds(b, topic)


def write(broker: Broker, topic: str, values: list[bytes], **options: object) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1, **options})
    for at, value in enumerate(values):
        producer.produce(topic, value, b"k%d" % (at % 7), at % 2, headers=[("n", b"%d" % at), ("none", None)])
    assert producer.flush(60) == 0


@pytest.mark.slow
def test_bytes_offsets_and_transactions(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders", partitions=2)
    write(a, "orders", [b"v%d" % at for at in range(500)], **{"compression.type": "zstd"})
    writer = Producer({"bootstrap.servers": a.bootstrap_servers, "transactional.id": "t"})
    writer.init_transactions(60)
    for at, end in enumerate(("commit", "abort", "commit")):
        writer.begin_transaction()
        writer.produce("orders", b"in transaction %d" % at, partition=0)
        writer.flush(60)
        (writer.commit_transaction if end == "commit" else writer.abort_transaction)(60)
    writer.begin_transaction()
    writer.produce("orders", b"still open", partition=0)
    writer.flush(60)
    with running(settings(pair, "A->B", **IDENTITY)):
        wait_until(lambda: equal(pair, "orders"))
        for partition in (0, 1):
            assert log_bytes(a, "orders", partition) == log_bytes(b, "orders", partition)
        assert committed(b, "orders") == committed(a, "orders"), "the open transaction is open here too"
        writer.commit_transaction(60)
        wait_until(lambda: equal(pair, "orders"))
        assert committed(b, "orders")[-1] == b"still open"


def committed(broker: Broker, topic: str) -> list[bytes]:
    """What a consumer of committed records reads of partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([Place(topic, 0, 0)])
    found = []
    try:
        while (message := consumer.poll(60)) is not None and not message.error():
            found.append(message.value())
    finally:
        consumer.close()
    return found


def test_producers_are_refused_until_it_is_promoted(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    a.produce("orders", b"v")
    with running(settings(pair, "A->B", **IDENTITY)):
        wait_until(lambda: equal(pair, "orders"))
        errors: list[object] = []
        producer = Producer({"bootstrap.servers": b.bootstrap_servers, "enable.idempotence": True})
        producer.produce("orders", b"mine", on_delivery=lambda error, _: errors.append(error))
        producer.flush(60)
        assert errors
        assert "POLICY_VIOLATION" in repr(errors[0])
        with pytest.raises(KafkaException):
            raise KafkaException(errors[0])
    assert len(content(b, "orders")) == 1


def test_log_start_configs_and_new_partitions_are_followed(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders", configs={"retention.ms": "12345678"})
    for at in range(100):
        a.produce("orders", b"%d" % at)

    async def delete(cluster: Cluster) -> None:
        raise_errors(await Admin(cluster).delete_records({TopicPartition("orders", 0): 40}))

    async def widen(cluster: Cluster) -> None:
        raise_errors(await Admin(cluster).create_partitions({"orders": NewPartitions(3)}))

    ask(a, delete)
    with running(settings(pair, "A->B", **IDENTITY)):
        wait_until(lambda: equal(pair, "orders"))
        assert log_bounds(b, "orders") == [(40, 100)], "begins in the middle of the log"
        assert (
            ask(b, lambda cluster: own_configs(cluster, ["orders"]))["orders"]["retention.ms"] == "12345678"
        )

        async def delete_more(cluster: Cluster) -> None:
            raise_errors(await Admin(cluster).delete_records({TopicPartition("orders", 0): 70}))

        ask(a, delete_more)
        wait_until(lambda: equal(pair, "orders"))
        ask(a, widen)
        a.produce("orders", b"new", partition=2)
        wait_until(lambda: equal(pair, "orders"), lambda: log_bounds(b, "orders"))
        assert [r[3] for r in content(b, "orders", 2)] == [b"new"]


def test_gaps_of_compaction_stay(pair: dict[str, Broker]) -> None:
    """Batches that compaction emptied, and offsets at the end that no record has."""
    a, b = pair.values()
    a.create_topic("state", configs={"cleanup.policy": "compact"})
    from moldau.protocol.records import Record, encode_batch

    def gaps() -> None:
        (partition,) = a._partitions("state")
        assert partition.log is not None
        kept = [Record(5, 1, b"a", b"1", ()), Record(9, 2, b"b", b"2", ())]
        partition.log.append_batches(
            memoryview(encode_batch(kept, base_offset=5, last_offset_delta=10, leader_epoch=0)), 0
        )
        partition.log.append_batches(
            memoryview(encode_batch([], base_offset=20, last_offset_delta=4, leader_epoch=0)), 0
        )
        partition.log.log_end_offset = 40  # as after a roll, when everything behind 24 was compacted away
        partition.log.roll(0, 40)
        partition.advance_high_watermark(40)

    a._call(gaps)
    with running(settings(pair, "A->B", **IDENTITY)):
        wait_until(lambda: equal(pair, "state"), lambda: log_bounds(b, "state"))
        a.produce("state", b"3", key=b"c")
        wait_until(lambda: equal(pair, "state"))
        assert [r[0] for r in content(b, "state")] == [5, 9, 40]


def test_groups_are_carried_over(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    for at in range(50):
        a.produce("orders", b"%d" % at)
    place = TopicPartition("orders", 0)

    def commit(offset: int) -> None:
        ask(a, lambda cluster: Groups(cluster).commit("shop", {place: CommittedOffset(offset, -1, "note")}))

    def there() -> int | None:
        found = ask(b, lambda cluster: Groups(cluster).committed("shop", [place]))
        return found[place].offset if place in found else None  # type: ignore[union-attr]

    commit(30)
    with running(settings(pair, "A->B", **IDENTITY)):
        wait_until(lambda: there() == 30)
        commit(10)
        wait_until(lambda: there() == 10, "back, too: nobody else has committed")
        ask(b, lambda cluster: Groups(cluster).commit("shop", {place: CommittedOffset(45)}))
        commit(20)
        commit(48)
        wait_until(lambda: there() == 48)


def test_a_topic_made_anew_is_not_mixed_with_the_old_one(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    for at in range(20):
        a.produce("orders", b"old %d" % at)
    with running(settings(pair, "A->B", **IDENTITY)) as flows:
        wait_until(lambda: equal(pair, "orders"))
        ask(a, lambda cluster: Admin(cluster).delete_topics(["orders"]))
        a.create_topic("orders")
        a.produce("orders", b"new")
        a.create_topic("payments")
        a.produce("payments", b"goes on")
        wait_until(lambda: "made again" in flows[0].status.topics.refused.get("orders", ""))
        wait_until(lambda: equal(pair, "payments"), "the others go on")
        assert len(content(b, "orders")) == 20
    with running(settings(pair, "A->B", moldau_on_recreated="replace", **IDENTITY)):
        wait_until(lambda: [r[3] for r in content(b, "orders")] == [b"new"])


@pytest.mark.parametrize("count", [3, 60], ids=["fewer records", "more records"])
def test_of_a_topic_made_anew_nothing_comes_before_the_flow_looks_at_its_topics(
    pair: dict[str, Broker], count: int
) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    old = [b"old %d" % at for at in range(20)]
    for value in old:
        a.produce("orders", value)
    seldom = {"refresh_topics_interval_seconds": "600"}
    with running(settings(pair, "A->B", **seldom, **IDENTITY)) as flows:
        wait_until(lambda: equal(pair, "orders"))
        ask(a, lambda cluster: Admin(cluster).delete_topics(["orders"]))
        a.create_topic("orders")
        for at in range(count):
            a.produce("orders", b"new %d" % at)
        wait_until(lambda: "made again" in flows[0].status.topics.refused.get("orders", ""))
    assert [record[3] for record in content(b, "orders")] == old


def test_what_a_flow_leaves_out_is_not_deleted(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    a.create_topic("payments")
    with running(settings(pair, "A->B", **IDENTITY)):
        wait_until(lambda: equal(pair, "orders") and equal(pair, "payments"))
    a.create_topic("new")
    more = {**IDENTITY, "moldau_sync_topic_deletes_enabled": "true", "topics": "payments,new"}
    with running(settings(pair, "A->B", **more)):
        wait_until(lambda: equal(pair, "new"))
    assert "orders" in b.topics()


def test_deletions_by_option(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    a.create_topic("payments")
    b.create_topic("own")
    more = {**IDENTITY, "moldau_sync_topic_deletes_enabled": "true"}
    with running(settings(pair, "A->B", **more)):
        wait_until(lambda: equal(pair, "orders") and equal(pair, "payments"))
        ask(a, lambda cluster: Admin(cluster).delete_topics(["orders"]))
        wait_until(lambda: "orders" not in b.topics())
        assert {"payments", "own"} <= set(b.topics())


def test_retention_that_overtakes_is_said_loudly(
    pair: dict[str, Broker], caplog: pytest.LogCaptureFixture
) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    for at in range(10):
        a.produce("orders", b"%d" % at)
    with running(settings(pair, "A->B", **IDENTITY)):
        wait_until(lambda: equal(pair, "orders"))
    for at in range(10, 30):
        a.produce("orders", b"%d" % at)

    async def delete(cluster: Cluster) -> None:
        raise_errors(await Admin(cluster).delete_records({TopicPartition("orders", 0): 25}))

    ask(a, delete)
    with running(settings(pair, "A->B", **IDENTITY)) as flows:
        wait_until(lambda: equal(pair, "orders"), lambda: log_bounds(b, "orders"))
        assert log_bounds(b, "orders") == [(25, 30)]
        assert [each.lost for each in flows[0].status.progress.values()] == [15]
    assert any("records 10 to 24 are LOST" in record.getMessage() for record in caplog.records)


def test_a_mirror_is_cut_where_the_source_was_rewritten(
    pair: dict[str, Broker], caplog: pytest.LogCaptureFixture
) -> None:
    """As after an unclean election: the source has lost its end, and others have written there."""
    a, b = pair.values()
    a.create_topic("orders")
    for at in range(20):
        a.produce("orders", b"%d" % at)
    with running(settings(pair, "A->B", **IDENTITY)):
        wait_until(lambda: equal(pair, "orders"))

    def rewrite() -> None:
        (partition,) = a._partitions("orders")
        partition.truncate_to(12, 0)
        partition.leader_epoch += 3

    a._call(rewrite)
    for at in range(3):
        a.produce("orders", b"other %d" % at)
    with running(settings(pair, "A->B", **IDENTITY)):
        wait_until(lambda: equal(pair, "orders"), lambda: log_bounds(b, "orders"))
        assert content(a, "orders") == content(b, "orders")
    assert any("cut there" in record.getMessage() for record in caplog.records)


def test_an_ordinary_topic_of_the_target_is_left_alone(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    a.produce("orders", b"theirs")
    b.create_topic("orders")
    b.produce("orders", b"mine")
    with running(settings(pair, "A->B", **IDENTITY)) as flows:
        wait_until(lambda: "ordinary topic" in flows[0].status.topics.refused.get("orders", ""))
    assert [r[3] for r in content(b, "orders")] == [b"mine"]
