"""A producer with librdkafka's default settings that writes all the time while brokers come and go.

What counts is what the program sees: when a record that was given to the client after the event is
acknowledged, how long nothing is, and which records fail.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import pairwise

from confluent_kafka import KafkaError, Message, Producer

PAUSE_S = 0.01
FLUSH_S = 120.0


class Probe:
    """Writes to the given partitions in turn, a record every 10 ms, until it is stopped."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: Sequence[int]) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "log_level": 0})
        self._topic = topic
        self._partitions = partitions
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        #: When a record was given to the client, and when it was acknowledged; by partition.
        self.acknowledged: list[tuple[float, float, int]] = []
        self.errors: list[str] = []

    def __enter__(self) -> Probe:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            self.send(self._partitions[number % len(self._partitions)])
            number += 1
            deadline = time.perf_counter() + PAUSE_S
            while (left := deadline - time.perf_counter()) > 0:
                self._producer.poll(left)
        if left_over := self._producer.flush(FLUSH_S):
            self.errors.append(f"{left_over} records without an answer")

    def send(self, partition: int) -> None:
        given = time.perf_counter()

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.acknowledged.append((given, time.perf_counter(), partition))
            else:
                self.errors.append(str(error))

        self._producer.produce(self._topic, b"v" * 100, partition=partition, on_delivery=delivered)

    def first_after(self, event: float, partition: int) -> float | None:
        """When the first record that was given to the client after the event was acknowledged."""
        times = [at for given, at, where in tuple(self.acknowledged) if given > event and where == partition]
        return min(times, default=None)

    def all_after(self, event: float, partitions: Sequence[int]) -> float | None:
        firsts = [self.first_after(event, each) for each in partitions]
        known = [each for each in firsts if each is not None]
        return max(known) if len(known) == len(partitions) else None

    def longest_gap(self, event: float) -> float:
        """The longest time without an acknowledgement from the event on."""
        times = [event, *sorted(at for _, at, _ in self.acknowledged if at > event)]
        return max((later - earlier for earlier, later in pairwise(times)), default=0.0)
