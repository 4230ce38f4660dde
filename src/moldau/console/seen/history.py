"""What the console has seen of a cluster over the last half hour: rates of topics, lags of groups.

Invariant: everything has a bound: so many points of each line, so many lines; what was not seen for the
length of a line is forgotten. Pure: the times are arguments.
"""

from collections import deque
from collections.abc import Mapping

#: At one look in five seconds this is half an hour.
POINTS = 360
MAX_TOPICS = 5_000
MAX_GROUPS = 2_000


class TimeSeries:
    """Moments and numbers, the oldest first."""

    __slots__ = ("_points",)

    def __init__(self, most: int = POINTS) -> None:
        self._points: deque[tuple[int, float]] = deque(maxlen=most)

    def add(self, time_ms: int, value: float) -> None:
        self._points.append((time_ms, value))

    @property
    def points(self) -> list[tuple[int, float]]:
        return list(self._points)

    @property
    def last(self) -> float | None:
        return self._points[-1][1] if self._points else None


class History:
    def __init__(self) -> None:
        self.total_rate = TimeSeries()
        self.total_lag = TimeSeries()
        self.topic_rates: dict[str, TimeSeries] = {}
        self.group_lags: dict[str, TimeSeries] = {}
        self._ends: dict[str, tuple[int, int]] = {}
        #: Why the last look failed; None when it did not.
        self.problem: str | None = None

    def take_ends(self, time_ms: int, ends: Mapping[str, int]) -> None:
        """The end offsets of each topic, added up: the difference to the look before is the rate."""
        total, known = 0.0, False
        for topic, end in ends.items():
            before = self._ends.get(topic)
            if before is None or time_ms <= before[0]:
                continue
            # A topic that was deleted and made again begins anew.
            rate = max(0, end - before[1]) / ((time_ms - before[0]) / 1000)
            total, known = total + rate, True
            if topic not in self.topic_rates and len(self.topic_rates) >= MAX_TOPICS:
                continue
            self.topic_rates.setdefault(topic, TimeSeries(POINTS // 3)).add(time_ms, rate)
        self._ends = {topic: (time_ms, end) for topic, end in ends.items()}
        for gone in self.topic_rates.keys() - ends.keys():
            del self.topic_rates[gone]
        if known or not ends:
            self.total_rate.add(time_ms, total)

    def take_lag(self, time_ms: int, group: str, lag: int) -> None:
        if group not in self.group_lags and len(self.group_lags) >= MAX_GROUPS:
            return
        self.group_lags.setdefault(group, TimeSeries()).add(time_ms, lag)

    def take_groups(self, time_ms: int, groups: set[str]) -> None:
        """Which groups there are: others are forgotten, and the lag of all is added up."""
        for gone in self.group_lags.keys() - groups:
            del self.group_lags[gone]
        self.total_lag.add(time_ms, sum(line.last or 0 for line in self.group_lags.values()))

    def rate(self, topic: str) -> float | None:
        line = self.topic_rates.get(topic)
        return None if line is None else line.last

    def lag(self, group: str) -> float | None:
        line = self.group_lags.get(group)
        return None if line is None else line.last
