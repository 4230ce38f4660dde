"""Stores that hold something back: results under suppress, unmatched records of joins, records that wait for
a table.

Invariant: what waits leaves by time and then by the bytes of its key, whatever the order in which it came.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple

from moldau.streams.engine.records import Change, Headers, KeyBytes
from moldau.streams.engine.stores.store import Entry, Store

#: The bytes that Kafka counts beside keys, values, topic and headers: the place in the queue, and of the
#: record's context its time, offset and partition.
_FIXED_BYTES = 8 + 8 + 8 + 4
_FAR = 1 << 62


class Held(NamedTuple):
    """A result that waits: since when, what readers last saw, the change, and the record that caused it."""

    time: int
    prior: Any
    change: Change
    timestamp: int
    headers: Headers
    topic: str | None
    partition: int
    offset: int


class SuppressBuffer(Store):
    """Results that wait, one for each key, by the time at which the first of them came in."""

    __slots__ = ("_byte_size", "_counts_bytes", "_dirty", "_order", "value_bytes")
    _rows: dict[Any, Held]

    def __init__(
        self,
        name: str,
        key_bytes: KeyBytes,
        value_bytes: Callable[[Any], bytes],
        *,
        counts_bytes: bool = False,
        is_logged: bool = True,
    ) -> None:
        super().__init__(name, key_bytes, is_logged=is_logged)
        self.value_bytes = value_bytes
        #: Whether the size is kept up to date, as a bound in bytes needs it.
        self._counts_bytes = counts_bytes
        self._byte_size = 0
        #: A heap: however much waits, what comes and what goes costs little.
        self._order: list[tuple[int, bytes, Any]] = []
        self._dirty: set[Any] = set()

    def put(self, key: Any, held: Held) -> None:
        """Takes a result in; the place in the queue is that of an earlier one of the same key."""
        before = self._rows.get(key)
        if before is not None:
            held = Held(before.time, before.prior, *held[2:])
            if self._counts_bytes:
                self._byte_size -= self._size(key, before)
        else:
            heappush(self._order, (held.time, self.key_bytes(key), key))
        self._rows[key] = held
        if self._counts_bytes:
            self._byte_size += self._size(key, held)
        self._changed.add(key)
        self._dirty.add(key)

    def first_time(self) -> int:
        return self._order[0][0] if self._order else _FAR

    def first(self) -> tuple[Any, Held]:
        """What has waited longest."""
        key = self._order[0][2]
        return key, self._rows[key]

    def pop(self) -> None:
        """Forgets what has waited longest."""
        _, _, key = heappop(self._order)
        held = self._rows.pop(key)
        if self._counts_bytes:
            self._byte_size -= self._size(key, held)
        self._changed.add(key)
        self._dirty.add(key)

    def get(self, key: Any) -> Held | None:
        return self._rows.get(key)

    def committed(self) -> None:
        self.changelog_records += len(self._dirty)
        self._dirty.clear()

    def entries(self) -> Iterator[Entry]:
        return (
            Entry(key, self._rows[key].change.new, self._rows[key].timestamp)
            for _, _, key in sorted(self._order)
        )

    def restore_numbers(self, numbers: tuple[int, ...]) -> None:
        self._order = sorted((held.time, self.key_bytes(key), key) for key, held in self._rows.items())
        self._byte_size = self._whole_size() if self._counts_bytes else 0

    @property
    def byte_size(self) -> int:
        return self._byte_size if self._counts_bytes else self._whole_size()

    def _whole_size(self) -> int:
        return sum(self._size(key, held) for key, held in self._rows.items())

    def _size(self, key: Any, held: Held) -> int:
        """The bytes that Kafka counts for it."""
        size = len(self.key_bytes(key)) + _FIXED_BYTES + len(held.topic or "")
        for name, value in held.headers:
            size += len(name) + (len(str(value)) if value is not None else 0)
        values = [held.prior, held.change.new]
        if held.change.old != held.prior:
            values.append(held.change.old)
        return size + sum(len(self.value_bytes(value)) for value in values if value is not None)


class UnmatchedStore(Store):
    """Records of a stream-stream join that found no partner yet, by time, side and key; equal ones are all
    kept.
    """

    __slots__ = ("_order",)
    _rows: dict[tuple[int, bool, Any], tuple[Any, ...]]

    def __init__(self, name: str, key_bytes: KeyBytes, *, is_logged: bool = True) -> None:
        super().__init__(name, key_bytes, is_logged=is_logged)
        self._order: list[tuple[int, bool, bytes, Any]] = []

    def put(self, timestamp: int, is_left: bool, key: Any, value: Any) -> None:
        place = (timestamp, is_left, key)
        values = self._rows.get(place, ())
        if not values:
            insort(self._order, (timestamp, is_left, self.key_bytes(key), key))
        self._rows[place] = (*values, value)
        self._changed.add(place)
        self.changelog_records += 1

    def remove(self, timestamp: int, is_left: bool, key: Any) -> None:
        """Forgets what waits there; nothing is logged where nothing does."""
        place = (timestamp, is_left, key)
        if self._rows.pop(place, None) is not None:
            del self._order[bisect_left(self._order, (timestamp, is_left, self.key_bytes(key)))]
            self._changed.add(place)
            self.changelog_records += 1

    def waiting(self) -> Iterator[tuple[int, bool, Any, Any]]:
        """Time, side, key and value of all that waits: by time, the right side first, then by key."""
        for timestamp, is_left, _, key in self._order:
            for value in self._rows[timestamp, is_left, key]:
                yield timestamp, is_left, key, value

    def entries(self) -> Iterator[Entry]:
        return (Entry(key, value, timestamp) for timestamp, _, key, value in self.waiting())

    def restore_numbers(self, numbers: tuple[int, ...]) -> None:
        self._order = sorted((time, is_left, self.key_bytes(key), key) for time, is_left, key in self._rows)


class WaitingRecord(NamedTuple):
    """A stream record that waits for its table, and where it came from."""

    key: Any
    value: Any
    timestamp: int
    headers: Headers


class GraceBuffer(Store):
    """Stream records that wait until stream time has passed them by the grace period."""

    __slots__ = ("_order", "_sequence")
    _rows: dict[tuple[int, int], WaitingRecord]

    def __init__(self, name: str, key_bytes: KeyBytes, *, is_logged: bool = True) -> None:
        super().__init__(name, key_bytes, is_logged=is_logged)
        #: A heap.
        self._order: list[tuple[int, bytes, int]] = []
        self._sequence = 0

    def put(self, record: WaitingRecord) -> None:
        self._sequence += 1
        place = (record.timestamp, self._sequence)
        self._rows[place] = record
        heappush(self._order, (record.timestamp, self.key_bytes(record.key), self._sequence))
        self._changed.add(place)
        self.changelog_records += 1

    def pop_until(self, time: int) -> Iterator[WaitingRecord]:
        while self._order and self._order[0][0] <= time:
            timestamp, _, sequence = heappop(self._order)
            place = (timestamp, sequence)
            self._changed.add(place)
            self.changelog_records += 1
            yield self._rows.pop(place)

    def entries(self) -> Iterator[Entry]:
        for timestamp, _, sequence in sorted(self._order):
            record = self._rows[timestamp, sequence]
            yield Entry(record.key, record.value, timestamp)

    def numbers(self) -> tuple[int, ...]:
        return (self._sequence,)

    def restore_numbers(self, numbers: tuple[int, ...]) -> None:
        (self._sequence,) = numbers
        self._order = sorted(
            (timestamp, self.key_bytes(record.key), sequence)
            for (timestamp, sequence), record in self._rows.items()
        )


class SubscriptionStore(Store):
    """Which rows of the left table want to hear of a row of the right one (foreign-key joins)."""

    __slots__ = ("primary_key_bytes",)
    _rows: dict[Any, dict[Any, Any]]

    def __init__(
        self, name: str, key_bytes: KeyBytes, primary_key_bytes: KeyBytes, *, is_logged: bool = True
    ) -> None:
        super().__init__(name, key_bytes, is_logged=is_logged)
        self.primary_key_bytes = primary_key_bytes

    def put(self, foreign_key: Any, primary_key: Any, left_value: Any) -> None:
        self._rows.setdefault(foreign_key, {})[primary_key] = left_value
        self._changed.add(foreign_key)
        self.changelog_records += 1

    def delete(self, foreign_key: Any, primary_key: Any) -> None:
        row = self._rows.get(foreign_key)
        if row is not None:
            row.pop(primary_key, None)
            if not row:
                del self._rows[foreign_key]
        self._changed.add(foreign_key)
        self.changelog_records += 1

    def subscribers(self, foreign_key: Any) -> list[tuple[Any, Any]]:
        """Key and value of the left rows, by key."""
        row = self._rows.get(foreign_key, {})
        return sorted(row.items(), key=lambda each: self.primary_key_bytes(each[0]))

    def entries(self) -> Iterator[Entry]:
        for foreign_key in sorted(self._rows, key=self.key_bytes):
            yield from (Entry((foreign_key, key), value) for key, value in self.subscribers(foreign_key))

    def saved(self, row: Any) -> Any:
        return dict(row)

    def taken_over(self, row: Any) -> Any:
        return dict(row)
