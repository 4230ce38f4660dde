"""How often each client may ask: a bucket of tokens for each of them, that fills as time goes by.

Pure: the time comes in. There are never more buckets than a limit: the one that was used longest ago goes,
and comes back full.
"""

from collections import OrderedDict

from moldau.web.problems import Problem

_MAX_CLIENTS = 10_000


class Rates:
    def __init__(self, per_second: float, burst: int, max_clients: int = _MAX_CLIENTS) -> None:
        self._per_second = per_second
        self._burst = float(max(burst, 1))
        self._max_clients = max_clients
        #: Tokens, and when they were counted.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, client: str, now: float) -> None:
        """429 where ``take`` would find no token."""
        if self._per_second > 0 and client in self._buckets and self._tokens(client, now) < 1:
            raise self._refusal(self._tokens(client, now))

    def take(self, client: str, now: float) -> None:
        """Takes a token; 429 where there is none, with how long to wait."""
        if self._per_second <= 0:
            return
        tokens = self._tokens(client, now)
        allowed = tokens >= 1
        self._buckets[client] = (tokens - 1 if allowed else tokens, now)
        self._buckets.move_to_end(client)
        if len(self._buckets) > self._max_clients:
            self._buckets.popitem(last=False)
        if not allowed:
            raise self._refusal(tokens)

    def _tokens(self, client: str, now: float) -> float:
        tokens, counted_at = self._buckets.get(client, (self._burst, now))
        return min(self._burst, tokens + (now - counted_at) * self._per_second)

    def _refusal(self, tokens: float) -> Problem:
        wait = max(1, round((1 - tokens) / self._per_second))
        return Problem(429, 429, "Too many requests: ask less often", {"Retry-After": str(wait)})
