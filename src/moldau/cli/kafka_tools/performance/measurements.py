"""The figures of the performance tools, in the layout of Kafka's.

Pure: the time is an argument. Numbers look as Java prints them, ``NaN`` and ``Infinity`` included.
"""

import math
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence

_MEGABYTE = 1024 * 1024
#: At most so many latencies are kept: of more records only every second, every third, … one is.
_MOST_LATENCIES = 500_000
_PERCENTILES = (0.5, 0.95, 0.99, 0.999)


def decimal(value: float, digits: int) -> str:
    """Java's ``%.<digits>f``, which rounds halves up and prints ``NaN`` and ``Infinity``."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return f"{value:.{digits}f}"


def ratio(value: float, by: float) -> float:
    """A division of Java's doubles: by zero it gives infinity, or NaN for zero by zero."""
    if by:
        return value / by
    return math.nan if not value else math.copysign(math.inf, value)


class ProducerFigures:
    """What ``kafka-producer-perf-test`` measures."""

    def __init__(self, expected: int, start_ms: int, *, steady_state: bool = False) -> None:
        self._label = " steady state" if steady_state else ""
        self._every = max(1, expected // min(expected, _MOST_LATENCIES)) if expected else 1
        self._start_ms = start_ms
        self._latencies = array("q")
        self._total_latency = 0
        self._max_latency = 0
        self.count = 0
        self.bytes = 0
        self._window_start_ms = start_ms
        self._window_count = 0
        self._window_bytes = 0
        self._window_latency = 0
        self._window_max_latency = 0

    def record(self, latency_ms: int, size: int) -> None:
        if self.count % self._every == 0:
            self._latencies.append(latency_ms)
        self.count += 1
        self.bytes += size
        self._total_latency += latency_ms
        self._window_count += 1
        self._window_bytes += size
        self._window_latency += latency_ms
        if latency_ms > self._window_max_latency:
            self._window_max_latency = latency_ms
            if latency_ms > self._max_latency:
                self._max_latency = latency_ms

    def window_line(self, now_ms: int, interval_ms: int) -> str | None:
        """A line about the progress since the last one; None when it is not yet time for it."""
        elapsed = now_ms - self._window_start_ms
        if elapsed < interval_ms:
            return None
        line = (
            f"{self._window_count}{self._label} records sent, "
            f"{decimal(1000 * self._window_count / elapsed, 1)} records/sec "
            f"({decimal(1000 * self._window_bytes / elapsed / _MEGABYTE, 2)} MB/sec), "
            f"{decimal(ratio(self._window_latency, self._window_count), 1)} ms avg latency, "
            f"{decimal(self._window_max_latency, 1)} ms max latency."
        )
        self._window_start_ms = now_ms
        self._window_count = self._window_bytes = self._window_latency = self._window_max_latency = 0
        return line

    def total_line(self, now_ms: int) -> str:
        elapsed = max(1, now_ms - self._start_ms)  # a run may be over within the millisecond
        p50, p95, p99, p999 = percentiles(self._latencies, _PERCENTILES)
        return (
            f"{self.count}{self._label} records sent, "
            f"{decimal(1000 * self.count / elapsed, 6)} records/sec "
            f"({decimal(1000 * self.bytes / elapsed / _MEGABYTE, 2)} MB/sec), "
            f"{decimal(ratio(self._total_latency, self.count), 2)} ms avg latency, "
            f"{decimal(self._max_latency, 2)} ms max latency, "
            f"{p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th."
        )


def percentiles(values: Iterable[int], shares: Sequence[float]) -> list[int]:
    """The values at the given shares of all; 0 without values."""
    ordered = sorted(values)
    return [ordered[int(share * len(ordered))] if ordered else 0 for share in shares]


CONSUMER_HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
DETAILED_CONSUMER_HEADER = CONSUMER_HEADER.replace("start.time, end.time", "time, threadId")


def consumer_total_line(start: str, end: str, elapsed_ms: int, join_ms: int, count: int, size: int) -> str:
    """The last line of ``kafka-consumer-perf-test``; start and end are times in their format."""
    megabytes = size / _MEGABYTE
    fetch_ms = elapsed_ms - join_ms
    numbers = (
        decimal(megabytes, 4),
        decimal(ratio(megabytes, elapsed_ms / 1000), 4),
        str(count),
        decimal(ratio(count, elapsed_ms / 1000), 4),
        str(join_ms),
        str(fetch_ms),
        decimal(ratio(megabytes, fetch_ms / 1000), 4),
        decimal(ratio(count, fetch_ms / 1000), 4),
    )
    return ", ".join((start, end, *numbers))


def consumer_progress_line(
    time: str, elapsed_ms: int, join_ms: int, count: int, count_before: int, size: int, size_before: int
) -> str:
    """What was read since the last line, with ``--show-detailed-stats``."""
    fetch_ms = elapsed_ms - join_ms
    megabytes = (size - size_before) / _MEGABYTE
    new = count - count_before
    numbers = (
        "0",
        decimal(size / _MEGABYTE, 4),
        decimal(ratio(1000 * megabytes, elapsed_ms), 4),
        str(count),
        decimal(ratio(1000 * new, elapsed_ms), 4),
        str(join_ms),
        str(fetch_ms),
        decimal(1000 * megabytes / fetch_ms if fetch_ms > 0 else 0.0, 4),
        decimal(1000 * new / fetch_ms if fetch_ms > 0 else 0.0, 4),
    )
    return ", ".join((time, *numbers))


def latency_lines(latencies_ns: Sequence[int]) -> list[str]:
    """What ``kafka-e2e-latency`` prints at its end."""
    average = sum(latencies_ns) / len(latencies_ns) / 1_000_000
    p50, p99, p999 = percentiles((ns // 1_000_000 for ns in latencies_ns), (0.5, 0.99, 0.999))
    return [
        f"Avg latency: {decimal(average, 4)} ms",
        f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}",
    ]


def metric_lines(metrics: Mapping[str, float]) -> list[str]:
    """``--print-metrics``: names and values in two columns."""
    width = max((len(name) for name in metrics), default=0)
    lines = ["", f"{'Metric Name'.ljust(width)}   Value"]
    return lines + [f"{name.ljust(width)} : {decimal(value, 3)}" for name, value in sorted(metrics.items())]


# Dates -------------------------------------------------------------------------------------------------

_FIELDS = {
    "yyyy": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "a": "%p",
    "EEE": "%a",
    "MMM": "%b",
    "SSS": "%f",
}

#: Quoted text, a run of one letter, or anything else.
_DATE_PARTS = re.compile(r"'(?:[^']|'')*'?|([a-zA-Z])\1*|[^'a-zA-Z]+")


def date_format(pattern: str) -> str:
    """A pattern of Java's SimpleDateFormat as one of ``strftime``, with ``%f`` for the milliseconds.

    Text stands in single quotes, and two of them are one. ValueError names a letter that is not known here.
    """
    out: list[str] = []
    for match in _DATE_PARTS.finditer(pattern):
        part = match[0]
        if part[0] == "'":
            if len(part) < 2 or part[-1] != "'":
                raise ValueError("Unterminated quote")
            out.append(part[1:-1].replace("''", "'").replace("%", "%%") or "'")
        elif not match[1]:
            out.append(part.replace("%", "%%"))
        elif part in _FIELDS:
            out.append(_FIELDS[part])
        else:
            raise ValueError(f"Illegal pattern character '{part[0]}'")
    return "".join(out)
