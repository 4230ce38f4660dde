"""How long a handler is at work: the time that it holds the event loop, and not the time that it waits.

    busy = BusyTime(clock.monotonic)
    result = busy.measured(lambda: handle(request, context))    # what it returns is measured too, to its end

Invariant: what a handler returns ends as it would without being measured: with the same answer or error.
"""

import inspect
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from moldau.broker.purgatory import Parked


class BusyTime:
    __slots__ = ("_now", "seconds")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.seconds = 0.0

    def measured(self, work: Callable[[], Any]) -> Any:
        """What a handler returns, or a request that waits at its next try."""
        result = self._call(work)
        if isinstance(result, Parked):
            attempt = result.attempt
            result.attempt = lambda expired: self.measured(partial(attempt, expired))
            return result
        if inspect.isawaitable(result):
            return _Awaited(self._driven(result.__await__()))
        if inspect.isgenerator(result):
            return self._driven(result)
        return result

    def _call(self, work: Callable[[], Any]) -> Any:
        began = self._now()
        try:
            return work()
        finally:
            self.seconds += self._now() - began

    def _driven(self, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = partial(next, steps)
        while True:
            try:
                asked = self._call(step)
            except StopIteration as end:
                found = end.value
                break
            try:
                step = partial(steps.send, (yield asked))
            except BaseException as error:
                step = partial(steps.throw, error)
        # It may go on: with another wait, or with work in steps.
        return self.measured(lambda: found)


class _Awaited:
    def __init__(self, steps: Generator[Any, Any, Any]) -> None:
        self._steps = steps

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._steps
