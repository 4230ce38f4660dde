"""What all connections of a loop share: their bounds, the buffers that requests arrive in, and the count of
answers that nobody takes.

Invariant: what connections hold is bounded over all of them. The more of them hold back what has arrived, the
less is read at a time; answers that are not taken have no more than ``limit`` bytes: beyond that the
connection that has taken nothing for the longest time is closed.
"""

from typing import Protocol

from moldau.base.buffer_pool import BufferPool
from moldau.broker.bounds.complaints import Complaints
from moldau.broker.bounds.turns import Rotation

#: Enough for a few hundred small requests or a dozen batches in one read.
RECEIVE_BUFFER_BYTES = 256 * 1024
#: So much is read at a time when many connections hold bytes back.
_CROWDED_RECEIVE_BYTES = 16 * 1024
_MANY_HELD_BACK = 64


class Limits:
    """Bounds of a connection, from the settings."""

    __slots__ = ("frame_bytes", "inflight_requests", "of_strangers", "outbound_bytes")

    def __init__(
        self, frame_bytes: int, inflight_requests: int, outbound_bytes: int, *, of_strangers: bool = False
    ) -> None:
        """``of_strangers``: whether they are for those who have not logged in yet."""
        self.frame_bytes = frame_bytes
        self.inflight_requests = inflight_requests
        self.outbound_bytes = outbound_bytes
        self.of_strangers = of_strangers


class Intake:
    """The buffers that requests arrive in, and the queues of connections with more than fits a turn."""

    __slots__ = ("_held_back", "_whole", "complaints", "memory", "rotation", "scratch", "strangers")

    def __init__(
        self,
        rotation: Rotation,
        scratch: memoryview | None = None,
        strangers: Rotation | None = None,
        complaints: Complaints | None = None,
    ) -> None:
        """``strangers``: the queue of those who have not logged in yet, where they have one of their own."""
        self._whole = memoryview(bytearray(RECEIVE_BUFFER_BYTES)) if scratch is None else scratch
        #: Each read is handled, or what is held back of it copied, before the next one begins.
        self.scratch = self._whole
        #: For frames that are larger: a producer sends one after the other.
        self.memory = BufferPool(kept=4, largest=2 * 1024 * 1024)
        self.rotation = rotation
        self.strangers = rotation if strangers is None else strangers
        self.complaints = Complaints() if complaints is None else complaints
        self._held_back = 0

    def hold_back(self, connections: int) -> None:
        """So many connections more, or fewer, hold back what they have received."""
        self._held_back += connections
        crowded = self._held_back > _MANY_HELD_BACK
        self.scratch = self._whole[:_CROWDED_RECEIVE_BYTES] if crowded else self._whole


class Stalled(Protocol):
    def give_up(self, reason: str) -> None:
        """Ends the connection at once; what was not sent is dropped."""


class UnsentAnswers:
    """By connection, the one that has stood still for the longest time first."""

    __slots__ = ("_by_connection", "_total", "crowded", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._by_connection: dict[Stalled, int] = {}
        self._total = 0
        #: Whether half of the limit is used: then connections read less ahead.
        self.crowded = False

    def __len__(self) -> int:
        return self._total

    def add(self, connection: Stalled, size: int) -> None:
        self._by_connection[connection] = self._by_connection.get(connection, 0) + size
        self._count(size)
        while self._total > self.limit:
            longest = next(iter(self._by_connection))
            waiting = self._by_connection[longest]
            self.forget(longest)
            longest.give_up(
                f"it has not taken {waiting} bytes of answers, and moldau.unsent.bytes.max={self.limit} "
                "is reached"
            )

    def forget(self, connection: Stalled) -> None:
        self._count(-self._by_connection.pop(connection, 0))

    def _count(self, size: int) -> None:
        self._total += size
        self.crowded = 2 * self._total > self.limit
