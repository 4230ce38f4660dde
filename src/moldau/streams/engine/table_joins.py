"""Joins with tables: stream-table (plain, versioned, with grace), stream-global table, and table-table.

Invariant: only the stream side of a stream-table join causes results; of two tables either side does, and a
result has the larger timestamp of the two rows.
"""

from collections.abc import Callable
from typing import Any

from moldau.streams.engine.nodes import Node, TaskContext
from moldau.streams.engine.records import NO_TIME, Change, Headers, TimedValue
from moldau.streams.engine.stores.buffers import GraceBuffer, WaitingRecord
from moldau.streams.engine.stores.store import NO_KEY_OR_VALUE, OUTDATED, Store, require_key
from moldau.streams.engine.tables import Getter, TableNode

Joiner = Callable[[Any, Any, Any], Any]
MakeGetter = Callable[[dict[str, Store]], Getter]


class StreamTableJoin(Node):
    """``joiner`` takes the stream's key, its value and the row's value or None."""

    __slots__ = (
        "buffer",
        "buffer_name",
        "getter",
        "grace_ms",
        "is_left",
        "joiner",
        "make_getter",
        "observed",
        "select_key",
    )

    def __init__(
        self,
        make_getter: MakeGetter,
        joiner: Joiner,
        *,
        is_left: bool,
        select_key: Callable[[Any, Any], Any] | None = None,
        buffer_name: str | None = None,
        grace_ms: int = 0,
    ) -> None:
        super().__init__()
        self.make_getter = make_getter
        self.joiner = joiner
        self.is_left = is_left
        #: Of joins with a global table: which row a record belongs to.
        self.select_key = select_key
        self.buffer_name = buffer_name
        self.grace_ms = grace_ms
        self.observed = NO_TIME
        self.getter: Getter
        self.buffer: GraceBuffer | None = None

    def start(self, context: TaskContext) -> None:
        super().start(context)
        self.getter = self.make_getter(context.stores)
        if self.buffer_name is not None:
            self.buffer = context.stores[self.buffer_name]  # type: ignore[assignment]

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if timestamp > self.observed:
            self.observed = timestamp
        row_key = key if self.select_key is None else self.select_key(key, value)
        if value is None or (row_key is None and not self.is_left):
            self.dropped()
            return
        if self.buffer is None:
            self._join(key, row_key, value, timestamp, headers)
            return
        require_key(row_key)
        limit = self.observed - self.grace_ms
        if timestamp < limit:
            self._join(key, row_key, value, timestamp, headers)
        else:
            self.buffer.put(WaitingRecord(key, value, timestamp, headers))
        for record in self.buffer.pop_until(limit):
            self._join(record.key, record.key, record.value, record.timestamp, record.headers)

    def _join(self, key: Any, row_key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if row_key is None:
            row = None
        elif self.getter.is_versioned:
            row = self.getter.get_as_of(row_key, timestamp)
        else:
            row = self.getter.get(row_key)
        if row is not None or self.is_left:
            joined = self.joiner(key, value, row.value if row is not None else None)
            self.forward(key, joined, timestamp, headers)

    def numbers(self) -> tuple[Any, ...]:
        return (self.observed,)

    def restore_numbers(self, numbers: tuple[Any, ...]) -> None:
        (self.observed,) = numbers


class TableJoin(Node):
    """One side of a table-table join. ``joiner`` takes key, left value and right value, either may be None.

    A result needs a row here unless ``without_this``, and one there unless ``without_other``.
    """

    __slots__ = (
        "getter",
        "has_versioned_input",
        "is_left",
        "joiner",
        "joins_itself",
        "make_getter",
        "sends_old",
        "without_other",
        "without_this",
    )

    def __init__(
        self,
        make_getter: MakeGetter,
        joiner: Joiner,
        *,
        is_left: bool,
        without_this: bool,
        without_other: bool,
        sends_old: bool = False,
        has_versioned_input: bool = False,
        joins_itself: bool = False,
    ) -> None:
        super().__init__()
        #: Whether both sides are one table, and a change is to be joined once, with itself.
        self.joins_itself = joins_itself
        self.make_getter = make_getter
        self.joiner = joiner
        self.is_left = is_left
        self.without_this = without_this
        self.without_other = without_other
        self.sends_old = sends_old
        self.has_versioned_input = has_versioned_input
        self.getter: Getter

    def start(self, context: TaskContext) -> None:
        super().start(context)
        self.getter = self.make_getter(context.stores)

    def _joined(self, key: Any, this: Any, other: Any) -> Any:
        if (this is None and not self.without_this) or (this is None and other is None):
            return None
        return self.joiner(key, this, other) if self.is_left else self.joiner(key, other, this)

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or (self.has_versioned_input and not value.is_latest):
            self.dropped(NO_KEY_OR_VALUE if key is None else OUTDATED)
            return
        if self.joins_itself:
            self._join_itself(key, value, timestamp, headers)
            return
        row = self.getter.get(key)
        other = row.value if row is not None else None
        if row is None and (not self.without_other or (value.new is None and value.old is None)):
            return
        if row is not None and row.timestamp > timestamp:
            timestamp = row.timestamp
        new = self._joined(key, value.new, other)
        old = self._joined(key, value.old, other) if self.sends_old else None
        self.forward(key, Change(new, old, value.is_latest), timestamp, headers)

    def _join_itself(self, key: Any, change: Change, timestamp: int, headers: Headers) -> None:
        if self.is_left and (change.new is not None or change.old is not None):
            new, old = (
                None if value is None else self.joiner(key, value, value)
                for value in (change.new, change.old)
            )
            joined = Change(new, old if self.sends_old else None, change.is_latest)
            self.forward(key, joined, timestamp, headers)


class TableJoinMerge(TableNode):
    """Where the two sides of a table-table join come together, with the store of the result if it has one."""

    __slots__ = ()

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if self.store is None:
            self.forward(key, value, timestamp, headers)
        else:
            self.keep_and_forward(key, value.new, value.old, timestamp, headers)


class JoinGetter:
    """Rows of a table-table join that has no store."""

    __slots__ = ("_joiner", "_left", "_right", "_without_left", "_without_right", "is_versioned")

    def __init__(
        self, left: Getter, right: Getter, joiner: Joiner, *, without_left: bool, without_right: bool
    ) -> None:
        self._left = left
        self._right = right
        self._joiner = joiner
        self._without_left = without_left
        self._without_right = without_right
        self.is_versioned = False

    def get(self, key: Any) -> TimedValue | None:
        left, right = self._left.get(key), self._right.get(key)
        if (left is None and not self._without_left) or (right is None and not self._without_right):
            return None
        if left is None and right is None:
            return None
        joined = self._joiner(key, left.value if left else None, right.value if right else None)
        newest = max(row.timestamp for row in (left, right) if row is not None)
        return None if joined is None else TimedValue(joined, newest)

    def get_as_of(self, key: Any, timestamp: int) -> TimedValue | None:
        return self.get(key)
