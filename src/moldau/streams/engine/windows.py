"""Aggregates by time window: tumbling, hopping and unlimited windows, updates or final results.

Invariant: an operator has one stream time for all keys. A window takes records until stream time reaches its
end plus grace; final results come with the record that gets there, by start of the window and then by key.
"""

from collections.abc import Callable
from typing import Any

from moldau.streams.engine.aggregates import Aggregator, Initializer
from moldau.streams.engine.nodes import Node, TaskContext
from moldau.streams.engine.records import NO_TIME, Change, Headers, TimedValue, Windowed
from moldau.streams.engine.stores.store import LATE
from moldau.streams.engine.stores.windows import WindowStore

#: The starts of the windows that a time belongs to, by start.
WindowsFor = Callable[[int], list[int]]


class WindowedAggregate(Node):
    """What aggregates by windows of a fixed length have in common. Subclasses say which windows a record is
    in.
    """

    __slots__ = (
        "aggregator",
        "grace_ms",
        "initializer",
        "last_close",
        "observed",
        "on_close",
        "sends_old",
        "size_ms",
        "store",
        "store_name",
    )

    def __init__(
        self,
        store_name: str,
        size_ms: int,
        grace_ms: int,
        initializer: Initializer,
        aggregator: Aggregator,
        *,
        on_close: bool = False,
        sends_old: bool = False,
    ) -> None:
        super().__init__()
        self.store_name = store_name
        self.size_ms = size_ms
        self.grace_ms = grace_ms
        self.initializer = initializer
        self.aggregator = aggregator
        self.on_close = on_close
        self.sends_old = sends_old
        self.observed = NO_TIME
        self.last_close = NO_TIME
        self.store: WindowStore

    def start(self, context: TaskContext) -> None:
        super().start(context)
        self.store = context.stores[self.store_name]  # type: ignore[assignment]

    def update(self, window: Windowed, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
        if not self.on_close:
            self.forward(window, Change(new, old if self.sends_old else None), timestamp, headers)

    def emit_closed(self, close_time: int, headers: Headers) -> None:
        """Sends the windows that closed since the last time, if any."""
        if not self.on_close or (self.last_close != NO_TIME and self.last_close >= close_time):
            return
        last = self.last_start_to_emit(close_time)
        if last < 0:
            return
        first = self.first_start_to_emit()
        if not self.has_new_windows(first, last):
            return
        for entry in self.store.fetch_all(first, last):
            assert entry.timestamp is not None
            self.forward(entry.key, Change(entry.value), entry.timestamp, headers)
        self.last_close = close_time
        self.store.emitted_until(last)

    def first_start_to_emit(self) -> int:
        raise NotImplementedError

    def last_start_to_emit(self, close_time: int) -> int:
        raise NotImplementedError

    def has_new_windows(self, first: int, last: int) -> bool:
        return True

    def numbers(self) -> tuple[Any, ...]:
        return self.observed, self.last_close

    def restore_numbers(self, numbers: tuple[Any, ...]) -> None:
        self.observed, self.last_close = numbers


class TimeWindowAggregate(WindowedAggregate):
    """Tumbling, hopping and unlimited windows. A value of None counts, a key of None is dropped."""

    __slots__ = ("windows_for",)

    def __init__(
        self,
        store_name: str,
        windows_for: WindowsFor,
        size_ms: int,
        grace_ms: int,
        initializer: Initializer,
        aggregator: Aggregator,
        *,
        on_close: bool = False,
        sends_old: bool = False,
    ) -> None:
        super().__init__(
            store_name, size_ms, grace_ms, initializer, aggregator, on_close=on_close, sends_old=sends_old
        )
        self.windows_for = windows_for

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            self.dropped()
            return
        if timestamp > self.observed:
            self.observed = timestamp
        close_time = self.observed - self.grace_ms
        store, size = self.store, self.size_ms
        for start in self.windows_for(timestamp):
            if start + size <= close_time:
                self.dropped(LATE)
                continue
            before = store.fetch(key, start)
            if before is None:
                old, newest = self.initializer(), timestamp
            else:
                old, newest = before.value, max(timestamp, before.timestamp)
            new = self.aggregator(key, value, old)
            store.put(key, start, new, newest)
            self.update(Windowed(key, start, store.end_of(start)), new, old, newest, headers)
        self.emit_closed(close_time, headers)

    def first_start_to_emit(self) -> int:
        return 0 if self.last_close == NO_TIME else max(0, self.last_close - self.size_ms) + 1

    def last_start_to_emit(self, close_time: int) -> int:
        return close_time - self.size_ms

    def has_new_windows(self, first: int, last: int) -> bool:
        return self.last_close == NO_TIME or self.windows_for(last) != self.windows_for(first - 1)


class WindowGetter:
    """Rows of a table of time windows."""

    __slots__ = ("_store",)
    is_versioned = False

    def __init__(self, store: WindowStore) -> None:
        self._store = store

    def get(self, key: Windowed) -> TimedValue | None:
        return self._store.fetch(key.key, key.start)

    def get_as_of(self, key: Windowed, timestamp: int) -> TimedValue | None:
        return self.get(key)
