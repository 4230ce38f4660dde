"""Readings as MBeans: object names as Kafka registers them, patterns that find them, attributes of each kind.

Invariant: what is read is what is listed; a name that is found can be read.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from moldau.base.wildcards import MAX_QUESTION_MARKS, like
from moldau.metrics.instruments import PERCENTILES, Histogram, Rates
from moldau.metrics.readings import Keys, Reading, Sources, Value
from moldau.metrics.table import Kind, Metric

_NEEDS_NO_QUOTES = re.compile(r"[\w\-%. \t]*", re.ASCII)
_PROPERTY = re.compile(r'([^,=:*?"]+)=("(?:[^"\\]|\\.)*"|[^,=:"]*)(?:,|$)')
#: Counters whose rates are kept; the one that was not looked at for longest goes first.
_RATES_MOST = 20_000
_RATES = ("OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate")


class BadName(ValueError):
    """Not the name of an MBean, nor a pattern for some."""


def quoted(value: str) -> str:
    """A value inside an object name, in quotes where Kafka puts them."""
    if _NEEDS_NO_QUOTES.fullmatch(value):
        return value
    return '"' + re.sub(r'(["\\*?])', r"\\\1", value).replace("\n", "\\n") + '"'


class ObjectName(NamedTuple):
    """A name, or a pattern, where a domain and values may have stars and there may be more keys."""

    domain: str
    properties: tuple[tuple[str, str], ...]
    and_more: bool = False

    @classmethod
    def parse(cls, text: str) -> "ObjectName":
        domain, colon, rest = text.partition(":")
        if not colon:
            raise BadName(f"Domain part must be specified: {text}")
        and_more = rest == "*" or rest.endswith(",*")
        if and_more:
            rest = rest[:-2]
        properties: dict[str, str] = {}
        position = 0
        while position < len(rest):
            match = _PROPERTY.match(rest, position)
            if match is None or match[1] in properties:
                raise BadName(f"Invalid character or key in the name of an MBean: {text}")
            if _has_star(match[2]) and match[2].count("?") > MAX_QUESTION_MARKS:
                raise BadName(f"Too many question marks in the pattern: {text}")
            properties[match[1]] = match[2]
            position = match.end()
        if not properties and not and_more:
            raise BadName(f"Key properties cannot be empty: {text}")
        return cls(domain, tuple(properties.items()), and_more)

    @property
    def is_pattern(self) -> bool:
        return self.and_more or _has_star(self.domain) or any(_has_star(v) for _, v in self.properties)

    def matches(self, other: "ObjectName") -> bool:
        if not _like(self.domain, other.domain):
            return False
        theirs = dict(other.properties)
        if not self.and_more and len(theirs) != len(self.properties):
            return False
        return all(key in theirs and _like(value, theirs[key]) for key, value in self.properties)

    def written(self, canonical: bool) -> str:
        properties = sorted(self.properties) if canonical else self.properties
        return f"{self.domain}:" + self._joined(properties)

    def key_list(self, canonical: bool) -> str:
        return self._joined(sorted(self.properties) if canonical else self.properties)

    @staticmethod
    def _joined(properties: Any) -> str:
        return ",".join(f"{key}={value}" for key, value in properties)


def _has_star(text: str) -> bool:
    return not text.startswith('"') and ("*" in text or "?" in text)


def _like(pattern: str, text: str) -> bool:
    return like(text, pattern) if _has_star(pattern) else pattern == text


def object_name(metric: Metric, keys: Keys) -> ObjectName:
    properties = [("type", metric.type)]
    if metric.name is not None:
        properties.append(("name", metric.name))
    properties += ((key, quoted(value)) for key, value in zip(metric.keys, keys, strict=True))
    return ObjectName(metric.domain, tuple(properties))


def attribute_types(metric: Metric) -> dict[str, str]:
    """The attributes of the MBean and their Java types."""
    if metric.name is None:
        return {metric.attribute: "double"}
    if metric.kind is Kind.GAUGE:
        return {"Value": "java.lang.Object"}
    rates = {"Count": "long", "EventType": "java.lang.String", "RateUnit": "java.util.concurrent.TimeUnit"}
    if metric.kind is Kind.SHARE:
        del rates["Count"]
    rates |= dict.fromkeys(("MeanRate", *_RATES), "double")
    if metric.kind in (Kind.METER, Kind.SHARE):
        return rates
    values = {"Count": "long"} | dict.fromkeys(("Min", "Max", "Mean", "StdDev", *PERCENTILES), "double")
    if metric.kind is Kind.TIMER:
        return values | rates | {"LatencyUnit": "java.util.concurrent.TimeUnit"}
    return values


class Found(NamedTuple):
    """An MBean, its metrics and its values, each by attribute."""

    name: ObjectName
    metrics: dict[str, Metric]
    values: dict[str, Value]


class MBeans:
    """All MBeans of a process; rates are kept from the first time that a counter is looked at."""

    def __init__(self, sources: Sources, started: float) -> None:
        self._sources = sources
        self._started = started
        self._rates: dict[ObjectName, Rates] = {}

    def find(self, wanted: ObjectName) -> Iterator[Found]:
        """Every MBean that fits."""
        return (found for found in self.steps(wanted) if found is not None)

    def steps(self, wanted: ObjectName) -> Iterator[Found | None]:
        """The same, with None for each that does not fit: whoever looks at many may pause."""
        several: dict[ObjectName, tuple[dict[str, Metric], dict[str, Value]]] = {}
        for reading in self._readings(wanted):
            metric = reading.metric
            for keys, value in reading.values:
                name = object_name(metric, keys)
                if not wanted.matches(name):
                    yield None
                elif metric.name is not None:
                    yield Found(name, {"Value": metric}, {"Value": value})
                else:
                    metrics, values = several.setdefault(name, ({}, {}))
                    metrics[metric.attribute], values[metric.attribute] = metric, value
        for name, (metrics, values) in several.items():
            yield Found(name, metrics, values)

    def _readings(self, wanted: ObjectName) -> Iterator[Reading]:
        type_ = dict(wanted.properties).get("type", "*")
        for domain, kind in self._sources.kinds():
            if _like(wanted.domain, domain) and _like(type_, kind):
                yield from self._sources.read(domain, kind)

    def attributes(
        self, name: ObjectName, metrics: dict[str, Metric], values: dict[str, Value], now: float
    ) -> dict[str, Any]:
        """What an MBean shows, by attribute."""
        metric = metrics.get("Value")
        if metric is None:
            return {each: _plain(value, now) for each, value in values.items()}
        value = values["Value"]
        if isinstance(value, Histogram):
            shown = _histogram(value, now)
            if metric.kind is Kind.TIMER:
                shown |= self._rate(name, value.count, now, metric) | {"LatencyUnit": "MILLISECONDS"}
            return shown
        if isinstance(value, Rates):
            shown = {"EventType": metric.unit, "RateUnit": "NANOSECONDS", "MeanRate": value.decayed[-1]}
            return shown | dict(zip(_RATES, value.decayed, strict=True))
        if metric.kind is Kind.METER and not isinstance(value, str):
            return self._rate(name, value, now, metric)
        return {"Value": value}

    def _rate(self, name: ObjectName, count: float, now: float, metric: Metric) -> dict[str, Any]:
        rates = self._rates.pop(name, None)
        if rates is None:
            rates = Rates(now, count, self._started)
            if len(self._rates) >= _RATES_MOST:
                del self._rates[next(iter(self._rates))]
        else:
            rates.observe(now, count)
        self._rates[name] = rates
        shown: dict[str, Any] = {
            "Count": count,
            "EventType": metric.unit,
            "RateUnit": "SECONDS",
            "MeanRate": rates.mean(now, count),
        }
        return shown | dict(zip(_RATES, rates.decayed, strict=True))


def _plain(value: Value, now: float) -> Any:
    if isinstance(value, Histogram):
        return value.snapshot(now).mean
    return value.decayed[0] if isinstance(value, Rates) else value


def _histogram(value: Histogram, now: float) -> dict[str, Any]:
    snapshot = value.snapshot(now)
    shown: dict[str, Any] = {
        "Count": snapshot.count,
        "Min": snapshot.minimum,
        "Max": snapshot.maximum,
        "Mean": snapshot.mean,
        "StdDev": snapshot.deviation,
    }
    return shown | {name: snapshot.quantiles[quantile] for name, quantile in PERCENTILES.items()}
