"""What all stores have: a name, rows that are saved and taken over, a count of what their changelog would
get.

Invariant: a row is saved whole and at most once per batch, however often it changed.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from moldau.streams.engine.records import KeyBytes
from moldau.streams.errors import NullKeyError


class Entry(NamedTuple):
    """One row as a reader of the store sees it. Stores of sessions and of processors keep no timestamps."""

    key: Any
    value: Any
    timestamp: int | None = None


class StoreState(NamedTuple):
    """Rows of a store (None where one went away), and its numbers."""

    rows: dict[Any, Any]
    numbers: tuple[int, ...]


#: Why records are dropped.
NO_KEY_OR_VALUE = "no-key-or-value"
LATE = "late"
OUTDATED = "outdated"
NEGATIVE_TIME = "no-time"
UNDECODABLE = "undecodable"
FAILED = "failed"


class Counters:
    """What a task counts while it runs."""

    __slots__ = ("dropped", "reasons")

    def __init__(self) -> None:
        self.dropped = 0
        #: How many of them for which reason.
        self.reasons: dict[str, int] = {}

    def drop(self, reason: str, count: int = 1) -> None:
        if count:
            self.dropped += count
            self.reasons[reason] = self.reasons.get(reason, 0) + count


class Store:
    """The base of all stores. Subclasses keep ``_rows`` and add to ``_changed`` whatever they touch."""

    __slots__ = ("_changed", "_rows", "changelog_records", "counters", "is_logged", "key_bytes", "name")

    def __init__(self, name: str, key_bytes: KeyBytes, *, is_logged: bool = True) -> None:
        self.name = name
        self.key_bytes = key_bytes
        #: Whether changes would go to a changelog topic: not those of global tables, say.
        self.is_logged = is_logged
        self.changelog_records = 0
        self.counters = Counters()
        self._rows: dict[Any, Any] = {}
        self._changed: set[Any] = set()

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, key: Any) -> Any:
        """A row as the store keeps it, None where there is none; for those who look from outside."""
        return self._rows.get(key)

    def entries(self) -> Iterator[Entry]:
        """Every row, in the order in which Kafka's store would give them."""
        raise NotImplementedError

    # --- saving and taking over ---------------------------------------------------------------------

    def export(self) -> StoreState:
        return StoreState({key: self.saved(row) for key, row in self._rows.items()}, self.numbers())

    def take_changes(self) -> StoreState:
        """The rows that changed since the last call; None for those that are gone."""
        rows = self._rows
        changes = {key: self.saved(rows[key]) if key in rows else None for key in self._changed}
        self._changed = set()
        return StoreState(changes, self.numbers())

    def restore(self, state: StoreState) -> None:
        for key, row in state.rows.items():
            if row is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = self.taken_over(row)
        self.restore_numbers(state.numbers)
        self._changed = set()

    def saved(self, row: Any) -> Any:
        """A row as a value that later changes do not reach."""
        return row

    def taken_over(self, row: Any) -> Any:
        return row

    def numbers(self) -> tuple[int, ...]:
        return ()

    def restore_numbers(self, numbers: tuple[int, ...]) -> None:
        """Takes over what ``numbers`` gave."""

    def committed(self) -> None:
        """A record is finished: what is logged once per record is counted here."""


def merged(state: StoreState, changes: StoreState) -> StoreState:
    """The state after changes: what a runner that saves changes has in the end."""
    rows: dict[Any, Any] = dict(state.rows)
    for key, row in changes.rows.items():
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row
    return StoreState(rows, changes.numbers)


def require_key(key: Any) -> None:
    if key is None:
        raise NullKeyError
