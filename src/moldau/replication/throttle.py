"""How much a broker copies for replicas that are throttled, so that a move leaves room for others.

The topics say which replicas these are (``leader.replication.throttled.replicas`` and ``follower.…``), the
brokers how many bytes a second (``leader.replication.throttled.rate`` and ``follower.…``).

Invariant: over any long time no more than the rate; what is taken at once is paid for afterwards. A leader
does not throttle a replica that is in sync, or it would be so no more.
"""

from collections.abc import Callable, Iterable

from moldau.base.clock import Clock

ALL_REPLICAS = "*"
#: So many seconds' worth may be taken at once.
_BURST_SECONDS = 1.0


class ReplicationThrottle:
    def __init__(self, rate: Callable[[], int], clock: Clock) -> None:
        """``rate`` is the number of bytes a second, as it is set now."""
        self._rate = rate
        self._clock = clock
        self._debt = 0.0
        self._paid_at = clock.monotonic()

    def take(self, size: int) -> None:
        self._pay()
        self._debt += size

    @property
    def is_open(self) -> bool:
        """Whether more may be taken now."""
        self._pay()
        return self._debt <= self._rate() * _BURST_SECONDS

    def _pay(self) -> None:
        now = self._clock.monotonic()
        self._debt = max(self._debt - (now - self._paid_at) * self._rate(), 0.0)
        self._paid_at = now


def is_throttled(replicas: Iterable[str], partition: int, node_id: int) -> bool:
    """Whether a list of ``partition:broker``, or ``*``, names this replica."""
    own = f"{partition}:{node_id}"
    return any(each in (ALL_REPLICAS, own) for each in replicas)
