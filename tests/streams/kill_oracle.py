"""What the application of ``kill_program`` must give, by plain dictionaries; and a reader that watches it.

Invariant: nothing of the engine is used here. The reader never goes back: a record that it saw stays seen,
so that one which a crash takes away, or writes twice, is a difference.
"""

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.shared.waiting import wait_until

Record = tuple[bytes | None, bytes | None, int]
_SIZE_MS, _ADVANCE_MS = 5_000, 1_000
_TOPICS, _PARTITIONS = ("killed-windows", "killed-colours"), 2


def expected(
    events: Mapping[int, Sequence[Record]],
) -> tuple[dict[int, list[Record]], dict[bytes | None, list[bytes | None]]]:
    """Windows by partition, in order; counts by colour."""
    windows: dict[int, list[Record]] = {}
    totals: dict[bytes | None, int] = defaultdict(int)
    for partition, records in events.items():
        windows[partition] = list(_hopping(records))
        for _, colour, _ in records:
            totals[colour] += 1
    return windows, {
        colour: [count.to_bytes(8, "big") for count in range(1, total + 1)]
        for colour, total in totals.items()
    }


def _hopping(records: Sequence[Record]) -> list[Record]:
    counts: dict[tuple[bytes | None, int], int] = defaultdict(int)
    times: dict[tuple[bytes | None, int], int] = {}
    results: list[Record] = []
    now = -1
    for key, _, time in records:
        now = max(now, time)
        first = max(0, (time - _SIZE_MS + _ADVANCE_MS) // _ADVANCE_MS * _ADVANCE_MS)
        for start in range(first, time + 1, _ADVANCE_MS):
            if start + _SIZE_MS <= now:
                continue  # closed: there is no grace
            window = key, start
            counts[window] += 1
            times[window] = max(time, times.get(window, time))
            results.append((key, counts[window].to_bytes(8, "big"), times[window]))
    return results


def assert_same(seen: Sequence[Record], wanted: Sequence[Record], where: str) -> None:
    """Says the first difference: whole lists are too long to be read."""
    for number, (one, other) in enumerate(zip(seen, wanted, strict=False)):
        assert one == other, f"{where}: record {number} is {one}, and should be {other}"
    assert len(seen) == len(wanted), f"{where}: {len(seen)} records, and should be {len(wanted)}"


class CommittedReader:
    """Reads results as they are committed, in a thread, through all restarts of the broker."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._seen: dict[str, dict[int, list[Record]]] = {
            topic: {partition: [] for partition in range(_PARTITIONS)} for topic in _TOPICS
        }
        self._reached: dict[tuple[str, int], int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, name="committed-reader", daemon=True)

    def __enter__(self) -> "CommittedReader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)

    def caught_up(self, ends: Mapping[tuple[str, int], int]) -> dict[str, dict[int, list[Record]]]:
        wait_until(
            lambda: all(self._reached.get(place, 0) >= end for place, end in ends.items()),
            lambda: f"read up to {self._reached} of {dict(ends)}",
            seconds=180,
        )
        return self._seen

    def _read(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "committed-reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "topic.metadata.refresh.interval.ms": 1_000,
            }
        )
        consumer.assign([TopicPartition(topic, p, 0) for topic in _TOPICS for p in range(_PARTITIONS)])
        try:
            while not self._ended.is_set():
                message = consumer.poll(0.5)
                if message is None:
                    continue
                place = message.topic(), message.partition()
                error = message.error()
                if error is None:
                    self._seen[place[0]][place[1]].append(
                        (message.key(), message.value(), message.timestamp()[1])
                    )
                elif error.code() == KafkaError._PARTITION_EOF:
                    # Its offset counts the ends of transactions, too.
                    self._reached[place] = message.offset()
        finally:
            consumer.close()
