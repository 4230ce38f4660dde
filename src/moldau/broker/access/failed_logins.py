"""Guessing passwords does not pay: an address whose logins fail often has each further try looked at later.

Invariant: an address without failures never waits. What is remembered is bounded: the address that failed
longest ago is forgotten first.
"""

from collections import OrderedDict

from moldau.security.quotas import TokenBucket

#: So many failures are forgiven an address, and so many more each second.
FORGIVEN = 50
TRIES_A_SECOND = 10.0
#: Who would have to wait for longer is turned away.
LONGEST_WAIT_SECONDS = 20.0
_REMEMBERED_MOST = 10_000


class FailedLogins:
    def __init__(self) -> None:
        self._by_host: OrderedDict[str, TokenBucket] = OrderedDict()

    def failed(self, host: str, now: float) -> None:
        """Counts a failure."""
        bucket = self._by_host.get(host)
        if bucket is None:
            bucket = self._by_host[host] = TokenBucket(FORGIVEN / TRIES_A_SECOND)
            if len(self._by_host) > _REMEMBERED_MOST:
                self._by_host.popitem(last=False)
        self._by_host.move_to_end(host)
        bucket.use(now, TRIES_A_SECOND, 1)

    def seconds_to_wait(self, host: str, now: float) -> float:
        """When the next try of an address is looked at; tries that come together stand in line."""
        bucket = self._by_host.get(host)
        if bucket is None:
            return 0.0
        seconds = bucket.throttle_seconds(now, TRIES_A_SECOND)
        if 0 < seconds < LONGEST_WAIT_SECONDS:
            bucket.use(now, TRIES_A_SECOND, 1)
        return seconds
