"""Event loops, timers and background tasks.

``Timers`` go by the broker's clock, so that a test which advances the clock reaches every deadline at once.
``Background`` keeps a reference to the tasks that nobody awaits.

Invariant: a background task that fails is logged, never swallowed.
"""

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from typing import Any, TypeVar

from moldau.base.clock import Clock, SteppedClock

log = logging.getLogger("moldau.tasks")
_T = TypeVar("_T")

#: So many deadlines are met in one turn of the loop; thousands of long polls may end at the same moment.
DUE_AT_ONCE = 200
#: So many cancelled deadlines may stay among the others, whatever their share.
_CANCELLED_KEPT = 1_000


class Timer:
    """One deadline. ``cancel`` is cheap: the entry stays in the heap until its time comes, or until such
    entries are most of the heap.
    """

    __slots__ = ("_timers", "callback")

    def __init__(self, callback: Callable[[], None], timers: "Timers | None" = None) -> None:
        self.callback: Callable[[], None] | None = callback
        #: In whose heap it is.
        self._timers = timers

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            if self._timers is not None:
                self._timers.one_was_cancelled()


class Timers:
    """Many deadlines by the broker's clock, on a single timer of the event loop.

    Invariant: what was cancelled takes no more room than what was not, however far away its deadline is.
    """

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = count()
        self._armed: asyncio.TimerHandle | None = None
        self._armed_for = float("inf")
        self._closed = False
        #: How many of the heap were cancelled.
        self._cancelled = 0
        if isinstance(clock, SteppedClock):
            clock.on_advance(self._clock_stepped)

    def after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback, self)
        deadline = self._clock.monotonic() + seconds
        heapq.heappush(self._heap, (deadline, next(self._order), timer))
        if deadline < self._armed_for:
            self._arm(deadline, seconds)
        return timer

    def every(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Calls ``callback`` periodically until the returned timer is cancelled."""
        outer = Timer(callback)

        def tick() -> None:
            if outer.callback is not None:
                outer.callback()
                self.after(seconds, tick)

        self.after(seconds, tick)
        return outer

    def run_due(self) -> None:
        self._armed = None
        self._armed_for = float("inf")
        now = self._clock.monotonic()
        left = DUE_AT_ONCE
        while left and self._heap and self._heap[0][0] <= now:
            timer = heapq.heappop(self._heap)[2]
            timer._timers = None
            if timer.callback is None:
                self._cancelled -= 1
            else:
                left -= 1
                timer.callback()
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
            self._cancelled -= 1
        if self._heap and not self._closed:
            deadline = self._heap[0][0]
            self._arm(deadline, deadline - now)

    def one_was_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > _CANCELLED_KEPT and self._cancelled > len(self._heap) // 2:
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def close(self) -> None:
        self._closed = True
        self._heap.clear()
        self._cancelled = 0
        if self._armed is not None:
            self._armed.cancel()
        if isinstance(self._clock, SteppedClock):
            self._clock.remove_listener(self._clock_stepped)

    def _arm(self, deadline: float, seconds: float) -> None:
        if self._armed is not None:
            self._armed.cancel()
        self._armed_for = deadline
        self._armed = self._loop.call_later(max(seconds, 0), self.run_due)

    def _clock_stepped(self) -> None:
        if not self._closed and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._rearm)

    def _rearm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
        self.run_due()


class Background:
    """Tasks that run beside the requests; ``stop`` cancels all of them and waits for their end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background task %s failed", task.get_name(), exc_info=error)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one, else the standard loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


async def together(*work: Awaitable[_T]) -> list[_T]:
    """What all of them give; when one fails the others are ended, and its error is raised as it is."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
