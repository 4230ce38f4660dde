"""What a service measures of its requests: by route, method and status, how many and how long.

Invariant: labels are routes of the table and methods of HTTP, never what clients make up.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from moldau.metrics.instruments import Histogram
from moldau.metrics.readings import Reading, Sources
from moldau.metrics.table import Kind, Metric

_KEYS = ("service", "route", "method")
REQUESTS = Metric(
    "moldau.web", "Requests", "RequestsPerSec", "Requests by route and status", Kind.METER, (*_KEYS, "status")
)
TIMES = Metric("moldau.web", "Requests", "TimeMs", "How long requests took", Kind.HISTOGRAM, _KEYS, "ms")
IN_FLIGHT = Metric(
    "moldau.web", "Requests", "InFlight", "Requests that are being answered", Kind.GAUGE, ("service",)
)
WEB_METRICS = (REQUESTS, TIMES, IN_FLIGHT)
#: The route of a request that fits none.
NO_ROUTE = "none"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestCounts:
    def __init__(self, service: str, in_flight: Callable[[], int]) -> None:
        self._service = service
        self._in_flight = in_flight
        self._counts: Counter[tuple[str, str, str, str]] = Counter()
        self._times: dict[tuple[str, str, str], Histogram] = {}

    def answered(self, route: str, method: str, status: int, seconds: float, now: float) -> None:
        key = (self._service, route, method if method in _METHODS else "other")
        self._counts[(*key, str(status))] += 1
        times = self._times.get(key)
        if times is None:
            times = self._times[key] = Histogram()
        times.record(seconds * 1000, now)

    def register(self, sources: Sources) -> None:
        sources.add("moldau.web", "Requests", self.readings)

    def readings(self) -> Iterable[Reading]:
        yield Reading(REQUESTS, list(self._counts.items()))
        yield Reading(TIMES, list(self._times.items()))
        yield Reading(IN_FLIGHT, [((self._service,), self._in_flight())])
