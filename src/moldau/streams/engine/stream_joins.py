"""Stream-stream joins: inner, left and outer, in a window of time.

Invariant: both sides share one stream time. A record without partner goes out when stream time has passed its
window plus grace, in the order of the unmatched store; what was remembered of that order decides, as in Kafka
Streams, when the store is looked at again.
"""

from collections.abc import Callable
from typing import Any

from moldau.streams.engine.nodes import Node, TaskContext
from moldau.streams.engine.records import NO_TIME, Headers
from moldau.streams.engine.stores.buffers import UnmatchedStore
from moldau.streams.engine.stores.windows import JoinStore

Joiner = Callable[[Any, Any, Any], Any]
#: A time after all others.
_NEVER = 2**63 - 1


class JoinTime:
    """What both sides of a join share: stream time, and a lower bound for times of unmatched records."""

    __slots__ = ("first_unmatched", "stream_time")

    def __init__(self) -> None:
        self.stream_time = NO_TIME
        self.first_unmatched = _NEVER


class JoinWindow(Node):
    """Remembers the records of one side for the other."""

    __slots__ = ("store", "store_name")

    def __init__(self, store_name: str) -> None:
        super().__init__()
        self.store_name = store_name
        self.store: JoinStore

    def start(self, context: TaskContext) -> None:
        super().start(context)
        self.store = context.stores[self.store_name]  # type: ignore[assignment]

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is not None:
            self.store.put(key, value, timestamp)
        self.forward(key, value, timestamp, headers)


class StreamJoin(Node):
    """One side of a join. ``joiner`` takes key, left value and right value."""

    __slots__ = (
        "after_ms",
        "before_ms",
        "grace_ms",
        "is_left",
        "is_outer",
        "is_plain",
        "joiner",
        "other_after_ms",
        "other_store",
        "other_store_name",
        "shared_name",
        "time",
        "unmatched",
        "unmatched_name",
    )

    def __init__(
        self,
        shared_name: str,
        other_store_name: str,
        unmatched_name: str | None,
        joiner: Joiner,
        *,
        is_left: bool,
        is_outer: bool,
        before_ms: int,
        after_ms: int,
        grace_ms: int,
        is_plain: bool = False,
    ) -> None:
        super().__init__()
        #: Whether unmatched records always go out as soon as they may, which Kafka Streams misses at times.
        self.is_plain = is_plain
        #: By which the two sides find their common time.
        self.shared_name = shared_name
        self.other_store_name = other_store_name
        self.unmatched_name = unmatched_name
        self.joiner = joiner
        self.is_left = is_left
        self.is_outer = is_outer
        #: How far the other side's records may be before and after this side's.
        self.before_ms = before_ms if is_left else after_ms
        self.after_ms = after_ms if is_left else before_ms
        self.other_after_ms = self.before_ms
        self.grace_ms = grace_ms
        self.time: JoinTime
        self.other_store: JoinStore
        self.unmatched: UnmatchedStore | None = None

    def start(self, context: TaskContext) -> None:
        super().start(context)
        self.time = context.shared.setdefault(self.shared_name, JoinTime())
        self.other_store = context.stores[self.other_store_name]  # type: ignore[assignment]
        if self.unmatched_name is not None:
            self.unmatched = context.stores[self.unmatched_name]  # type: ignore[assignment]

    def _join(self, key: Any, this: Any, other: Any) -> Any:
        return self.joiner(key, this, other) if self.is_left else self.joiner(key, other, this)

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        time = self.time
        if timestamp > time.stream_time:
            time.stream_time = timestamp
        if key is None and value is not None and self.is_outer:
            self.forward(key, self._join(key, value, None), timestamp, headers)
            return
        if key is None or value is None:
            self.dropped()
            return
        unmatched = self.unmatched
        if unmatched is not None and timestamp == time.stream_time:
            self._emit_unmatched(unmatched, headers)
        last = max(0, timestamp + self.after_ms)
        others = self.other_store.fetch(key, max(0, timestamp - self.before_ms), last)
        for other_timestamp, other in others:
            if unmatched is not None:
                unmatched.remove(other_timestamp, not self.is_left, key)
            joined = self._join(key, value, other)
            self.forward(key, joined, max(timestamp, other_timestamp), headers)
        if self.is_outer and not others:
            if unmatched is None or last < time.stream_time:
                self.forward(key, self._join(key, value, None), timestamp, headers)
            else:
                time.first_unmatched = min(time.first_unmatched, timestamp)
                unmatched.put(timestamp, self.is_left, key, value)

    def _emit_unmatched(self, unmatched: UnmatchedStore, headers: Headers) -> None:
        time = self.time
        after = min(self.after_ms, self.other_after_ms) if self.is_plain else self.after_ms
        if time.first_unmatched + after + self.grace_ms >= time.stream_time:
            return
        time.first_unmatched = _NEVER
        open_sides: set[bool] = set()
        done: list[tuple[int, bool, Any]] = []
        for timestamp, is_left, key, value in unmatched.waiting():
            if not self.is_plain:
                time.first_unmatched = timestamp
            if len(open_sides) == 2:
                break
            after = self.after_ms if is_left is self.is_left else self.other_after_ms
            if timestamp + after + self.grace_ms >= time.stream_time:
                open_sides.add(is_left)
                if self.is_plain:
                    time.first_unmatched = min(time.first_unmatched, timestamp)
                continue
            left, right = (value, None) if is_left else (None, value)
            self.forward(key, self.joiner(key, left, right), timestamp, headers)
            if not done or done[-1] != (timestamp, is_left, key):
                done.append((timestamp, is_left, key))
        for place in done:
            unmatched.remove(*place)

    def numbers(self) -> tuple[Any, ...]:
        return self.time.stream_time, self.time.first_unmatched

    def restore_numbers(self, numbers: tuple[Any, ...]) -> None:
        self.time.stream_time, self.time.first_unmatched = numbers


