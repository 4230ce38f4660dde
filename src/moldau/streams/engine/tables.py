"""Operators on tables: the table of a topic, filter, map_values, grouping, aggregates with adder and
subtractor.

Invariant: a change carries the old value exactly when somebody downstream asked for it (``sends_old``), so
that what need not be remembered is not.
"""

from collections.abc import Callable
from typing import Any, Protocol

from moldau.streams.engine.nodes import Node, TaskContext
from moldau.streams.engine.records import Change, Headers, TimedValue
from moldau.streams.engine.stores.tables import Put, TableStore
from moldau.streams.errors import StreamsError


class Getter(Protocol):
    """How a join reads a row of a table that may have no store of its own."""

    is_versioned: bool

    def get(self, key: Any) -> TimedValue | None: ...

    def get_as_of(self, key: Any, timestamp: int) -> TimedValue | None: ...


class TableNode(Node):
    """A table's operator with or without a store."""

    __slots__ = ("sends_old", "store", "store_name")

    def __init__(self, store_name: str | None, *, sends_old: bool = False) -> None:
        super().__init__()
        self.store_name = store_name
        self.sends_old = sends_old
        self.store: TableStore | None = None

    def start(self, context: TaskContext) -> None:
        super().start(context)
        if self.store_name is not None:
            self.store = context.stores[self.store_name]  # type: ignore[assignment]

    def keep_and_forward(self, key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
        """Writes to the store and hands on what the store took."""
        assert self.store is not None
        put = self.store.put(key, new, timestamp)
        if put is not Put.REFUSED:
            change = Change(new, old if self.sends_old else None, put is Put.LATEST)
            self.forward(key, change, timestamp, headers)


class TableSource(TableNode):
    """A stream of updates becomes a table."""

    __slots__ = ()

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            self.dropped()
            return
        if self.store is None:
            self.forward(key, Change(value), timestamp, headers)
            return
        before = self.store.get(key)
        self.keep_and_forward(key, value, before.value if before else None, timestamp, headers)


class GlobalTableSource(Node):
    """Takes every record of a topic into the store of a global table; nothing follows."""

    __slots__ = ("store", "store_name")

    def __init__(self, store_name: str) -> None:
        super().__init__()
        self.store_name = store_name
        self.store: TableStore

    def start(self, context: TaskContext) -> None:
        super().start(context)
        self.store = context.stores[self.store_name]  # type: ignore[assignment]

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            self.dropped()
            return
        self.store.put(key, value, timestamp)


class TableFilter(TableNode):
    """Rows that match. One that stops matching is deleted; one that never did is not spoken of, if that is
    known.
    """

    __slots__ = ("has_versioned_input", "keep", "predicate")

    def __init__(
        self,
        store_name: str | None,
        predicate: Callable[[Any, Any], Any],
        *,
        keep: bool = True,
        sends_old: bool = False,
        has_versioned_input: bool = False,
    ) -> None:
        super().__init__(store_name, sends_old=sends_old)
        self.predicate = predicate
        self.keep = keep
        self.has_versioned_input = has_versioned_input

    def _matching(self, key: Any, value: Any) -> Any:
        if value is not None and bool(self.predicate(key, value)) is self.keep:
            return value
        return None

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        new = self._matching(key, value.new)
        if self.store is not None:
            before = self.store.get(key)
            old = before.value if before else None
        else:
            old = self._matching(key, value.old) if self.sends_old else None
        if self.sends_old and old is None and new is None and not self.has_versioned_input:
            return
        if self.store is not None:
            self.keep_and_forward(key, new, old, timestamp, headers)
        else:
            self.forward(key, Change(new, old, value.is_latest), timestamp, headers)


class TableMapValues(TableNode):
    __slots__ = ("function",)

    def __init__(
        self, store_name: str | None, function: Callable[[Any, Any], Any], *, sends_old: bool = False
    ) -> None:
        super().__init__(store_name, sends_old=sends_old)
        self.function = function

    def _mapped(self, key: Any, value: Any) -> Any:
        return None if value is None else self.function(key, value)

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        new = self._mapped(key, value.new)
        if self.store is not None:
            before = self.store.get(key) if self.sends_old else None
            self.keep_and_forward(key, new, before.value if before else None, timestamp, headers)
        else:
            old = self._mapped(key, value.old) if self.sends_old else None
            self.forward(key, Change(new, old, value.is_latest), timestamp, headers)


class TableGroupBy(Node):
    """Sends the old row to its group to be subtracted and the new one to be added; once where both groups
    agree.
    """

    __slots__ = ("function", "has_versioned_input")

    def __init__(
        self, function: Callable[[Any, Any], tuple[Any, Any]], *, has_versioned_input: bool = False
    ) -> None:
        super().__init__()
        self.function = function
        self.has_versioned_input = has_versioned_input

    def _grouped(self, key: Any, value: Any) -> tuple[Any, Any] | None:
        if value is None:
            return None
        group, selected = self.function(key, value)
        return None if group is None or selected is None else (group, selected)

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            raise StreamsError("Record key for the grouping KTable should not be null.")
        if self.has_versioned_input and not value.is_latest:
            return
        new, old = self._grouped(key, value.new), self._grouped(key, value.old)
        latest = value.is_latest
        if old is not None and new is not None and old[0] == new[0]:
            self.forward(new[0], Change(new[1], old[1], latest), timestamp, headers)
            return
        if old is not None:
            self.forward(old[0], Change(None, old[1], latest), timestamp, headers)
        if new is not None:
            self.forward(new[0], Change(new[1], None, latest), timestamp, headers)


class TableAggregate(TableNode):
    """``adder`` and ``subtractor`` take key, value and aggregate."""

    __slots__ = ("adder", "initializer", "subtractor")

    def __init__(
        self,
        store_name: str,
        initializer: Callable[[], Any],
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
        *,
        sends_old: bool = False,
    ) -> None:
        super().__init__(store_name, sends_old=sends_old)
        self.initializer = initializer
        self.adder = adder
        self.subtractor = subtractor

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            raise StreamsError(
                f"Record key for KTable aggregate operator with state {self.store_name} should not be null."
            )
        assert self.store is not None
        before = self.store.get(key)
        old = aggregate = before.value if before else None
        if value.old is not None and before is not None:
            aggregate = self.subtractor(key, value.old, aggregate)
            timestamp = max(timestamp, before.timestamp)
        if value.new is not None:
            if aggregate is None:
                aggregate = self.initializer()
            aggregate = self.adder(key, value.new, aggregate)
            if before is not None:
                timestamp = max(timestamp, before.timestamp)
        self.keep_and_forward(key, aggregate, old, timestamp, headers)


class TableReduce(TableNode):
    """``adder`` and ``subtractor`` take the reduced value so far and a value."""

    __slots__ = ("adder", "subtractor")

    def __init__(
        self,
        store_name: str,
        adder: Callable[[Any, Any], Any],
        subtractor: Callable[[Any, Any], Any],
        *,
        sends_old: bool = False,
    ) -> None:
        super().__init__(store_name, sends_old=sends_old)
        self.adder = adder
        self.subtractor = subtractor

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            raise StreamsError(
                f"Record key for KTable reduce operator with state {self.store_name} should not be null."
            )
        assert self.store is not None
        before = self.store.get(key)
        old = reduced = before.value if before else None
        if value.old is not None and before is not None:
            reduced = self.subtractor(reduced, value.old)
            timestamp = max(timestamp, before.timestamp)
        if value.new is not None:
            if reduced is None:
                reduced = value.new
            else:
                assert before is not None
                reduced = self.adder(reduced, value.new)
                timestamp = max(timestamp, before.timestamp)
        self.keep_and_forward(key, reduced, old, timestamp, headers)


class FilterGetter:
    """Rows of a filtered table that has no store."""

    __slots__ = ("_keep", "_parent", "_predicate", "is_versioned")

    def __init__(self, parent: Getter, predicate: Callable[[Any, Any], Any], keep: bool) -> None:
        self._parent = parent
        self._predicate = predicate
        self._keep = keep
        self.is_versioned = parent.is_versioned

    def _matching(self, key: Any, row: TimedValue | None) -> TimedValue | None:
        return row if row is not None and bool(self._predicate(key, row.value)) is self._keep else None

    def get(self, key: Any) -> TimedValue | None:
        return self._matching(key, self._parent.get(key))

    def get_as_of(self, key: Any, timestamp: int) -> TimedValue | None:
        return self._matching(key, self._parent.get_as_of(key, timestamp))


class MapGetter:
    """Rows of a mapped table that has no store."""

    __slots__ = ("_function", "_parent", "is_versioned")

    def __init__(self, parent: Getter, function: Callable[[Any, Any], Any]) -> None:
        self._parent = parent
        self._function = function
        self.is_versioned = parent.is_versioned

    def _mapped(self, key: Any, row: TimedValue | None) -> TimedValue | None:
        if row is None:
            return None
        value = self._function(key, row.value)
        return None if value is None else TimedValue(value, row.timestamp)

    def get(self, key: Any) -> TimedValue | None:
        return self._mapped(key, self._parent.get(key))

    def get_as_of(self, key: Any, timestamp: int) -> TimedValue | None:
        return self._mapped(key, self._parent.get_as_of(key, timestamp))
