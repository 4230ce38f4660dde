"""As MirrorMaker 2, to any cluster: each record once, its topics, and offsets translated to the record."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.mirror.internal_topics import read_checkpoints, read_topic
from moldau.mirror.rules.formats import Checkpoint, read_heartbeat
from moldau.testing import Broker
from tests.mirror.flows import SETTINGS, ask, committed, running, settings, settings_with
from tests.shared.waiting import wait_until

TRANSLATED = {"moldau_mode": "translated"}


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, Broker]]:
    with Broker(SETTINGS) as a, Broker(SETTINGS) as b:
        yield {"A": a, "B": b}


@pytest.fixture
def pair(brokers: dict[str, Broker]) -> dict[str, Broker]:
    for broker in brokers.values():
        broker.reset()
    return brokers


def values(broker: Broker, topic: str, partition: int | None = None) -> list[bytes]:
    return [record[3] for record in committed(broker, topic, partition)]


def without_offsets(broker: Broker, topic: str, partition: int) -> list[tuple[object, ...]]:
    return [record[1:] for record in committed(broker, topic, partition)]


def test_records_are_copied_as_they_are(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders", partitions=2, configs={"retention.ms": "99999999", "min.insync.replicas": "1"})
    producer = Producer({"bootstrap.servers": a.bootstrap_servers, "compression.type": "gzip"})
    for at in range(200):
        value = None if at % 9 == 0 else b"v%d" % at
        producer.produce(
            "orders", value, None if at % 5 == 0 else b"", at % 2, headers=[("a", b"1"), ("a", None)]
        )
    assert producer.flush(60) == 0
    with running(settings(pair, "A->B", **TRANSLATED)):
        wait_until(lambda: len(committed(b, "A.orders")) == 200)
        for partition in (0, 1):
            assert without_offsets(b, "A.orders", partition) == without_offsets(a, "orders", partition)
        wait_until(lambda: {"heartbeats", "A.orders"} <= set(b.topics()))
        wait_until(lambda: "mm2-offset-syncs.B.internal" in a.topics())
        beats = wait_until(lambda: ask(b, lambda cluster: read_topic(cluster, "heartbeats")))
        beat = read_heartbeat(beats[0].key or b"", beats[0].value or b"")
        assert (beat.source, beat.target) == ("A", "B")


def test_a_transaction_ends_when_nothing_more_comes(pair: dict[str, Broker]) -> None:
    """Its time is the longest that it collects; a reader of committed records does not wait for that."""
    a, b = pair.values()
    a.create_topic("orders")
    with running(settings(pair, "A->B", **TRANSLATED, moldau_transaction_ms="400000")):
        for at in range(3):
            a.produce("orders", b"%d" % at)
            wait_until(lambda at=at: values(b, "A.orders") == [b"%d" % each for each in range(at + 1)])


def test_aborted_records_and_markers_stay_out(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    writer = Producer({"bootstrap.servers": a.bootstrap_servers, "transactional.id": "t"})
    writer.init_transactions(60)
    for at in range(6):
        writer.begin_transaction()
        writer.produce("orders", b"%d" % at)
        writer.flush(60)
        (writer.abort_transaction if at % 3 == 1 else writer.commit_transaction)(60)
    with running(settings(pair, "A->B", **TRANSLATED)):
        wait_until(lambda: values(b, "A.orders") == [b"0", b"2", b"3", b"5"])
        a.produce("orders", b"after")
        wait_until(lambda: values(b, "A.orders")[-1:] == [b"after"])
    b.reset()
    more = {"A.consumer.isolation.level": "read_uncommitted", "moldau.mode": "translated"}
    with running(settings_with(pair, ("A->B",), more)):
        wait_until(lambda: values(b, "A.orders") == [b"0", b"1", b"2", b"3", b"4", b"5", b"after"])


def test_offsets_are_translated_to_the_record(pair: dict[str, Broker]) -> None:
    """Transactions at the source and at the target leave gaps on both sides."""
    a, b = pair.values()
    a.create_topic("orders")
    writer = Producer({"bootstrap.servers": a.bootstrap_servers, "transactional.id": "t"})
    writer.init_transactions(60)

    def write(first: int, count: int) -> None:
        writer.begin_transaction()
        for at in range(first, first + count):
            writer.produce("orders", b"%d" % at)
        writer.commit_transaction(60)

    place = TopicPartition("orders", 0)
    copied = TopicPartition("A.orders", 0)
    offsets: dict[str, int] = {}
    with running(settings(pair, "A->B", **TRANSLATED)):
        for number in range(8):
            write(number * 10, 10)
            wait_until(lambda count=(number + 1) * 10: len(values(b, "A.orders")) == count)  # type: ignore[misc]
        records = committed(a, "orders")
        for at in (0, 1, 37, 50, 79):
            group = f"g{at}"
            offsets[group] = records[at][0]
            commit = {place: CommittedOffset(records[at][0])}
            ask(a, lambda cluster, g=group, c=commit: Groups(cluster).commit(g, c))  # type: ignore[misc]
        wait_until(lambda: len(checkpoints(b)) == 5)
        for at in (0, 1, 37, 50, 79):
            there = checkpoints(b)[f"g{at}", copied]
            assert there.upstream_offset == offsets[f"g{at}"]
            assert read_from(b, there.downstream_offset) == b"%d" % at
            theirs = wait_until(
                lambda g=f"g{at}": ask(b, lambda cluster: Groups(cluster).committed(g))  # type: ignore[misc]
            )
            assert theirs[copied] == CommittedOffset(there.downstream_offset)
    # Another process knows it too: from the offset-syncs topic, and the last commit.
    ask(a, lambda cluster: Groups(cluster).commit("late", {place: CommittedOffset(records[22][0])}))
    with running(settings(pair, "A->B", **TRANSLATED)):
        wait_until(lambda: ("late", copied) in checkpoints(b))
        assert read_from(b, checkpoints(b)["late", copied].downstream_offset) == b"22"


def checkpoints(broker: Broker) -> dict[tuple[str, TopicPartition], Checkpoint]:
    return ask(broker, lambda cluster: read_checkpoints(cluster, "A.checkpoints.internal"))


def read_from(broker: Broker, offset: int) -> bytes:
    """The record that a consumer reads first from there."""
    return next(record[3] for record in committed(broker, "A.orders") if record[0] >= offset)


def test_a_group_that_fails_over_reads_each_record_once(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    for at in range(300):
        a.produce("orders", b"%d" % at)

    def read(broker: Broker, topic: str, count: int) -> list[bytes]:
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "shop",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        found: list[bytes] = []
        while len(found) < count:
            found += [m.value() for m in consumer.consume(count - len(found), 60) if not m.error()]
        consumer.commit(asynchronous=False)
        consumer.close()
        return found

    with running(settings(pair, "A->B", **TRANSLATED)):
        first = read(a, "orders", 123)
        wait_until(lambda: len(values(b, "A.orders")) == 300)
        place = TopicPartition("A.orders", 0)
        wait_until(lambda: place in ask(b, lambda cluster: Groups(cluster).committed("shop")))
        second = read(b, "A.orders", 177)
    assert first + second == [b"%d" % at for at in range(300)]


@pytest.mark.slow
def test_it_goes_on_where_it_was(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    for at in range(50):
        a.produce("orders", b"%d" % at)
    for _ in range(3):
        with running(settings(pair, "A->B", **TRANSLATED)):
            wait_until(lambda: values(b, "A.orders") == values(a, "orders"))
        a.produce("orders", b"more")
    with running(settings(pair, "A->B", **TRANSLATED)):
        wait_until(lambda: values(b, "A.orders") == values(a, "orders"))


def test_a_topic_made_anew_follows_the_old_one(
    pair: dict[str, Broker], caplog: pytest.LogCaptureFixture
) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    for at in range(5):
        a.produce("orders", b"old %d" % at)
    with running(settings(pair, "A->B", **TRANSLATED)):
        wait_until(lambda: len(values(b, "A.orders")) == 5)
    ask(a, lambda cluster: Admin(cluster).delete_topics(["orders"]))
    a.create_topic("orders")
    a.produce("orders", b"new")
    with running(settings(pair, "A->B", **TRANSLATED)):
        wait_until(lambda: values(b, "A.orders")[5:] == [b"new"])
    assert any("made again at the source" in record.getMessage() for record in caplog.records)


def test_a_topic_made_anew_while_it_is_copied(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    old, new = [b"old %d" % at for at in range(5)], [b"new %d" % at for at in range(9)]
    for value in old:
        a.produce("orders", value)
    with running(settings(pair, "A->B", refresh_topics_interval_seconds="600", **TRANSLATED)):
        wait_until(lambda: values(b, "A.orders") == old)
        ask(a, lambda cluster: Admin(cluster).delete_topics(["orders"]))
        a.create_topic("orders")
        for value in new:
            a.produce("orders", value)
        wait_until(lambda: values(b, "A.orders") == old + new)


def test_a_function_of_the_user(pair: dict[str, Broker], tmp_path: Path) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    for at in range(20):
        a.produce("orders", b"%d" % at)
    (tmp_path / "own.py").write_text(
        "def even(record):\n"
        "    return record._replace(value=b'n' + record.value) if int(record.value) % 2 == 0 else None\n"
    )
    with running(settings(pair, "A->B", moldau_function=f"{tmp_path}/own.py:even")):
        wait_until(lambda: values(b, "A.orders") == [b"n%d" % at for at in range(0, 20, 2)])


def test_both_ways_without_loops(pair: dict[str, Broker]) -> None:
    a, b = pair.values()
    a.create_topic("orders")
    b.create_topic("orders")
    a.produce("orders", b"from A")
    b.produce("orders", b"from B")
    with running(settings(pair, "A->B", "B->A", **TRANSLATED)):
        wait_until(lambda: values(b, "A.orders") == [b"from A"] and values(a, "B.orders") == [b"from B"])
        wait_until(lambda: {"B.heartbeats"} <= set(a.topics()))
        a.produce("orders", b"again")
        wait_until(lambda: values(b, "A.orders") == [b"from A", b"again"])
    assert not [t for t in (*a.topics(), *b.topics()) if t.startswith(("A.B.", "B.A."))]
