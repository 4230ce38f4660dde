"""Stores by key and time, with a retention: windows of aggregates, records of stream-stream joins, sessions.

Invariant: a row with the time t is there until the store has seen a time ≥ t + retention. That time is the
store's own: the largest that was written to it, whichever key it had.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterator
from typing import Any

from moldau.streams.engine.records import NO_TIME, KeyBytes, TimedValue, Windowed, time_bytes
from moldau.streams.engine.stores.store import LATE, Entry, Store, require_key

#: Kafka keeps times in segments of at least this length, and refuses what belongs to one that is gone.
SMALLEST_SEGMENT_MS = 60_000


class TimedStore(Store):
    """Rows by key, each a dict from a time (and what else tells its parts apart) to a value; an index by
    time.
    """

    __slots__ = (
        "_by_time",
        "_emitted",
        "_observed",
        "_segment_ms",
        "_times",
        "is_time_first",
        "keeps_until_emitted",
        "retention_ms",
    )
    _rows: dict[Any, dict[Any, Any]]

    def __init__(
        self,
        name: str,
        key_bytes: KeyBytes,
        retention_ms: int,
        *,
        is_logged: bool = True,
        is_time_first: bool = False,
        keeps_until_emitted: bool = False,
    ) -> None:
        super().__init__(name, key_bytes, is_logged=is_logged)
        self.retention_ms = retention_ms
        #: Whether a row stays, retention or not, until it is known to be sent.
        self.keeps_until_emitted = keeps_until_emitted
        self._emitted = NO_TIME
        #: Whether rows are given by time and then by key, as results on window close need it.
        self.is_time_first = is_time_first
        self._segment_ms = max(retention_ms // 2, SMALLEST_SEGMENT_MS)
        self._observed = NO_TIME
        self._times: list[int] = []
        self._by_time: dict[int, set[Any]] = {}

    def _last_expired(self) -> int:
        """The largest time whose rows are gone."""
        last = self._last_beyond_retention()
        return min(last, self._emitted) if self.keeps_until_emitted else last

    def _last_beyond_retention(self) -> int:
        return self._observed - self.retention_ms

    def emitted_until(self, time: int) -> None:
        """What has this time, or an earlier one, was sent and may go."""
        if self.keeps_until_emitted:
            self._emitted = max(self._emitted, time)
            self._expire(self._last_expired())

    def _see(self, time: int) -> bool:
        """Takes a time into account; False where nothing may be written at it any more."""
        if time <= self._observed:
            if time < self._first_live_time():
                self.counters.drop(LATE)
                return False
            return time > self._last_expired()
        self._observed = time
        last = self._last_expired()
        if self._times and self._times[0] <= last:
            self._expire(last)
        return time > last

    def _first_live_time(self) -> int:
        """Where the oldest segment begins that Kafka would still have."""
        return max(0, self._observed - self.retention_ms) // self._segment_ms * self._segment_ms

    def _expire(self, limit: int) -> None:
        end = bisect_right(self._times, limit)
        for time in self._times[:end]:
            for key, part in self._by_time.pop(time):
                row = self._rows[key]
                del row[part]
                self._changed.add(key)
                if not row:
                    del self._rows[key]
        del self._times[:end]

    def _write(self, key: Any, time: int, part: Any, value: Any) -> None:
        self._changed.add(key)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = {}
        if part not in row:
            self._index(key, time, part)
        row[part] = value

    def _index(self, key: Any, time: int, part: Any) -> None:
        keys = self._by_time.get(time)
        if keys is None:
            keys = self._by_time[time] = set()
            if self._times and time < self._times[-1]:
                insort(self._times, time)
            else:
                self._times.append(time)
        keys.add((key, part))

    def _erase(self, key: Any, time: int, part: Any) -> None:
        row = self._rows.get(key)
        if row is None or part not in row:
            return
        self._changed.add(key)
        del row[part]
        if not row:
            del self._rows[key]
        keys = self._by_time[time]
        keys.discard((key, part))
        if not keys:
            del self._by_time[time]
            del self._times[bisect_left(self._times, time)]

    def _between(self, first: int, last: int) -> Iterator[tuple[int, Any, Any]]:
        """Time, key and part of what has a time from ``first`` to ``last``, by time."""
        for time in self._times[bisect_left(self._times, first) : bisect_right(self._times, last)]:
            for key, part in self._by_time[time]:
                yield time, key, part

    def saved(self, row: Any) -> Any:
        return dict(row)

    def taken_over(self, row: Any) -> Any:
        return dict(row)

    def numbers(self) -> tuple[int, ...]:
        return self._observed, self._emitted

    def restore_numbers(self, numbers: tuple[int, ...]) -> None:
        self._observed, self._emitted = numbers
        self._times, self._by_time = [], {}
        for key, row in self._rows.items():
            for part in row:
                time = self._time_of(part)
                self._by_time.setdefault(time, set()).add((key, part))
        self._times = sorted(self._by_time)

    def _time_of(self, part: Any) -> int:
        time: int = part
        return time


class WindowStore(TimedStore):
    """Aggregates by key and start of the window."""

    __slots__ = ("end_of",)

    def __init__(
        self,
        name: str,
        key_bytes: KeyBytes,
        retention_ms: int,
        end_of: Callable[[int], int],
        *,
        is_logged: bool = True,
        is_time_first: bool = False,
        keeps_until_emitted: bool = False,
    ) -> None:
        super().__init__(
            name,
            key_bytes,
            retention_ms,
            is_logged=is_logged,
            is_time_first=is_time_first,
            keeps_until_emitted=keeps_until_emitted,
        )
        self.end_of = end_of

    def _last_beyond_retention(self) -> int:
        # A store for results on window close keeps one more millisecond.
        return self._observed - self.retention_ms - self.is_time_first

    def fetch(self, key: Any, start: int) -> TimedValue | None:
        row = self._rows.get(key)
        return row.get(start) if row is not None else None

    def fetch_range(self, key: Any, first: int, last: int) -> list[tuple[int, TimedValue]]:
        """Starts and aggregates of a key, by start."""
        row = self._rows.get(key)
        if row is None:
            return []
        return sorted((start, row[start]) for start in row if first <= start <= last)

    def put(self, key: Any, start: int, value: Any, timestamp: int) -> None:
        if key is None:
            require_key(key)
        self.changelog_records += 1
        if not self._see(start):
            return
        if value is None:
            self._erase(key, start, start)
        else:
            self._write(key, start, start, TimedValue(value, timestamp))

    def fetch_all(self, first: int, last: int) -> list[Entry]:
        """Every window that starts from ``first`` to ``last``, by start and then by key."""
        found = sorted((start, self.key_bytes(key), key) for start, key, _ in self._between(first, last))
        return [self._entry(key, start) for start, _, key in found]

    def entries(self) -> Iterator[Entry]:
        found = [(key, start) for key, row in self._rows.items() for start in row]
        found.sort(key=lambda part: self._order(*part))
        return (self._entry(key, start) for key, start in found)

    def _entry(self, key: Any, start: int) -> Entry:
        aggregate = self._rows[key][start]
        return Entry(Windowed(key, start, self.end_of(start)), aggregate.value, aggregate.timestamp)

    def _order(self, key: Any, start: int) -> tuple[int, bytes]:
        if self.is_time_first:
            return start, self.key_bytes(key)
        return start // self._segment_ms, self.key_bytes(key) + time_bytes(start)


class SessionStore(TimedStore):
    """Aggregates by key and session; a session's time is its end.

    A store for results on window close gives ended sessions for as long as Kafka would have their segment,
    though to everybody else they are gone.
    """

    __slots__ = ()

    def _last_beyond_retention(self) -> int:
        return self._first_live_time() - 1 if self.is_time_first else super()._last_beyond_retention()

    def _is_visible(self, end: int) -> bool:
        return end > self._observed - self.retention_ms

    def find(self, key: Any, earliest_end: int, latest_start: int) -> list[tuple[int, int, Any]]:
        """Start, end and aggregate of the sessions of a key that end and start in these bounds, by end."""
        row = self._rows.get(key)
        if row is None:
            return []
        return [(*part, row[part]) for part in self.parts(row, earliest_end, latest_start)]

    def parts(
        self, row: Collection[tuple[int, int]], earliest_end: int, latest_start: int
    ) -> list[tuple[int, int]]:
        """Start and end of those sessions of a row that end and start in these bounds, by end."""
        earliest_end = max(earliest_end, self._observed - self.retention_ms + 1)
        found = [part for part in row if part[1] >= earliest_end and part[0] <= latest_start]
        if len(found) > 1:
            found.sort(key=_end_and_start)
        return found

    def fetch(self, key: Any, start: int, end: int) -> Any:
        row = self._rows.get(key)
        return row.get((start, end)) if row is not None and self._is_visible(end) else None

    def put(self, key: Any, start: int, end: int, value: Any) -> None:
        if key is None:
            require_key(key)
        self.changelog_records += 1
        if not self._see(end):
            return
        if value is None:
            self._erase(key, end, (start, end))
        else:
            self._write(key, end, (start, end), value)

    def remove(self, key: Any, start: int, end: int) -> None:
        self.changelog_records += 1
        self._erase(key, end, (start, end))

    def find_ended(self, first: int, last: int) -> list[Entry]:
        """Every session that ends from ``first`` to ``last``, by end."""
        found = [(key, *part) for _, key, part in self._between(first, last)]
        found.sort(key=lambda each: (each[2], each[1], self.key_bytes(each[0])))
        return [Entry(Windowed(*each), self._rows[each[0]][each[1:]]) for each in found]

    def entries(self) -> Iterator[Entry]:
        found = [
            Windowed(key, *part)
            for key, row in self._rows.items()
            for part in row
            if self._is_visible(part[1])
        ]
        found.sort(key=self._order)
        return (Entry(each, self._rows[each.key][each[1:]]) for each in found)

    def _order(self, session: Windowed) -> tuple[int, bytes]:
        key, start, end = session
        return end // self._segment_ms, self.key_bytes(key) + time_bytes(end) + time_bytes(start)

    def _time_of(self, part: Any) -> int:
        end: int = part[1]
        return end


def _end_and_start(part: tuple[int, int]) -> tuple[int, int]:
    return part[1], part[0]


class JoinStore(TimedStore):
    """The records of one side of a stream-stream join, by key and time; equal ones are all kept."""

    __slots__ = ()

    def put(self, key: Any, value: Any, timestamp: int) -> None:
        self.changelog_records += 1
        if value is not None and self._see(timestamp):
            row = self._rows.get(key)
            values = row.get(timestamp, ()) if row is not None else ()
            self._write(key, timestamp, timestamp, (*values, value))

    def fetch(self, key: Any, first: int, last: int) -> list[tuple[int, Any]]:
        """Time and value of the records of a key from ``first`` to ``last``, by time and as they came."""
        row = self._rows.get(key)
        if row is None:
            return []
        if len(row) == 1:
            ((time, values),) = row.items()
            return [(time, value) for value in values] if first <= time <= last else []
        return [(time, value) for time in sorted(t for t in row if first <= t <= last) for value in row[time]]

    def entries(self) -> Iterator[Entry]:
        for key in sorted(self._rows, key=self.key_bytes):
            row = self._rows[key]
            for time in sorted(row):
                yield from (Entry(Windowed(key, time, time), value) for value in row[time])