class SelfJoin(Node):
    """A stream joined with itself over one store: a record with the others, the others with it, and itself.

    The results are those of the two sides of a join, in their order.
    """

    __slots__ = ("after_ms", "before_ms", "joiner", "retention_ms", "store", "store_name", "stream_time")

    def __init__(
        self, store_name: str, joiner: Joiner, *, before_ms: int, after_ms: int, grace_ms: int
    ) -> None:
        super().__init__()
        self.stream_time = NO_TIME
        self.retention_ms = before_ms + after_ms + grace_ms
        self.store_name = store_name
        self.joiner = joiner
        self.before_ms = before_ms
        self.after_ms = after_ms
        self.store: JoinStore

    def start(self, context: TaskContext) -> None:
        super().start(context)
        self.store = context.stores[self.store_name]  # type: ignore[assignment]

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            self.dropped()
            return
        if timestamp > self.stream_time:
            self.stream_time = timestamp
        # Kafka does not join a record with itself a millisecond before its store would forget it.
        joins_itself = timestamp > self.stream_time - self.retention_ms + 1
        found = self.store.fetch(key, max(0, timestamp - self.before_ms), max(0, timestamp + self.after_ms))
        own = _own(found, timestamp)
        for at, (other_timestamp, other) in enumerate(found):
            if at != own:
                joined = self.joiner(key, value, other)
                self.forward(key, joined, max(timestamp, other_timestamp), headers)
        first, last = max(0, timestamp - self.after_ms), max(0, timestamp + self.before_ms)
        found = self.store.fetch(key, first, last)
        own = _own(found, timestamp)
        for at, (other_timestamp, other) in enumerate(found):
            if at != own or joins_itself:
                joined = self.joiner(key, other, value)
                self.forward(key, joined, max(timestamp, other_timestamp), headers)

    def numbers(self) -> tuple[Any, ...]:
        return (self.stream_time,)

    def restore_numbers(self, numbers: tuple[Any, ...]) -> None:
        (self.stream_time,) = numbers


def _own(found: list[tuple[int, Any]], timestamp: int) -> int | None:
    """Where the record itself is: it was stored last of all with its timestamp."""
    return max((at for at, (time, _) in enumerate(found) if time == timestamp), default=None)
