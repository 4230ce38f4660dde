"""Logins that the cluster has refused: it counts them against the proxy's address, and when they are many it
lets all wait who come from there.

So one that was refused is answered by the proxy itself for a while, and an address from which many come waits
alone.

Invariant: what is remembered is bounded, and of an address never more are refused at the cluster than it
forgives the proxy. Who has the right password pays for nothing but the guesses from the same address.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from moldau.client.transport.security import Security
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.rest import problems
from moldau.web.problems import Problem
from moldau.web.rates import Rates

#: A login that was refused is not tried again for so long; whoever has just got a password waits no longer.
REMEMBERED_SECONDS = 10.0
_REMEMBERED_MOST = 10_000
#: Of one address, and as many may be on their way. The broker forgives the proxy fifty, and ten a second.
FORGIVEN = 20
TRIES_A_SECOND = 1.0


@dataclass(slots=True)
class _Line:
    """Those of one address whose login is tried, or waits for that."""

    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(FORGIVEN))
    length: int = 0


class Refusals:
    def __init__(self) -> None:
        self._rates = Rates(TRIES_A_SECOND, FORGIVEN)
        self._refused: OrderedDict[Security, tuple[float, ErrorCode, str | None]] = OrderedDict()
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def trial(self, login: Security, address: str) -> AsyncIterator[None]:
        """Around a try at the cluster; raises why there is none, and takes notice of what comes of it."""
        clock = asyncio.get_running_loop().time
        line = self._lines.setdefault(address, _Line())
        line.length += 1
        try:
            async with line.places:
                self.check(login, address, clock())
                try:
                    yield
                except KafkaError as error:
                    if error.code in problems.AUTHENTICATION:
                        self.refused(login, error, address, clock())
                    raise
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[address]

    def check(self, login: Security, address: str, now: float) -> None:
        self.forget_old(now)
        known = self._refused.get(login)
        if known is not None:
            raise KafkaError(*known[1:])  # one error for all would collect the stacks of all
        self._rates.check(address, now)

    def refused(self, login: Security, error: KafkaError, address: str, now: float) -> None:
        self._refused[login] = (now, error.code, error.message)
        if len(self._refused) > _REMEMBERED_MOST:
            self._refused.popitem(last=False)
        with suppress(Problem):  # others that were on their way have taken all
            self._rates.take(address, now)

    def forget_old(self, now: float) -> None:
        while self._refused and now - next(iter(self._refused.values()))[0] >= REMEMBERED_SECONDS:
            self._refused.popitem(last=False)
