"""Long work in short turns, so that nobody waits long for others: requests with many elements, connections
with many requests.

Invariant: one turn of the event loop gives a bounded time to all long work together, and everybody in the
queue has a turn before anybody has a second one.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Protocol, TypeAlias, TypeVar

from moldau.base.clock import stopwatch
from moldau.broker.context import RequestContext

#: How long one piece of long work goes on before others have their turn.
TURN_SECONDS = 0.002
#: How long the queue of connections is served in one turn of the loop.
_ROUND_SECONDS = 0.004
#: The same for all those together who have not logged in yet: whoever is let in goes first.
STRANGERS_SECONDS = 0.001
#: With so many connections in the queue, each has about this much time in a round of all of them.
_ALL_SECONDS = 0.05

#: A frame is handled in microseconds, as a rule; a look at the clock after each would be felt.
_FRAMES_BETWEEN_LOOKS = 8

_T = TypeVar("_T")

#: Work that pauses after every step; what it returns is its result.
Steps: TypeAlias = Generator[None, None, _T]


class Turn:
    """The turn of a coroutine with much to do, which asks between its steps whether it is over."""

    __slots__ = ("_now", "_seconds", "_until")

    def __init__(self, now: Callable[[], float] = stopwatch, seconds: float = TURN_SECONDS) -> None:
        self._now = now
        self._seconds = seconds
        self._until = now() + seconds

    @property
    def over(self) -> bool:
        return self._now() >= self._until

    async def give_way(self) -> None:
        """Lets others have their turn if this one is over."""
        if self._now() >= self._until:
            await asyncio.sleep(0)
            self._until = self._now() + self._seconds


async def in_turns(steps: Steps[_T], turn: Turn | None = None) -> _T:
    """Runs work to its end and returns its result; others have their turn between its steps."""
    turn = Turn() if turn is None else turn
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result
        if turn.over:
            await turn.give_way()


def at_once(steps: Steps[_T]) -> _T:
    """Runs work to its end without a pause: it is known to be short."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result


def if_large(context: RequestContext, steps: Steps[_T]) -> _T | Steps[_T]:
    """What a handler returns: the result of a short piece of work, or a long one to be done in turns."""
    return steps if context.large else at_once(steps)


class Waiting(Protocol):
    def go_on(self) -> None:
        """Does what fits a turn; queues itself again when there is more."""


class Rotation:
    """Those who had more to do than fits a turn: they go on one after the other."""

    __slots__ = (
        "_call_soon",
        "_now",
        "_queue",
        "_round_began",
        "_round_seconds",
        "called",
        "frames_between_looks",
        "turn_seconds",
    )

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        now: Callable[[], float] = stopwatch,
        round_seconds: float = _ROUND_SECONDS,
    ) -> None:
        """``call_soon`` calls a function in the next turn of the event loop."""
        self._call_soon = call_soon
        self._now = now
        self._round_seconds = round_seconds
        self._queue: deque[Waiting] = deque()
        self._round_began = 0.0
        #: Whether the time of this turn of the loop is counted: somebody waits, or has several requests.
        self.called = False
        #: How long a turn may be now: the longer the queue, the shorter.
        self.turn_seconds = TURN_SECONDS
        #: So many frames are handled before the time is looked at; with a queue it is looked at after each.
        self.frames_between_looks = _FRAMES_BETWEEN_LOOKS

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, one: Waiting) -> None:
        """Queues one who has more to do; it must not be in the queue already."""
        self._queue.append(one)
        self.frames_between_looks = 1
        self._call()

    def begin_round(self) -> None:
        """Somebody handles several requests at once: the time of this turn of the loop counts from now on.

        A thousand who each have a little to do would keep all others waiting otherwise.
        """
        self.called = True
        self._round_began = self._now()
        self._call_soon(self._serve)

    def is_spent(self) -> bool:
        """Whether this turn of the loop has had its time, so that who has much to do had better queue."""
        return self.called and self._now() - self._round_began > self._round_seconds

    def _call(self) -> None:
        if self._queue and not self.called:
            self.begin_round()

    def _serve(self) -> None:
        queue = self._queue
        if not queue:
            self.called = False
            return
        self.turn_seconds = min(TURN_SECONDS, _ALL_SECONDS / len(queue))
        until = self._now() + self._round_seconds
        try:
            for _ in range(len(queue)):
                queue.popleft().go_on()
                if self._now() >= until:
                    break
        finally:
            self.called = False
            self._call()
            if not queue:
                self.turn_seconds = TURN_SECONDS
                self.frames_between_looks = _FRAMES_BETWEEN_LOOKS
