"""Producers and consumers under faults, with real clients; what they saw becomes a history."""

import contextlib
import threading
import time
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.cluster_faults.checker import Fate, History, Polled, Sent
from tests.shared.waiting import wait_until

_SAFE = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 1,
    "message.timeout.ms": 60_000,
    "topic.metadata.refresh.interval.ms": 1_000,
    "reconnect.backoff.max.ms": 200,
    # With more than one, librdkafka doubles records of other partitions when the first of them is refused and
    # the next is out of order (its issue 4953); a disk that is full does that.
    "max.in.flight.requests.per.connection": 1,
    "log_level": 0,  # that a broker refuses connections is meant
}


class Writer(threading.Thread):
    """Sends values until it is stopped, plainly or in transactions of a few, some of which it aborts."""

    def __init__(
        self, name: str, servers: str, topic: str, partitions: int, seed: int, *, transactional: bool
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.sent: list[Sent] = []
        self.errors: list[str] = []
        #: When records were acknowledged, for the picture of the run.
        self.times: list[float] = []
        self._topic = topic
        self._partitions = partitions
        self._dice = Random(seed)
        self._transactional = transactional
        self._stopping = threading.Event()
        self._config: dict[str, Any] = {**_SAFE, "bootstrap.servers": servers}
        if transactional:
            self._config |= {"transactional.id": name, "transaction.timeout.ms": 60_000}
        self._count = 0

    def stop(self) -> None:
        self._stopping.set()
        self.join(120)
        assert not self.is_alive(), f"{self.name} is stuck"

    def run(self) -> None:
        if self._transactional:
            self._run_transactions()
            return
        producer = Producer(self._config)
        while not self._stopping.is_set():
            self._produce(producer, self.sent)
            producer.poll(0.002)
        left = producer.flush(90)
        assert left == 0, f"{self.name} has {left} values without an answer"

    def _produce(self, producer: Producer, into: list[Sent]) -> None:
        self._count += 1
        value = f"{self.name}-{self._count}"
        partition = self._dice.randrange(self._partitions)

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None:
                self.times.append(time.monotonic())
                # The answer to a repetition that the broker had already says no offset.
                offset = -1 if message.offset() is None else message.offset()
                into.append(Sent(self.name, partition, value, Fate.ACKNOWLEDGED, offset))
            else:
                into.append(Sent(self.name, partition, value, Fate.UNKNOWN))

        producer.produce(self._topic, value, partition=partition, on_delivery=delivered)

    def _run_transactions(self) -> None:
        producer: Producer | None = None
        while not self._stopping.is_set():
            if producer is None:
                producer = Producer(self._config)
                try:
                    producer.init_transactions(90)
                except KafkaException:
                    producer = None
                    continue
            batch: list[Sent] = []
            fate = self._transaction(producer, batch)
            self.sent += [
                each._replace(fate=fate, offset=each.offset if fate is Fate.ACKNOWLEDGED else -1)
                for each in batch
            ]
            if fate is Fate.UNKNOWN:
                producer = None  # the next one fences this one and ends what it left

    def _transaction(self, producer: Producer, batch: list[Sent]) -> Fate:
        try:
            producer.begin_transaction()
            for _ in range(self._dice.randrange(1, 8)):
                self._produce(producer, batch)
            if self._dice.random() < 0.15:
                producer.flush(90)  # librdkafka may not abort what it has not told the coordinator of
                producer.abort_transaction(90)
                return Fate.FAILED
            producer.commit_transaction(90)
            return Fate.ACKNOWLEDGED
        except KafkaException as error:
            self.errors.append(str(error))
            if error.args[0].txn_requires_abort():
                with contextlib.suppress(KafkaException):
                    producer.abort_transaction(90)
                    return Fate.FAILED
            with contextlib.suppress(KafkaException):
                producer.flush(5)
            return Fate.UNKNOWN


class Reader(threading.Thread):
    """Reads fixed partitions from the beginning until it has reached what is asked for."""

    def __init__(self, name: str, servers: str, topic: str, partitions: int, *, committed: bool) -> None:
        super().__init__(name=name, daemon=True)
        self.polled: list[Polled] = []
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": name,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                "topic.metadata.refresh.interval.ms": 1_000,
            }
        )
        self._consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])

    def run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(500, 0.1):
                if message.error() is None:
                    polled = Polled(
                        self.name, message.partition(), message.offset(), message.value().decode()
                    )
                    self.polled.append(polled)
        self._consumer.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)


def settle(writers: list[Writer], readers: list[Reader]) -> History:
    """Stops the writers, waits until the readers have everything that was acknowledged, and stops them."""
    for writer in writers:
        writer.stop()
    wanted = {each.value for writer in writers for each in writer.sent if each.fate is Fate.ACKNOWLEDGED}
    for reader in readers:
        seen: set[str] = set()
        place = 0

        def caught_up(reader: Reader = reader, seen: set[str] = seen) -> bool:
            nonlocal place
            seen.update(each.value for each in reader.polled[place:])
            place = len(reader.polled)
            return wanted <= seen

        with contextlib.suppress(AssertionError):  # the checker says what is missing
            wait_until(caught_up, seconds=60)
    for reader in readers:
        reader.stop()
    return History(
        [each for writer in writers for each in writer.sent],
        [each for reader in readers for each in reader.polled],
    )
