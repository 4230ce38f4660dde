"""What must be true of a partition, whatever happened to its broker, judged from what clients saw.

Every value is unique and names its producer and its place in that producer's order. The history takes down
what was sent, what was acknowledged and what was read; ``anomalies`` says what does not fit together:

- lost: an acknowledged record that is not at its offset
- duplicate: one value at two offsets, though its producer was idempotent
- reordered: a producer's later record before an earlier one
- gap: offsets that are not dense
- changed: an offset that was read as one value and later as another
- invented: a value that nobody sent
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Value(NamedTuple):
    """What a test writes: who, which of theirs, and something to make it longer."""

    producer: str
    sequence: int

    def encode(self, size: int = 0) -> bytes:
        return f"{self.producer}:{self.sequence}:".encode().ljust(size, b".")

    @classmethod
    def decode(cls, value: bytes | None) -> "Value":
        producer, sequence, _ = (value or b"").split(b":", 2)
        return cls(producer.decode(), int(sequence))


class Anomaly(NamedTuple):
    kind: str
    what: str


class PartitionHistory:
    def __init__(self, name: str) -> None:
        self.name = name
        self.sent: set[Value] = set()
        self.acknowledged: dict[Value, int] = {}
        #: Producers that may write a record twice when they have to ask again.
        self.not_idempotent: set[str] = set()
        self._read: dict[int, Value] = {}
        self._changed: list[Anomaly] = []

    def send(self, value: Value) -> None:
        assert value not in self.sent, f"{value} is not unique"
        self.sent.add(value)

    def acknowledge(self, value: Value, offset: int) -> None:
        self.acknowledged[value] = offset

    def read(self, offset: int, value: Value) -> None:
        """Takes down what any reader saw at any time."""
        before = self._read.setdefault(offset, value)
        if before != value:
            self._changed.append(
                Anomaly("changed", f"{self.name} offset {offset} was {before} and is {value}")
            )

    def anomalies(self, log: Sequence[tuple[int, Value]], start: int = 0) -> list[Anomaly]:
        """Judges everything against the whole log from ``start`` on, as it is at the end."""
        for offset, value in log:
            self.read(offset, value)
        at_end = dict(log)
        found = [*self._changed, *self._lost(at_end, start), *self._vanished(at_end, start)]
        found += self._dense([offset for offset, _ in log], start)
        return found + self._doubles_and_order([value for _, value in log])

    def _lost(self, at_end: dict[int, Value], start: int) -> Iterable[Anomaly]:
        for value, offset in self.acknowledged.items():
            if offset >= start and at_end.get(offset) != value:
                there = at_end.get(offset, "nothing")
                yield Anomaly(
                    "lost", f"{self.name} {value} was acknowledged at {offset}, where {there} is now"
                )

    def _vanished(self, at_end: dict[int, Value], start: int) -> Iterable[Anomaly]:
        for offset, value in self._read.items():
            if offset >= start and offset not in at_end:
                yield Anomaly("lost", f"{self.name} offset {offset} was read as {value} and is gone")

    def _dense(self, offsets: Sequence[int], start: int) -> Iterable[Anomaly]:
        for expected, offset in enumerate(offsets, start):
            if offset != expected:
                return [Anomaly("gap", f"{self.name} has offset {offset} where {expected} should be")]
        return []

    def _doubles_and_order(self, values: Sequence[Value]) -> list[Anomaly]:
        found = []
        seen: set[Value] = set()
        latest: defaultdict[str, int] = defaultdict(lambda: -1)
        for value in values:
            if value not in self.sent:
                found.append(Anomaly("invented", f"{self.name} has {value}, which nobody sent"))
            if value.producer in self.not_idempotent:
                continue
            if value in seen:
                found.append(Anomaly("duplicate", f"{self.name} has {value} twice"))
            elif value.sequence <= latest[value.producer]:
                found.append(Anomaly("reordered", f"{self.name} has {value} after {latest[value.producer]}"))
            seen.add(value)
            latest[value.producer] = max(latest[value.producer], value.sequence)
        return found
