"""Aggregates of a grouped stream, for all time: count, reduce, aggregate.

Invariant: records without key or value are skipped and counted as dropped. A result has the largest timestamp
that its key has seen.
"""

from collections.abc import Callable
from typing import Any

from moldau.streams.engine.records import Headers
from moldau.streams.engine.tables import TableNode

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]
Reducer = Callable[[Any, Any], Any]


def no_records() -> int:
    return 0


def one_more(key: Any, value: Any, count: int) -> int:
    """The aggregator of ``count``."""
    return count + 1


#: A loop over columns knows it by this.
one_more.is_count = True  # type: ignore[attr-defined]


class StreamAggregate(TableNode):
    """``aggregator`` takes key, value and aggregate. The first old value is the initializer's, as Kafka has
    it.
    """

    __slots__ = ("aggregator", "initializer")

    def __init__(
        self, store_name: str, initializer: Initializer, aggregator: Aggregator, *, sends_old: bool = False
    ) -> None:
        super().__init__(store_name, sends_old=sends_old)
        self.initializer = initializer
        self.aggregator = aggregator

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            self.dropped()
            return
        assert self.store is not None
        before = self.store.get(key)
        if before is None:
            old = self.initializer()
        else:
            old = before.value
            if before.timestamp > timestamp:
                timestamp = before.timestamp
        self.keep_and_forward(key, self.aggregator(key, value, old), old, timestamp, headers)


class StreamReduce(TableNode):
    __slots__ = ("reducer",)

    def __init__(self, store_name: str, reducer: Reducer, *, sends_old: bool = False) -> None:
        super().__init__(store_name, sends_old=sends_old)
        self.reducer = reducer

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            self.dropped()
            return
        assert self.store is not None
        before = self.store.get(key)
        if before is None:
            self.keep_and_forward(key, value, None, timestamp, headers)
            return
        old = before.value
        if before.timestamp > timestamp:
            timestamp = before.timestamp
        self.keep_and_forward(key, self.reducer(old, value), old, timestamp, headers)


class TablePassThrough(TableNode):
    """Where the aggregates of a cogroup come together again; they have written to the store already."""

    __slots__ = ()

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        self.forward(key, value, timestamp, headers)
