"""What measures: histograms that forget, rates that decay, and the same numbers as a snapshot to read.

Values are counted in buckets that are 3 to 6 per cent wide, so a percentile is off by at most about 3 per
cent; count, sum, least and greatest value are exact. Percentiles are of the last five minutes, in windows
of one.

Invariant: recording allocates nothing but a bucket that was empty before, and never looks at the time itself.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: The percentiles that Kafka's histograms show, by the name of the attribute.
PERCENTILES: Mapping[str, float] = {
    "50thPercentile": 0.5,
    "75thPercentile": 0.75,
    "95thPercentile": 0.95,
    "98thPercentile": 0.98,
    "99thPercentile": 0.99,
    "999thPercentile": 0.999,
}
WINDOW_SECONDS = 60.0
_WINDOWS = 5
#: Buckets between a power of two and the next one.
_PER_OCTAVE = 16
#: The rates of Kafka's meters: decayed over so many minutes, stepped every five seconds.
MINUTES = (1, 5, 15)
TICK_SECONDS = 5.0


def bucket_of(value: float) -> int:
    """The bucket of a value that is greater than nought; -infinity has none, nought goes without."""
    mantissa, exponent = math.frexp(value)
    return exponent * _PER_OCTAVE + int((mantissa - 0.5) * 2 * _PER_OCTAVE)


def middle_of(bucket: int) -> float:
    """The middle of the values that a bucket counts."""
    exponent, part = divmod(bucket, _PER_OCTAVE)
    return math.ldexp(0.5 + (part + 0.5) / (2 * _PER_OCTAVE), exponent)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A histogram as it is read: since the start, but for the percentiles."""

    count: int
    total: float
    minimum: float
    maximum: float
    mean: float
    deviation: float
    #: By quantile, as 0.99.
    quantiles: Mapping[float, float]


EMPTY = Snapshot(0, 0.0, 0.0, 0.0, 0.0, 0.0, dict.fromkeys(PERCENTILES.values(), 0.0))


class Histogram:
    __slots__ = ("_minimum", "_squares", "_until", "_windows", "count", "maximum", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.maximum = 0.0
        self._minimum = math.inf
        self._squares = 0.0
        self._until = -math.inf
        #: Of each minute, how often each bucket was hit; nought is a bucket of its own (None).
        self._windows: list[dict[int | None, int]] = []

    def record(self, value: float, now: float, weight: int = 1) -> None:
        """Counts a value, which may stand for several; ``now`` is in seconds that never go back."""
        if now >= self._until:
            self._turn(now)
        value = max(value, 0.0)
        self.count += weight
        self.total += value * weight
        self._squares += value * value * weight
        self.maximum = max(self.maximum, value)
        self._minimum = min(self._minimum, value)
        bucket = bucket_of(value) if value else None
        window = self._windows[-1]
        window[bucket] = window.get(bucket, 0) + weight

    def _turn(self, now: float) -> None:
        """Begins a new window, and forgets those that are too old."""
        passed = 1 if not self._windows else int((now - self._until) // WINDOW_SECONDS) + 1
        if passed >= _WINDOWS:
            self._windows.clear()
        else:
            self._windows += [{} for _ in range(passed - 1)]
        self._windows.append({})
        del self._windows[:-_WINDOWS]
        first = self._until == -math.inf
        self._until = now + WINDOW_SECONDS if first else self._until + passed * WINDOW_SECONDS

    def snapshot(self, now: float) -> Snapshot:
        if not self.count:
            return EMPTY
        if now >= self._until:
            self._turn(now)
        mean = self.total / self.count
        deviation = math.sqrt(max(self._squares / self.count - mean * mean, 0.0))
        quantiles = self._quantiles(PERCENTILES.values())
        minimum, maximum = self._minimum, self.maximum
        return Snapshot(self.count, self.total, minimum, maximum, mean, deviation, quantiles)

    def _quantiles(self, wanted: Iterable[float]) -> dict[float, float]:
        merged: dict[int | None, int] = {}
        for window in self._windows:
            for bucket, hits in window.items():
                merged[bucket] = merged.get(bucket, 0) + hits
        ordered = sorted(merged.items(), key=lambda each: -math.inf if each[0] is None else each[0])
        hits_in_all = sum(merged.values())
        found: dict[float, float] = {}
        for quantile in wanted:
            rank, seen, value = quantile * hits_in_all, 0, 0.0
            for bucket, hits in ordered:
                seen += hits
                value = 0.0 if bucket is None else middle_of(bucket)
                if seen >= rank:
                    break
            # The middle of a bucket may lie beyond the values that are in it.
            found[quantile] = min(max(value, self._minimum), self.maximum) if hits_in_all else 0.0
        return found


class Rates:
    """How fast a counter grows: since the start, and decayed over one, five and fifteen minutes.

    It is told the count from time to time; between two times the growth is taken to be even.
    """

    __slots__ = ("_count", "_since", "_started", "_started_count", "decayed")

    def __init__(self, now: float, count: float, started: float | None = None) -> None:
        """``started``: since when there is the counter; until the first look it is taken to be even."""
        self._started = now if started is None else started
        self._started_count = count if started is None else 0.0
        self._since = now
        self._count = count
        mean = self.mean(now, count)
        self.decayed = [mean] * len(MINUTES)

    def observe(self, now: float, count: float) -> None:
        """Does nothing more often than every five seconds."""
        seconds = now - self._since
        if seconds < TICK_SECONDS:
            return
        rate = max(count - self._count, 0.0) / seconds
        for index, minutes in enumerate(MINUTES):
            kept = math.exp(-seconds / (minutes * 60))
            self.decayed[index] = rate + (self.decayed[index] - rate) * kept
        self._since, self._count = now, count

    def mean(self, now: float, count: float) -> float:
        seconds = now - self._started
        return (count - self._started_count) / seconds if seconds > 0 else 0.0
