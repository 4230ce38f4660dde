"""The table of metrics: Kafka's name of each as an MBean, the name that Prometheus knows it by, unit,
meaning.

Names are those of Apache Kafka 4.3, so that guides, dashboards and alerts fit; what Kafka does not have is
in the domains ``moldau.…``. The Prometheus name follows from the MBean by the rules that are usual for the
JMX exporter: lower case; the count of a ``…PerSec`` ends in ``_total``; ``…Percent`` in ``_percent``;
percentiles have a label ``quantile``, and their count ends in ``_count_total``.

Invariant: everything that is shown is in this table, and everything in it is measured by something.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property


class Kind(Enum):
    GAUGE = "gauge"
    #: Counts events; as an MBean it has rates too.
    METER = "meter"
    HISTOGRAM = "histogram"
    #: A histogram of durations that has rates too.
    TIMER = "timer"
    #: A share of time as ``Rates`` of seconds: Kafka has it as a meter whose one-minute rate is the share.
    SHARE = "share"


@dataclass(frozen=True)
class Metric:
    domain: str
    type: str
    #: None where the MBean has one attribute for each metric, which is then ``attribute``.
    name: str | None
    help: str
    kind: Kind = Kind.GAUGE
    #: The keys behind type and name, in the order in which Kafka registers them.
    keys: tuple[str, ...] = ()
    unit: str = ""
    attribute: str = ""
    #: A gauge whose value only grows, which Prometheus calls a counter.
    grows: bool = False

    @cached_property
    def prometheus(self) -> str:
        """The name without what its kind puts behind it."""
        tail = self.attribute if self.name is None else self.name
        if self.kind is Kind.METER:
            tail = tail.removesuffix("PerSec")
        stem = _plain(f"{self.domain}_{self.type}_")
        percent = tail.endswith("Percent") and self.kind in (Kind.GAUGE, Kind.SHARE)
        written = _plain(tail.removesuffix("Percent")) + "_percent" if percent else _plain(tail)
        if self.kind is Kind.METER or self.grows:
            written = written.removesuffix("_total") + "_total"
        return stem + written

    @cached_property
    def prometheus_names(self) -> tuple[str, ...]:
        """Every name that a scrape shows of it."""
        if self.kind in (Kind.HISTOGRAM, Kind.TIMER):
            return self.prometheus, f"{self.prometheus}_count_total"
        return (self.prometheus,)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        return tuple(key.replace("-", "_") for key in self.keys)

    @property
    def object_name(self) -> str:
        """The MBean, with a star for each key."""
        name = "" if self.name is None else f",name={self.name}"
        return f"{self.domain}:type={self.type}{name}" + "".join(f",{key}=*" for key in self.keys)


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "_", text.lower())


class Table:
    """Metrics by the words that the collectors use: ``TABLE["kafka.log", "Log", "Size"]``."""

    def __init__(self) -> None:
        self._metrics: dict[tuple[str, str, str, tuple[str, ...]], Metric] = {}

    def add(self, metric: Metric) -> Metric:
        self._metrics[metric.domain, metric.type, metric.name or metric.attribute, metric.keys] = metric
        return metric

    def get(self, domain: str, type_: str, name: str, *keys: str) -> Metric:
        return self._metrics[domain, type_, name, keys]

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._metrics.values())

    def __len__(self) -> int:
        return len(self._metrics)


TABLE = Table()


def gauge(domain: str, type_: str, name: str, help_: str, *keys: str, unit: str = "") -> Metric:
    return TABLE.add(Metric(domain, type_, name, help_, Kind.GAUGE, keys, unit))


def counter(domain: str, type_: str, name: str, help_: str, *keys: str, unit: str = "") -> Metric:
    """A gauge of the MBean that only grows."""
    return TABLE.add(Metric(domain, type_, name, help_, Kind.GAUGE, keys, unit, grows=True))


def meter(domain: str, type_: str, name: str, help_: str, *keys: str, unit: str = "requests") -> Metric:
    return TABLE.add(Metric(domain, type_, name, help_, Kind.METER, keys, unit))


def histogram(domain: str, type_: str, name: str, help_: str, *keys: str, unit: str = "ms") -> Metric:
    return TABLE.add(Metric(domain, type_, name, help_, Kind.HISTOGRAM, keys, unit))


def share(domain: str, type_: str, name: str, help_: str) -> Metric:
    return TABLE.add(Metric(domain, type_, name, help_, Kind.SHARE, (), "percent"))


def timer(domain: str, type_: str, name: str, help_: str, *keys: str) -> Metric:
    return TABLE.add(Metric(domain, type_, name, help_, Kind.TIMER, keys, "calls"))


def attribute(
    domain: str, type_: str, name: str, help_: str, *keys: str, grows: bool = False, unit: str = ""
) -> Metric:
    """One attribute of an MBean that has several."""
    return TABLE.add(Metric(domain, type_, None, help_, Kind.GAUGE, keys, unit, name, grows))
