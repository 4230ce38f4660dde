"""Aggregates by sliding window: a window for every set of records of a key that lie within a time difference.

Invariant: both ends of a window are inclusive. A record at t makes a window that ends at t, and one that
starts at t + 1 where later records fall into it; early records, before the difference, share the window that
starts at 0.
"""

from typing import Any, NamedTuple

from moldau.streams.engine.records import NO_TIME, Headers, TimedValue, Windowed
from moldau.streams.engine.stores.store import LATE
from moldau.streams.engine.windows import WindowedAggregate


class _Arrival(NamedTuple):
    """A record that is being taken in."""

    key: Any
    value: Any
    timestamp: int
    headers: Headers
    close_time: int


class _Found(NamedTuple):
    """What the windows that are there already say about a new record's own two windows."""

    starts: frozenset[int]
    #: An aggregate of the records after the new one, and of those before it.
    right: TimedValue | None
    left: TimedValue | None
    has_left_window: bool
    has_right_window: bool
    previous_timestamp: int | None


class SlidingWindowAggregate(WindowedAggregate):
    """Keys and values of None are dropped. ``size_ms`` is the time difference."""

    __slots__ = ("allows_points",)

    def __init__(self, *arguments: Any, allows_points: bool = False, **options: Any) -> None:
        super().__init__(*arguments, **options)
        #: Whether a difference of 0 makes windows of one moment; Kafka Streams fails at the first record.
        self.allows_points = allows_points

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            self.dropped()
            return
        if timestamp > self.observed:
            self.observed = timestamp
        close_time = self.observed - self.grace_ms
        if timestamp + 1 + self.size_ms <= close_time:
            self.dropped(LATE)
            return
        arrival = _Arrival(key, value, timestamp, headers, close_time)
        if timestamp < self.size_ms:
            self._take_early(arrival)
        else:
            found = self._update_existing(arrival)
            if found is not None:
                self._create_windows(arrival, found)
        self.emit_closed(close_time, headers)

    def _update_existing(self, arrival: _Arrival) -> _Found | None:
        """Adds the record to the windows that hold its time, newest first; None where no new window is
        needed.
        """
        time, size = arrival.timestamp, self.size_ms
        starts: set[int] = set()
        right = left = previous = None
        has_left = has_right = False
        for start, aggregate in reversed(
            self.store.fetch_range(arrival.key, max(0, time - 2 * size), time + 1)
        ):
            starts.add(start)
            end = start + size
            if start == time + 1:
                has_right = True
            elif end > time:
                if right is None:
                    right = aggregate
                self._add(arrival, start, aggregate)
            elif end == time:
                has_left = True
                self._add(arrival, start, aggregate)
                if aggregate.timestamp >= time:
                    return None
                previous = aggregate.timestamp
            else:
                left, previous = aggregate, aggregate.timestamp
                break
        return _Found(frozenset(starts), right, left, has_left, has_right, previous)

    def _create_windows(self, arrival: _Arrival, found: _Found) -> None:
        time, size, previous = arrival.timestamp, self.size_ms, found.previous_timestamp
        if previous is not None and previous + 1 not in found.starts and previous + 1 + size >= time:
            self._add(arrival, previous + 1, TimedValue(self.initializer(), time))
        if not found.has_left_window:
            if previous is not None and time - size <= previous:
                assert found.left is not None
                aggregate = TimedValue(found.left.value, time)
            else:
                aggregate = TimedValue(self.initializer(), time)
            self._add(arrival, time - size, aggregate)
        if not found.has_right_window and found.right is not None and found.right.timestamp > time:
            self._create_right(arrival, found.right)

    def _take_early(self, arrival: _Arrival) -> None:
        """A record before the time difference: its window would start before 0, so it joins the one at 0."""
        time = arrival.timestamp
        starts: set[int] = set()
        combined = right = previous = None
        has_right = False
        for start, aggregate in self.store.fetch_range(arrival.key, 0, time + 1):
            starts.add(start)
            if start == 0:
                combined = aggregate
                if aggregate.timestamp < time:
                    previous = aggregate.timestamp
            elif start <= time:
                right = aggregate
                self._add(arrival, start, aggregate)
            else:
                has_right = True
        if right is None and combined is not None and combined.timestamp > time:
            right = combined
        if not has_right and right is not None and right.timestamp > time:
            self._create_right(arrival, right)
        if previous is not None and previous + 1 not in starts:
            self._add(arrival, previous + 1, TimedValue(self.initializer(), time))
        self._add(arrival, 0, combined if combined is not None else TimedValue(self.initializer(), time))

    def _create_right(self, arrival: _Arrival, aggregate: TimedValue) -> None:
        """The window after the new record; it holds what came later, and not the record itself."""
        start = arrival.timestamp + 1
        self.store.put(arrival.key, start, aggregate.value, aggregate.timestamp)
        window = self._window(arrival.key, start)
        self.update(window, aggregate.value, None, aggregate.timestamp, arrival.headers)

    def _add(self, arrival: _Arrival, start: int, before: TimedValue) -> None:
        window = self._window(arrival.key, start)
        if window.end < arrival.close_time:
            self.dropped(LATE)
            return
        old = before.value
        new = self.aggregator(arrival.key, arrival.value, old)
        newest = arrival.timestamp if old is None else max(arrival.timestamp, before.timestamp)
        self.store.put(arrival.key, start, new, newest)
        self.update(window, new, old, newest, arrival.headers)

    def _window(self, key: Any, start: int) -> Windowed:
        if self.size_ms <= 0 and not self.allows_points:
            raise ValueError("Window endMs must be greater than window startMs.")
        return Windowed(key, start, start + self.size_ms)

    def first_start_to_emit(self) -> int:
        return 0 if self.last_close == NO_TIME else max(0, self.last_close - self.size_ms)

    def last_start_to_emit(self, close_time: int) -> int:
        return close_time - self.size_ms - 1
