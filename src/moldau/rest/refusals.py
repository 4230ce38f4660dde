"""Logins that the cluster has refused: it counts them against the proxy's address, and when they are many it
lets all wait who come from there.

So one that was refused is answered by the proxy itself for a while, and an address from which many come waits
alone.

Pure: the time comes in. Invariant: what is remembered is bounded, and whoever is let in pays for nothing.
"""

from collections import OrderedDict

from moldau.client.transport.security import Security
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.web.rates import Rates

#: A login that was refused is not tried again for so long; whoever has just got a password waits no longer.
REMEMBERED_SECONDS = 10.0
_REMEMBERED_MOST = 10_000
#: Of one address. The broker forgives the proxy fifty, and ten a second.
FORGIVEN = 20
TRIES_A_SECOND = 1.0


class Refusals:
    def __init__(self) -> None:
        self._rates = Rates(TRIES_A_SECOND, FORGIVEN)
        self._refused: OrderedDict[Security, tuple[float, ErrorCode, str | None]] = OrderedDict()

    def check(self, login: Security, address: str, now: float) -> None:
        """To be asked before a login is tried: raises why it is not. It counts until it is let in."""
        self.forget_old(now)
        known = self._refused.get(login)
        if known is not None:
            raise KafkaError(*known[1:])  # one error for all would collect the stacks of all
        self._rates.take(address, now)

    def did_not_fail(self, address: str) -> None:
        """It was let in, or nobody has looked at it."""
        self._rates.give_back(address)

    def refused(self, login: Security, error: KafkaError, now: float) -> None:
        self._refused[login] = (now, error.code, error.message)
        if len(self._refused) > _REMEMBERED_MOST:
            self._refused.popitem(last=False)

    def forget_old(self, now: float) -> None:
        while self._refused and now - next(iter(self._refused.values()))[0] >= REMEMBERED_SECONDS:
            self._refused.popitem(last=False)
