"""The workers of a soak: producers, readers that follow, readers that jump, and one who makes topics.

Each runs in a thread of its own until it is told to stop, takes down in the ledger what it did and saw, and
never judges. What a worker does is drawn from a seed; only the interleaving is not.
"""

import random
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.integration.client_contract import Client, Consuming, Producing, Refused, Sent
from tests.integration.history_checker import Anomaly, PartitionHistory, Value

#: A send that is not answered for so long is a failure of its own.
DELIVERY_SECONDS = 110.0


@dataclass
class Ledger:
    """What all workers of one round saw; every method may be called from any thread."""

    topics: dict[str, int]
    histories: dict[tuple[str, int], PartitionHistory] = field(default_factory=dict)
    anomalies: list[Anomaly] = field(default_factory=list)
    acknowledged: int = 0
    refused: int = 0
    read: int = 0
    #: Topics whose creation was acknowledged and whose deletion was never asked for.
    created_topics: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        for topic, partitions in self.topics.items():
            for partition in range(partitions):
                self.histories[topic, partition] = PartitionHistory(f"{topic}-{partition}")

    def sent(self, topic: str, partition: int, value: Value, *, idempotent: bool) -> None:
        with self._lock:
            history = self.histories[topic, partition]
            history.send(value)
            if not idempotent:
                history.not_idempotent.add(value.producer)

    def answered(self, topic: str, partition: int, value: Value, outcome: int | Refused) -> None:
        with self._lock:
            if isinstance(outcome, Refused):
                self.refused += 1
            elif outcome >= 0:
                self.acknowledged += 1
                self.histories[topic, partition].acknowledge(value, outcome)

    def saw(self, topic: str, partition: int, offset: int, value: Value) -> None:
        with self._lock:
            self.read += 1
            self.histories[topic, partition].read(offset, value)

    def highest(self, topic: str, partition: int) -> int:
        """The last offset that was acknowledged, or 0."""
        with self._lock:
            return max(self.histories[topic, partition].acknowledged.values(), default=0)

    def found(self, kind: str, what: str) -> None:
        with self._lock:
            self.anomalies.append(Anomaly(kind, what))


class Worker:
    """A thread that does one step after the other; what it raises is an anomaly."""

    def __init__(self, name: str, ledger: Ledger, step: Callable[[], None]) -> None:
        self._ledger = ledger
        self._step = step
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._step()
        except BaseException as error:
            self._ledger.found("worker failed", f"{self.thread.name}: {traceback.format_exception(error)}")

    def tell_to_stop(self) -> None:
        self._stop.set()


def producing(client: Client, ledger: Ledger, name: str, dice: random.Random, how: Producing) -> Worker:
    """Bursts of records to all partitions, with every answer taken down."""
    producer = client.producer(how)
    places = sorted(ledger.histories)
    sequence = 0
    pause = threading.Event()

    def burst() -> None:
        nonlocal sequence
        sent = []
        for _ in range(dice.randrange(1, 200)):
            topic, partition = dice.choice(places)
            value = Value(name, sequence)
            sequence += 1
            ledger.sent(topic, partition, value, idempotent=how.idempotent)
            producer.send(topic, Sent(value.encode(dice.choice((0, 50, 500, 5000)))), partition)
            sent.append((topic, partition, value))
        for (topic, partition, value), outcome in zip(sent, producer.flush(DELIVERY_SECONDS), strict=True):
            ledger.answered(topic, partition, value, outcome)
        pause.wait(dice.random() * 0.05)

    return Worker(name, ledger, burst)


def following(client: Client, ledger: Ledger, topic: str, name: str, how: Consuming) -> Worker:
    """Reads a topic from its start and must miss nothing and see nothing twice."""
    expected = dict.fromkeys(range(ledger.topics[topic]), 0)
    consumer = client.consumer(how)
    consumer.assign(topic, expected)

    def follow() -> None:
        for record in consumer.poll(500, timeout=0.5):
            wanted = expected[record.partition]
            if record.offset != wanted:
                ledger.found("skipped", f"{name} got {topic}-{record.partition} {record.offset} for {wanted}")
            expected[record.partition] = record.offset + 1
            ledger.saw(topic, record.partition, record.offset, Value.decode(record.value))

    return Worker(name, ledger, follow)


def jumping(client: Client, ledger: Ledger, name: str, dice: random.Random) -> Worker:
    """Reads here and there: what stands at an offset must always be the same."""
    consumer = client.consumer(Consuming(on_reset="earliest"))
    places = sorted(ledger.histories)

    def jump() -> None:
        topic, partition = dice.choice(places)
        offset = dice.randrange(ledger.highest(topic, partition) + 1)
        consumer.assign(topic, {partition: offset})
        expected = offset
        for record in consumer.poll(dice.randrange(1, 50), timeout=0.5):
            if record.offset != expected:
                ledger.found("skipped", f"{name} got {topic}-{partition} {record.offset} for {expected}")
            expected = record.offset + 1
            ledger.saw(topic, record.partition, record.offset, Value.decode(record.value))

    return Worker(name, ledger, jump)


def making_topics(client: Client, ledger: Ledger, name: str, dice: random.Random) -> Worker:
    """Makes and deletes topics; one whose creation was acknowledged must be there until it is deleted."""
    number = 0
    pause = threading.Event()

    def make() -> None:
        nonlocal number
        pause.wait(dice.random())
        number += 1
        topic = f"{name}.{number}"
        try:
            if ledger.created_topics and dice.random() < 0.4:
                gone = dice.choice(sorted(ledger.created_topics))
                ledger.created_topics.discard(gone)
                client.delete_topic(gone)
            else:
                client.create_topic(topic, partitions=dice.randrange(1, 4))
                ledger.created_topics.add(topic)
        except Refused:
            return  # the broker was away, or the first try went through without its answer
        except TimeoutError:
            return

    return Worker(name, ledger, make)
