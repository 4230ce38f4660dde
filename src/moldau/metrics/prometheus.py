"""Readings as text for Prometheus: its own format (0.0.4) and OpenMetrics (1.0.0).

A metric that Kafka has with and without a key (bytes in of all topics, and of one) is one name: a series
without labels beside those with labels, as the JMX exporter gives it.

Invariant: written line by line, so that others have their turn while ten thousand partitions are scraped;
no label value can end its line.
"""

import math
from collections.abc import Iterable, Iterator

from moldau.metrics.instruments import Histogram, Rates
from moldau.metrics.readings import Reading
from moldau.metrics.table import Kind, Metric

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def wants_openmetrics(accept: str) -> bool:
    """Whether the Accept header of a scrape prefers OpenMetrics."""
    best, chosen = 0.0, False
    for part in accept.split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    quality = float(parameter[2:])
                except ValueError:
                    quality = 0.0
        if kind in ("application/openmetrics-text", "text/plain", "*/*") and quality > best:
            best, chosen = quality, kind == "application/openmetrics-text"
    return chosen


def exposition(readings: Iterable[Reading], now: float, *, openmetrics: bool = False) -> Iterator[str]:
    """The text, line by line; readings of the same name have to be one after the other."""
    families: dict[str, list[Reading]] = {}
    for reading in readings:
        families.setdefault(reading.metric.prometheus, []).append(reading)
    for name, members in families.items():
        metric = members[0].metric
        if metric.kind in (Kind.HISTOGRAM, Kind.TIMER):
            yield from _quantiles(name, members, now, openmetrics)
        else:
            yield from _numbers(name, members, openmetrics)
    if openmetrics:
        yield "# EOF\n"


def _head(name: str, kind: str, metric: Metric, openmetrics: bool) -> str:
    if openmetrics and kind == "counter":
        name = name.removesuffix("_total")
    said = f"{metric.help} ({metric.object_name})".replace("\\", "\\\\").replace("\n", " ")
    if openmetrics:
        said = said.replace('"', '\\"')
    return f"# HELP {name} {said}\n# TYPE {name} {kind}\n"


def _numbers(name: str, members: list[Reading], openmetrics: bool) -> Iterator[str]:
    metric = members[0].metric
    counts = metric.kind is Kind.METER or metric.grows
    said = False
    for reading in members:
        labels = reading.metric.labels
        for keys, value in reading.values:
            if isinstance(value, str | Histogram):
                continue
            if isinstance(value, Rates):
                value = value.decayed[0]
            if not said:
                said = True
                yield _head(name, "counter" if counts else "gauge", metric, openmetrics)
            yield f"{name}{braces(labels, keys)} {number(value)}\n"


def _quantiles(name: str, members: list[Reading], now: float, openmetrics: bool) -> Iterator[str]:
    counts: list[str] = []
    said = False
    for reading in members:
        labels = (*reading.metric.labels, "quantile")
        for keys, value in reading.values:
            if not isinstance(value, Histogram):
                continue
            if not said:
                said = True
                yield _head(name, "gauge", reading.metric, openmetrics)
            snapshot = value.snapshot(now)
            for quantile, found in snapshot.quantiles.items():
                yield f"{name}{braces(labels, (*keys, str(quantile)))} {number(found)}\n"
            counts.append(f"{name}_count_total{braces(reading.metric.labels, keys)} {snapshot.count}\n")
    if counts:
        yield _head(f"{name}_count_total", "counter", members[0].metric, openmetrics)
        yield from counts


def braces(labels: tuple[str, ...], keys: tuple[str, ...]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{escaped(key)}"' for name, key in zip(labels, keys, strict=True)) + "}"


def escaped(text: str) -> str:
    if '"' in text or "\\" in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text


def number(value: float) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(round(value, 6))
