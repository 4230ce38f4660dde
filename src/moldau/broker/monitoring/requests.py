"""Requests by API and version: how many, how long each part of them took, which errors they were answered
with.

Every request is counted. Times are taken of every request while there are few; of a busy API, of one in
every five milliseconds (or in 128), which then stands for the others. A request that waits (for followers,
for data, for a disk) is always timed.

Invariant: a request that is not timed costs one comparison and one subtraction.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from moldau.base.clock import stopwatch
from moldau.metrics.instruments import Histogram
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode
from moldau.protocol.schema import declaration

#: Timing a request costs as much as a tenth of the work for a small one: of a busy API so many are not timed
#: behind one that is, at most, and about this time lies between two that are.
SKIPPED = 127
BETWEEN_SECONDS = 0.005
#: Elements of one list in an answer whose errors are counted.
_LOOKED_AT_MOST = 10_000
#: Kafka's name of what a fetch is, by who fetches.
CONSUMER, FOLLOWER = "FetchConsumer", "FetchFollower"


def request_name(api_key: ApiKey) -> str:
    """Kafka's name of an API: ``InitProducerId``."""
    return "".join(part.capitalize() for part in api_key.name.split("_"))


class ApiTimes:
    """How long the requests of one API took; milliseconds, but for the bytes."""

    __slots__ = ("local", "queue", "remote", "request_bytes", "send", "throttle", "throttled", "total")

    def __init__(self) -> None:
        self.total = Histogram()
        #: From the read of the socket to the handler.
        self.queue = Histogram()
        #: In the handler, up to an answer or to the start of a wait.
        self.local = Histogram()
        #: From the start of a wait to its end.
        self.remote = Histogram()
        #: Encoding the answer, and handing it to the socket.
        self.send = Histogram()
        #: Of throttled requests only; the others waited for nought.
        self.throttle = Histogram()
        self.throttled = 0
        self.request_bytes = Histogram()


class Tally:
    """One version of one API."""

    __slots__ = ("_at", "_granted", "_interval", "_later", "_weight", "left", "requests", "times", "version")

    def __init__(self, requests: "ApiRequests", version: int) -> None:
        self.requests = requests
        self.times = requests.times
        self.version = version
        #: Requests that may pass before the next one is timed.
        self.left = 0
        self._granted = 0
        self._interval = 0
        #: How many requests the one that is timed now stands for.
        self._weight = 1
        #: Requests that wait have been timed by themselves: the next sample does not stand for them.
        self._later = 0
        self._at = 0.0

    @property
    def count(self) -> int:
        return self._granted - self.left

    def begin(self) -> float:
        """Begins to time a request; called when none is ``left``."""
        now = stopwatch()
        self._weight = self._interval + 1
        apart = max(now - self._at, 1e-9) / self._weight
        self._interval = min(SKIPPED, int(BETWEEN_SECONDS / apart))
        self._at = now
        self._granted += 1 + self._interval
        self.left = self._interval
        return now

    def time_next(self) -> None:
        """The next request is timed: what was a busy API may have few by now."""
        self._granted -= self.left
        self._interval -= self.left
        self.left = 0

    def answered(self, began: float, handled: float, read: float, size: int, request: Any) -> None:
        """A request was answered at once; ``read`` is when its bytes came."""
        now = stopwatch()
        times = self._times(request)
        weight = max(self._weight - self._later, 1)
        self._later = 0
        queued = max(began - read, 0.0) if read else 0.0
        times.queue.record(queued * 1000, now, weight)
        times.local.record((handled - began) * 1000, now, weight)
        times.remote.record(0.0, now, weight)
        times.send.record((now - handled) * 1000, now, weight)
        times.total.record((now - began + queued) * 1000, now, weight)
        times.request_bytes.record(size, now, weight)

    def answered_later(self, began: float, handled: float, request: Any) -> None:
        """A request was answered that had to wait from ``handled`` on."""
        now = stopwatch()
        self._later += 1
        times = self._times(request)
        if handled > began:
            times.local.record((handled - began) * 1000, now)
        times.remote.record((now - handled) * 1000, now)
        times.total.record((now - began) * 1000, now)

    def _times(self, request: Any) -> ApiTimes:
        return self.times


class FetchTally(Tally):
    """Fetches of consumers and of followers have times of their own."""

    __slots__ = ()

    def _times(self, request: Any) -> ApiTimes:
        follower = max(request.replica_id, request.replica_state.replica_id) >= 0
        return self.requests.of_follower if follower else self.requests.times


class ApiRequests:
    """One API: its versions, times and errors."""

    __slots__ = ("errors", "name", "of_follower", "times", "versions")

    def __init__(self, api_key: ApiKey) -> None:
        self.name = request_name(api_key)
        self.times = ApiTimes()
        self.of_follower = ApiTimes()
        self.versions: dict[int, Tally] = {}
        #: How many answers, or parts of them, had each error.
        self.errors: dict[int, int] = {}

    def error(self, code: int, times: int = 1) -> None:
        self.errors[code] = self.errors.get(code, 0) + times

    @property
    def count(self) -> int:
        return sum(tally.count for tally in self.versions.values())

    def shown_times(self) -> Iterator[tuple[str, ApiTimes]]:
        if self.name != "Fetch":
            yield self.name, self.times
            return
        yield CONSUMER, self.times
        if self.of_follower.total.count:
            yield FOLLOWER, self.of_follower


class RequestMetrics:
    """All APIs that were asked for so far."""

    def __init__(self) -> None:
        self.apis: dict[int, ApiRequests] = {}
        #: Fetches of followers, by version.
        self.follower_fetches: dict[int, int] = {}

    def api(self, api_key: int) -> ApiRequests:
        found = self.apis.get(api_key)
        if found is None:
            found = self.apis[api_key] = ApiRequests(ApiKey(api_key))
        return found

    def tally(self, api_key: int, version: int) -> Tally:
        requests = self.api(api_key)
        found = requests.versions.get(version)
        if found is None:
            kind = FetchTally if api_key == ApiKey.FETCH else Tally
            found = requests.versions[version] = kind(requests, version)
        return found

    def throttled(self, api_key: int, milliseconds: int) -> None:
        times = self.api(api_key).times
        times.throttled += 1
        times.throttle.record(milliseconds, stopwatch())


# --- errors -----------------------------------------------------------------------------------------


def error_counter(response: type[Any]) -> Callable[[Any, Callable[[int], None]], None] | None:
    """A function that reports every error in an answer of this type; None where it can have none."""
    own = False
    inner: list[tuple[str, Callable[[Any, Callable[[int], None]], None]]] = []
    for field in declaration(response).fields:
        if field.name == "error_code":
            own = True
        if field.is_array and not isinstance(field.kind, str):
            counter = error_counter(field.kind)
            if counter is not None:
                inner.append((field.name, counter))
    if not own and not inner:
        return None

    def count(answer: Any, report: Callable[[int], None]) -> None:
        if own and answer.error_code:
            report(answer.error_code)
        for name, counter in inner:
            for item in islice(getattr(answer, name) or (), _LOOKED_AT_MOST):
                counter(item, report)

    return count


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
