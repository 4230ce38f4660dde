"""Compaction in a running broker, as real clients see it."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.base.names import TopicPartition as Name
from moldau.storage.log.log import Log
from moldau.testing import Broker
from moldau.testing.broker import empty
from tests.shared.waiting import turns, until

pytestmark = pytest.mark.slow

SETTINGS = {
    "log.cleaner.backoff.ms": 1000,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}
PATIENCE_SECONDS = 20


def compact(broker: Broker, topic: str) -> None:
    """Looks for work as the timer does, and returns when all of the topic is compacted that may be."""

    async def wait() -> None:
        cleaning = broker.node.cleaning
        cleaning.look()

        def done() -> bool:
            held = log_of(broker, topic)
            offset = cleaning.cleaner.offset_of(held)
            return not cleaning.cleaner.jobs and offset == held.segments.active.base_offset

        await until(done, lambda: cleaning.cleaner.uncleanable)

    broker.run(wait())


def log_of(broker: Broker, topic: str) -> Log:
    found = broker.node.replicas.find(topic, 0).log
    assert found is not None
    return found


def roll(broker: Broker, topic: str) -> None:
    async def do() -> None:
        log_of(broker, topic).roll(broker.clock.now_ms())

    broker.run(do())


def read(broker: Broker, topic: str, end: int) -> list[tuple[int, bytes | None, bytes | None]]:
    """Everything up to an offset, with a plain consumer."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while True:
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        if message.error():
            break
        found.append((message.offset(), message.key(), message.value()))
    position = consumer.position([TopicPartition(topic, 0)])[0].offset
    consumer.close()
    assert position in (end, -1001) or position <= end
    return found


@pytest.fixture(params=["memory", "disk"])
def broker(request: pytest.FixtureRequest, tmp_path: Path):  # type: ignore[no-untyped-def]
    """On disk a process of its own does the work."""
    with Broker(SETTINGS, data_dir=tmp_path / "data" if request.param == "disk" else None) as broker:
        yield broker


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_last_value_of_every_key(broker: Broker, codec: str) -> None:
    broker.create_topic("levels", configs={"cleanup.policy": "compact"})
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 5,
        }
    )
    for at in range(3000):
        producer.produce("levels", key=b"C%d" % (at % 50), value=b"%d" % at, partition=0)
        producer.poll(0)
    producer.produce("levels", key=b"C7", value=None, partition=0)
    producer.flush()
    roll(broker, "levels")
    compact(broker, "levels")
    expected = [(at, b"C%d" % (at % 50), b"%d" % at) for at in range(2950, 3000) if at % 50 != 7]
    expected.append((3000, b"C7", None))
    assert read(broker, "levels", 3001) == expected
    # The producer goes on as if nothing had happened, after a restart as well.
    broker.stop()
    broker.start()
    assert read(broker, "levels", 3001) == expected
    errors = []
    producer.produce(
        "levels", key=b"C8", value=b"new", partition=0, on_delivery=lambda error, _: errors.append(error)
    )
    producer.flush()
    assert errors == [None]
    assert read(broker, "levels", 3002)[-1] == (3001, b"C8", b"new")


def test_transactions(broker: Broker) -> None:
    broker.create_topic("payments", configs={"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions()
    for at in range(30):
        producer.begin_transaction()
        producer.produce("payments", key=b"%d" % (at % 5), value=b"%d" % at, partition=0)
        if at % 3 == 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    roll(broker, "payments")
    compact(broker, "payments")
    last = {at % 5: at for at in range(30) if at % 3 != 2}
    found = read(broker, "payments", 60)
    assert {int(key or b""): int(value or b"") for _, key, value in found} == last
    assert len(found) == 5
    # The transactions' own log is compacted too, and the producer is not fenced by that.
    roll(broker, "__transaction_state")
    compact(broker, "__transaction_state")
    assert len(broker.records("__transaction_state")) <= 2
    producer.begin_transaction()
    producer.produce("payments", key=b"9", value=b"9", partition=0)
    producer.commit_transaction()
    assert read(broker, "payments", 100)[-1][1:] == (b"9", b"9")


def test_offsets_of_groups(broker: Broker) -> None:
    broker.create_topic("orders")
    broker.produce("orders", b"x")
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "enable.auto.commit": False}
    )
    for offset in range(400):
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    size = broker.run(_size(broker, "__consumer_offsets"))
    roll(broker, "__consumer_offsets")
    compact(broker, "__consumer_offsets")
    assert len(broker.records("__consumer_offsets")) < 10
    assert broker.run(_size(broker, "__consumer_offsets")) < size / 20
    broker.stop()
    broker.start()
    assert consumer.committed([TopicPartition("orders", 0)])[0].offset == 399
    consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
    assert consumer.committed([TopicPartition("orders", 0)])[0].offset == 7
    consumer.close()


async def _size(broker: Broker, topic: str) -> int:
    return log_of(broker, topic).size


def test_it_happens_by_itself_after_the_backoff(broker: Broker) -> None:
    broker.create_topic("levels", configs={"cleanup.policy": "compact"})
    for at in range(10):
        broker.produce("levels", b"%d" % at, key=b"k")
    roll(broker, "levels")

    def compacted() -> bool:
        broker.clock.advance(1)
        return broker.node.cleaning.cleaner.offset_of(log_of(broker, "levels")) == 10

    broker.run(until(compacted))
    assert [record.offset for record in broker.records("levels")] == [9]


def test_a_topic_that_is_deleted_while_it_is_compacted(broker: Broker) -> None:
    broker.create_topic("levels", configs={"cleanup.policy": "compact"})
    for at in range(10):
        broker.produce("levels", b"%d" % at, key=b"k")
    roll(broker, "levels")

    async def begin_and_delete() -> None:
        broker.node.cleaning.look()
        assert broker.node.cleaning.cleaner.jobs
        await empty(broker.node)
        await until(lambda: not broker.node.cleaning.cleaner.jobs)

    broker.run(begin_and_delete())
    assert broker.node.cleaning.cleaner.uncleanable == {}
    assert broker.topics() == []
    broker.produce("levels", b"1", key=b"k")
    assert Name("levels", 0) not in broker.node.cleaning.cleaner.uncleanable


def test_switched_off(tmp_path: Path) -> None:
    with Broker({**SETTINGS, "log.cleaner.enable": False}) as broker:
        broker.create_topic("levels", configs={"cleanup.policy": "compact"})
        for at in range(10):
            broker.produce("levels", b"%d" % at, key=b"k")
        roll(broker, "levels")
        broker.clock.advance(60)
        broker.run(turns(10))  # a look begins its jobs at once
        assert not broker.node.cleaning.cleaner.jobs
        assert len(broker.records("levels")) == 10
