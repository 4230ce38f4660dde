"""Aggregates by session: records of a key with no gap between them that is longer than the inactivity gap.

Invariant: sessions that a record joins are taken back one by one, then the merged session is sent. Updates
carry no headers, final results those of the record that closed the session.
"""

from collections.abc import Callable
from typing import Any

from moldau.streams.engine.aggregates import Aggregator, Initializer
from moldau.streams.engine.nodes import Node, TaskContext
from moldau.streams.engine.records import NO_TIME, Change, Headers, TimedValue, Windowed
from moldau.streams.engine.stores.store import LATE
from moldau.streams.engine.stores.windows import SessionStore

Merger = Callable[[Any, Any, Any], Any]


class SessionAggregate(Node):
    """``merger`` takes key and two aggregates."""

    __slots__ = (
        "aggregator",
        "gap_ms",
        "grace_ms",
        "initializer",
        "last_close",
        "merger",
        "observed",
        "on_close",
        "sends_old",
        "store",
        "store_name",
    )

    def __init__(
        self,
        store_name: str,
        gap_ms: int,
        grace_ms: int,
        initializer: Initializer,
        aggregator: Aggregator,
        merger: Merger,
        *,
        on_close: bool = False,
        sends_old: bool = False,
    ) -> None:
        super().__init__()
        self.store_name = store_name
        self.gap_ms = gap_ms
        self.grace_ms = grace_ms
        self.initializer = initializer
        self.aggregator = aggregator
        self.merger = merger
        self.on_close = on_close
        self.sends_old = sends_old
        self.observed = NO_TIME
        self.last_close = NO_TIME
        self.store: SessionStore

    def start(self, context: TaskContext) -> None:
        super().start(context)
        self.store = context.stores[self.store_name]  # type: ignore[assignment]

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            self.dropped()
            return
        if timestamp > self.observed:
            self.observed = timestamp
        close_time = self.observed - self.grace_ms - self.gap_ms
        sessions = self.store.find(key, timestamp - self.gap_ms, timestamp + self.gap_ms)
        start = end = timestamp
        aggregate = self.initializer()
        for other_start, other_end, other in sessions:
            aggregate = self.merger(key, aggregate, other)
            start, end = min(start, other_start), max(end, other_end)
        if end < close_time:
            self.dropped(LATE)
        else:
            if start != timestamp or end != timestamp:
                for other_start, other_end, other in sessions:
                    self.store.remove(key, other_start, other_end)
                    self._update(Windowed(key, other_start, other_end), None, other)
            aggregate = self.aggregator(key, value, aggregate)
            self.store.put(key, start, end, aggregate)
            self._update(Windowed(key, start, end), aggregate, None)
        self._emit_closed(close_time, headers)

    def _update(self, session: Windowed, new: Any, old: Any) -> None:
        if not self.on_close:
            self.forward(session, Change(new, old if self.sends_old else None), session.end, ())

    def _emit_closed(self, close_time: int, headers: Headers) -> None:
        if not self.on_close or (self.last_close != NO_TIME and self.last_close >= close_time):
            return
        first, last = max(0, self.last_close), close_time - 1
        if last < first:
            return
        for entry in self.store.find_ended(first, last):
            self.forward(entry.key, Change(entry.value), entry.key.end, headers)
        self.last_close = close_time
        self.store.emitted_until(last)

    def numbers(self) -> tuple[Any, ...]:
        return self.observed, self.last_close

    def restore_numbers(self, numbers: tuple[Any, ...]) -> None:
        self.observed, self.last_close = numbers


class SessionGetter:
    """Rows of a table of sessions."""

    __slots__ = ("_store",)
    is_versioned = False

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def get(self, key: Windowed) -> TimedValue | None:
        value = self._store.fetch(*key)
        return None if value is None else TimedValue(value, key.end)

    def get_as_of(self, key: Windowed, timestamp: int) -> TimedValue | None:
        return self.get(key)
