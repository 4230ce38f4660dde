"""Requests that wait: for a partition to move, or for a moment to come.

A handler that cannot answer yet returns a ``Parked``: what it waits for, how long, and a function
that tries again. Waiting is a value; no coroutine hangs in the middle of a decision.

Invariant: a parked request is answered exactly once, or cancelled with its connection.
"""

from collections.abc import Callable, Iterable
from typing import Any

from moldau.base.tasks import Timer, Timers
from moldau.replication.partition import Partition


class Parked:
    """``attempt(expired)`` returns the response, or None to go on waiting; expired it must answer.

    What it raises is answered like a response.
    """

    __slots__ = ("_answer", "_timer", "attempt", "partitions", "seconds")

    def __init__(
        self, partitions: Iterable[Partition], seconds: float, attempt: Callable[[bool], Any | None]
    ) -> None:
        self.partitions = tuple(partitions)
        self.seconds = seconds
        self.attempt = attempt
        self._timer: Timer | None = None
        self._answer: Callable[[Any], None] | None = None


class Purgatory:
    def __init__(self, timers: Timers, limit: int) -> None:
        self._timers = timers
        self._limit = limit
        self._parked: set[Parked] = set()

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, parked: Parked, answer: Callable[[Any], None]) -> None:
        """Keeps the request until it can be answered; with no room left it is answered as expired."""
        if len(self._parked) >= self._limit:
            answer(parked.attempt(True))
            return
        parked._answer = answer
        self._parked.add(parked)

        def wake() -> None:
            self._try(parked, False)

        for partition in parked.partitions:
            partition.waiters[parked] = wake
        parked._timer = self._timers.after(parked.seconds, lambda: self._try(parked, True))

    def cancel(self, parked: Parked) -> None:
        """Forgets a request whose connection is gone."""
        if parked in self._parked:
            self._remove(parked)

    def expire_all(self) -> None:
        """Answers everything now: the broker is stopping."""
        for parked in tuple(self._parked):
            self._try(parked, True)

    def _try(self, parked: Parked, expired: bool) -> None:
        if parked not in self._parked:
            return
        try:
            response = parked.attempt(expired)
        except Exception as error:
            # It goes where the answer would go: whoever woke the request, a producer say, has no part in it.
            response = error
        if response is None:
            assert not expired, "an expired request must be answered"
            return
        answer = parked._answer
        self._remove(parked)
        assert answer is not None
        answer(response)

    def _remove(self, parked: Parked) -> None:
        self._parked.discard(parked)
        if parked._timer is not None:
            parked._timer.cancel()
        for partition in parked.partitions:
            partition.waiters.pop(parked, None)
