"""Quotas as functions of values: which one counts for a client, and how long a client has to wait.

Invariant: the most specific quota wins, in Kafka's order. A rate is measured over windows, of which the
oldest is let go of whole; a first request of n bytes at a quota q waits n/q - (windows - 1) x size seconds,
as Kafka's does. The clock is an argument.
"""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATION = "request_percentage", "controller_mutation_rate"
CONNECTIONS = "connection_creation_rate"


class QuotaEntity(NamedTuple):
    """For whom a quota is: None where the entity has no such part, "" for the default of that part."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


#: The quotas of users and clients; addresses have the other one.
CLIENT_QUOTAS = (PRODUCE, FETCH, REQUEST, MUTATION)
DEFAULT = ""


def entity_of(parts: Mapping[str, str | None]) -> QuotaEntity:
    """From the names of the protocol: ``{"user": "ann", "client-id": None}``, None being the default."""
    named = {kind: DEFAULT if name is None else name for kind, name in parts.items()}
    return QuotaEntity(named.get("user"), named.get("client-id"), named.get("ip"))


def parts_of(entity: QuotaEntity) -> dict[str, str | None]:
    """The reverse."""
    parts = {"user": entity.user, "client-id": entity.client_id, "ip": entity.ip}
    return {kind: name or None for kind, name in parts.items() if name is not None}


def shown_entity(entity: QuotaEntity) -> str:
    """As Kafka's messages have it: ``{user=ann}``."""
    inside = ", ".join(f"{kind}={name or '<default>'}" for kind, name in sorted(parts_of(entity).items()))
    return f"{{{inside}}}"


Quotas = Mapping[QuotaEntity, Mapping[str, float]]


class Quota(NamedTuple):
    """A limit, and what shares it: everybody with the same entity and the same parts filled in."""

    limit: float
    shared_by: tuple[str, str | None, str | None]


def quota_of(quotas: Quotas, name: str, user: str, client_id: str | None) -> Quota | None:
    """The quota that counts for a client; users and clients of a default each have a rate of their own."""
    client = client_id or None
    levels = (
        (QuotaEntity(user, client), client),
        (QuotaEntity(user, DEFAULT), client),
        (QuotaEntity(user), user),
        (QuotaEntity(DEFAULT, client), client),
        (QuotaEntity(DEFAULT, DEFAULT), client),
        (QuotaEntity(DEFAULT), user),
        (QuotaEntity(None, client), client),
        (QuotaEntity(None, DEFAULT), client),
    )
    for entity, needed in levels:
        limit = quotas.get(entity, {}).get(name) if needed is not None else None
        if limit is not None:
            whose_user = None if entity.user is None else user
            whose_client = None if entity.client_id is None else client
            return Quota(limit, (name, whose_user, whose_client))
    return None


class Rate:
    """What was used, in windows of time: the rate is over all windows, whether they had anything or not."""

    __slots__ = ("_samples", "_seconds", "_size", "_windows")

    def __init__(self, windows: int, window_seconds: float) -> None:
        self._windows = windows
        self._size = window_seconds
        #: The start of each window, and what was used in it.
        self._samples: deque[list[float]] = deque()
        self._seconds = windows * window_seconds

    def record(self, now: float, amount: float) -> None:
        samples = self._samples
        if not samples or now - samples[-1][0] >= self._size:
            samples.append([now, 0.0])
            if len(samples) > self._windows:
                samples.popleft()
        samples[-1][1] += amount

    def used(self, now: float) -> tuple[float, float]:
        """What was used lately, and over how many seconds that is counted."""
        samples = self._samples
        while samples and now - samples[0][0] >= self._seconds:
            samples.popleft()
        elapsed = now - samples[0][0] if samples else 0.0
        # A rate over a moment says nothing: at least all windows but one are counted.
        complete = int(elapsed / self._size)
        missing = max(0, self._windows - 1 - complete)
        return sum(amount for _, amount in samples), elapsed + missing * self._size

    def throttle_seconds(self, now: float, limit: float) -> float:
        """How long to wait until the rate is the limit again; 0 where it is not above it."""
        used, seconds = self.used(now)
        if used <= limit * seconds:
            return 0.0
        return used / limit - seconds

    def left(self, now: float, limit: float) -> float:
        """How much more may be used now."""
        used, seconds = self.used(now)
        return limit * seconds - used


class TokenBucket:
    """A bucket that fills at a rate up to a burst, and may be overdrawn by one large use."""

    __slots__ = ("_at", "_tokens", "burst_seconds")

    def __init__(self, burst_seconds: float) -> None:
        self.burst_seconds = burst_seconds
        self._tokens: float | None = None
        self._at = 0.0

    def _fill(self, now: float, limit: float) -> float:
        burst = limit * self.burst_seconds
        tokens = burst if self._tokens is None else min(burst, self._tokens + (now - self._at) * limit)
        self._tokens, self._at = tokens, now
        return tokens

    def has_left(self, now: float, limit: float) -> bool:
        return self._fill(now, limit) >= 0

    def use(self, now: float, limit: float, amount: float) -> None:
        self._tokens = self._fill(now, limit) - amount

    def throttle_seconds(self, now: float, limit: float) -> float:
        """How long until the bucket is not overdrawn any more."""
        tokens = self._fill(now, limit)
        return -tokens / limit if tokens < 0 else 0.0
