"""What a collector gives and the ways out take: a metric of the table with its values, one for each set of
keys.

A value is a number, a text, a ``Histogram``, or ``Rates`` for a share of time. A source is a function that
yields readings; there is one for each type of MBean, so that who asks for one MBean does not pay for all.

Invariant: a source looks at the state that there is, when it is asked, and keeps none.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from moldau.metrics.instruments import Histogram, Rates
from moldau.metrics.table import Metric

Value: TypeAlias = "int | float | str | Histogram | Rates"
#: The values of a metric's keys, in their order.
Keys: TypeAlias = tuple[str, ...]


class Reading(NamedTuple):
    metric: Metric
    values: Iterable[tuple[Keys, Value]]


Source: TypeAlias = Callable[[], Iterable[Reading]]


def one(metric: Metric, value: Value) -> Reading:
    """The reading of a metric without keys."""
    return Reading(metric, (((), value),))


class Sources:
    """All sources of a process, by domain and type of the MBeans that they give."""

    def __init__(self) -> None:
        self._sources: dict[tuple[str, str], list[Source]] = {}

    def add(self, domain: str, type_: str, source: Source) -> None:
        self._sources.setdefault((domain, type_), []).append(source)

    def kinds(self) -> list[tuple[str, str]]:
        return list(self._sources)

    def read(self, domain: str, type_: str) -> Iterator[Reading]:
        for source in self._sources.get((domain, type_), ()):
            yield from source()

    def __iter__(self) -> Iterator[Reading]:
        for sources in self._sources.values():
            for source in sources:
                yield from source()
