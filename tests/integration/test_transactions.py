"""Transactions with real clients: committed is seen once, aborted never, zombies are fenced."""

import asyncio
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from moldau.testing import Broker
from tests.shared.waiting import until, wait_until

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 30


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}) as broker:
        yield broker


def producer(broker: Broker, transactional_id: str) -> Producer:
    made = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": transactional_id, "log_level": 0}
    )
    made.init_transactions(PATIENCE_SECONDS)
    return made


def read(broker: Broker, topic: str, *, committed: bool) -> list[bytes]:
    """Everything that a reader sees up to the end as the isolation level has it."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    while True:
        (message,) = consumer.consume(1, PATIENCE_SECONDS) or [None]
        assert message is not None, "the reader got neither a record nor the end"
        if message.error() is not None:
            break
        values.append(message.value())
    consumer.close()
    return values


def test_committed_records_are_seen_and_aborted_ones_are_not(broker: Broker) -> None:
    broker.create_topic("mixed")
    writer = producer(broker, "mixed")
    for outcome, value in (("commit", b"one"), ("abort", b"two"), ("commit", b"three")):
        writer.begin_transaction()
        writer.produce("mixed", value)
        writer.flush(PATIENCE_SECONDS)
        if outcome == "commit":
            writer.commit_transaction(PATIENCE_SECONDS)
        else:
            writer.abort_transaction(PATIENCE_SECONDS)
    assert read(broker, "mixed", committed=True) == [b"one", b"three"]
    assert read(broker, "mixed", committed=False) == [b"one", b"two", b"three"]


def test_an_open_transaction_holds_readers_of_committed_data_back(broker: Broker) -> None:
    broker.create_topic("open")
    writer = producer(broker, "open")
    writer.begin_transaction()
    writer.produce("open", b"open")
    writer.flush(PATIENCE_SECONDS)
    plain = Producer({"bootstrap.servers": broker.bootstrap_servers})
    plain.produce("open", b"plain")
    plain.flush(PATIENCE_SECONDS)
    assert read(broker, "open", committed=True) == []
    assert read(broker, "open", committed=False) == [b"open", b"plain"]
    writer.commit_transaction(PATIENCE_SECONDS)
    assert read(broker, "open", committed=True) == [b"open", b"plain"]


def test_a_second_producer_fences_the_first_and_ends_what_it_left_open(broker: Broker) -> None:
    broker.create_topic("fenced")
    zombie = producer(broker, "fenced")
    zombie.begin_transaction()
    zombie.produce("fenced", b"zombie")
    zombie.flush(PATIENCE_SECONDS)
    heir = producer(broker, "fenced")
    heir.begin_transaction()
    heir.produce("fenced", b"heir")
    heir.commit_transaction(PATIENCE_SECONDS)
    with pytest.raises(KafkaException):
        zombie.commit_transaction(PATIENCE_SECONDS)
    assert read(broker, "fenced", committed=True) == [b"heir"]


def test_a_transaction_that_nobody_ends_is_aborted_by_the_clock(broker: Broker) -> None:
    broker.create_topic("late")
    writer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": "late",
            "transaction.timeout.ms": 60_000,
            "log_level": 0,
        }
    )
    writer.init_transactions(PATIENCE_SECONDS)
    writer.begin_transaction()
    writer.produce("late", b"late")
    writer.flush(PATIENCE_SECONDS)
    broker.clock.advance(61)
    partition = broker.node.replicas.find("late", 0)
    broker.run(until(lambda: partition.last_stable_offset() == 2))  # the record and the marker
    assert read(broker, "late", committed=True) == []
    plain = Producer({"bootstrap.servers": broker.bootstrap_servers})
    plain.produce("late", b"after")
    plain.flush(PATIENCE_SECONDS)
    assert read(broker, "late", committed=True) == [b"after"]


def test_aiokafka_takes_part_as_well(broker: Broker) -> None:
    from aiokafka import AIOKafkaProducer

    broker.create_topic("async")

    async def scenario() -> None:
        writer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="async")
        await writer.start()
        async with writer.transaction():
            await writer.send_and_wait("async", b"kept", partition=0)
        await writer.begin_transaction()
        await writer.send_and_wait("async", b"dropped", partition=0)
        await writer.abort_transaction()
        await writer.stop()

    asyncio.run(scenario())
    assert read(broker, "async", committed=True) == [b"kept"]


_WORKER = textwrap.dedent(
    """
    import sys
    from confluent_kafka import Consumer, Producer

    servers = {"bootstrap.servers": sys.argv[1], "log_level": 0}
    consumer = Consumer(
        {
            **servers,
            "group.id": "copier",
            "group.instance.id": "one",
            "session.timeout.ms": 3000,
            "heartbeat.interval.ms": 500,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    producer = Producer({**servers, "transactional.id": "copier", "transaction.timeout.ms": 10000})
    producer.init_transactions(30)
    consumer.subscribe(["source"])
    while True:
        messages = [m for m in consumer.consume(7, 0.2) if m.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce("copy", message.value(), partition=0)
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
        producer.commit_transaction(30)
    """
)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_copier_that_is_killed_again_and_again_copies_exactly_once(broker: Broker) -> None:
    """Thirty kills at random points; the output is the input, each record once and in order."""
    records, kills, seed = 2000, 30, random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    broker.create_topic("source")
    broker.create_topic("copy")
    source = Producer({"bootstrap.servers": broker.bootstrap_servers})
    expected = [b"%06d" % number for number in range(records)]
    for value in expected:
        source.produce("source", value, partition=0)
    source.flush(PATIENCE_SECONDS)

    def start() -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-c", _WORKER, broker.bootstrap_servers])

    for _ in range(kills):
        worker = start()
        with pytest.raises(subprocess.TimeoutExpired):
            worker.wait(chance.uniform(0.2, 0.9))
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    worker = start()
    try:

        def copied() -> list[bytes]:
            assert worker.poll() is None
            found = read(broker, "copy", committed=True)
            return found if len(found) >= records else []

        outcome = wait_until(copied, seconds=PATIENCE_SECONDS * 2)
    finally:
        worker.kill()
        worker.wait()
    assert outcome == expected, f"seed {seed}"
