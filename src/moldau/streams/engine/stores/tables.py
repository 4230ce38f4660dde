"""Stores of tables: the last value for each key, or a history of values.

Invariant: ``put`` says whether the change is the newest of its key, older, or refused; only a table with a
history ever gives other answers than "newest".
"""

from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from moldau.streams.engine.records import NO_TIME, KeyBytes, TimedValue
from moldau.streams.engine.stores.store import LATE, Entry, Store, require_key


class Put(IntEnum):
    REFUSED = -1
    OLDER = 0
    LATEST = 1


class TableStore(Store):
    """The last value for each key, with its timestamp."""

    __slots__ = ()
    is_versioned = False
    _rows: dict[Any, TimedValue]

    def get(self, key: Any) -> TimedValue | None:
        if key is None:
            require_key(key)
        return self._rows.get(key)

    def get_as_of(self, key: Any, timestamp: int) -> TimedValue | None:
        return self.get(key)

    def put(self, key: Any, value: Any, timestamp: int) -> Put:
        if key is None:
            require_key(key)
        self.changelog_records += 1
        self._changed.add(key)
        if value is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = TimedValue(value, timestamp)
        return Put.LATEST

    def entries(self) -> Iterator[Entry]:
        for key in sorted(self._rows, key=self.key_bytes):
            yield Entry(key, *self._rows[key])

    def saved(self, row: Any) -> Any:
        """A plain tuple: a third of the bytes in a topic, and much less work, for a million rows."""
        return tuple(row)

    def taken_over(self, row: Any) -> Any:
        return TimedValue(*row)


class VersionedStore(TableStore):
    """A history of values for each key: a row is a list of versions by time, None where it was deleted."""

    __slots__ = ("_observed", "history_ms")
    is_versioned = True

    def __init__(self, name: str, key_bytes: KeyBytes, history_ms: int, *, is_logged: bool = True) -> None:
        super().__init__(name, key_bytes, is_logged=is_logged)
        self.history_ms = history_ms
        self._observed = NO_TIME

    def get(self, key: Any) -> TimedValue | None:
        require_key(key)
        versions = self._versions(key)
        return versions[-1] if versions and versions[-1].value is not None else None

    def get_as_of(self, key: Any, timestamp: int) -> TimedValue | None:
        """The version that was valid at a time. The last version of a key never expires."""
        require_key(key)
        versions = self._versions(key)
        if not versions:
            return None
        if versions[-1].timestamp <= timestamp:
            found = versions[-1]
        elif timestamp < self._observed - self.history_ms:
            return None
        else:
            at = bisect_right(versions, timestamp, key=_version_time) - 1
            if at < 0:
                return None
            found = versions[at]
        return found if found.value is not None else None

    def put(self, key: Any, value: Any, timestamp: int) -> Put:
        require_key(key)
        self.changelog_records += 1
        self._observed = max(self._observed, timestamp)
        if timestamp < self._observed - self.history_ms:
            self.counters.drop(LATE)
            return Put.REFUSED
        self._changed.add(key)
        versions = self._versions(key)
        self._rows[key] = versions  # type: ignore[assignment]
        at = bisect_right(versions, timestamp, key=_version_time)
        is_latest = at == len(versions)
        if at and versions[at - 1].timestamp == timestamp:
            versions[at - 1] = TimedValue(value, timestamp)
        else:
            versions.insert(at, TimedValue(value, timestamp))
        self._forget(versions)
        return Put.LATEST if is_latest else Put.OLDER

    def _versions(self, key: Any) -> list[TimedValue]:
        return self._rows.get(key, [])  # type: ignore[return-value]

    def _forget(self, versions: list[TimedValue]) -> None:
        """Drops versions that nobody can ask for any more: those replaced before the history begins."""
        limit = self._observed - self.history_ms
        stale = 0
        while stale + 1 < len(versions) and versions[stale + 1].timestamp <= limit:
            stale += 1
        del versions[:stale]

    def entries(self) -> Iterator[Entry]:
        for key in sorted(self._rows, key=self.key_bytes):
            last = self.get(key)
            if last is not None:
                yield Entry(key, *last)

    def saved(self, row: Any) -> Any:
        return tuple(row)

    def taken_over(self, row: Any) -> Any:
        return list(row)

    def numbers(self) -> tuple[int, ...]:
        return (self._observed,)

    def restore_numbers(self, numbers: tuple[int, ...]) -> None:
        (self._observed,) = numbers


def _version_time(version: TimedValue) -> int:
    return version.timestamp


class KeyValueStore(Store):
    """What a processor of the program itself keeps: values by key, without timestamps."""

    __slots__ = ()

    def get(self, key: Any) -> Any:
        require_key(key)
        return self._rows.get(key)

    def put(self, key: Any, value: Any) -> None:
        require_key(key)
        self.changelog_records += 1
        self._changed.add(key)
        if value is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = value

    def put_if_absent(self, key: Any, value: Any) -> Any:
        before = self.get(key)
        if before is None:
            self.put(key, value)
        return before

    def delete(self, key: Any) -> Any:
        before = self.get(key)
        self.put(key, None)
        return before

    def all(self) -> Iterator[tuple[Any, Any]]:
        """Keys and values in the order of the keys; the store may be changed meanwhile."""
        rows = sorted(self._rows.items(), key=lambda row: self.key_bytes(row[0]))
        return iter(rows)

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        """From ``first`` to ``last``, both included; None is open."""
        low = None if first is None else self.key_bytes(first)
        high = None if last is None else self.key_bytes(last)
        for key, value in self.all():
            at = self.key_bytes(key)
            if (low is None or at >= low) and (high is None or at <= high):
                yield key, value

    def approximate_num_entries(self) -> int:
        return len(self._rows)

    def entries(self) -> Iterator[Entry]:
        return (Entry(key, value) for key, value in self.all())
