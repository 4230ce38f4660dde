"""How tests wait: until something is true, never for a time that is hoped to be enough.

``wait_until`` is for what threads and processes do, ``until`` for what goes on in the loop of the test. Both
look often at first and then less often, return what the condition returned, and fail with what is known when
the patience is over: a busy machine makes them slower, and no test fail. ``turns`` lets the loop run what is
ready: it takes no time, and is for tests that know how many steps there are.

Invariant: the only place of the tests that sleeps. What has to sleep elsewhere (a moment that is drawn by
lot, a load that lasts) says why in the same line; ``tests/test_waiting.py`` looks.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

#: Long for a machine that is busy with other things, and shorter than the timeout of a test.
PATIENCE_SECONDS = 60.0
_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.001, 0.05

T = TypeVar("T")
What = str | Callable[[], object]


def _pauses(what: What, seconds: float) -> Iterator[float]:
    """The pauses between two looks, until the patience is over."""
    deadline, pause = time.monotonic() + seconds, _SHORTEST_SECONDS
    while time.monotonic() < deadline:
        yield pause
        pause = min(pause * 1.5, _LONGEST_SECONDS)
    known = what() if callable(what) else what
    raise AssertionError(f"waited {seconds:g} s in vain: {known}")


def wait_until(condition: Callable[[], T], what: What = "", *, seconds: float = PATIENCE_SECONDS) -> T:
    """What the condition returns as soon as it is true."""
    pauses = _pauses(what, seconds)
    while not (found := condition()):
        time.sleep(next(pauses))
    return found


async def until(
    condition: Callable[[], T | Awaitable[T]], what: What = "", *, seconds: float = PATIENCE_SECONDS
) -> T:
    """The same in a loop; the condition may be a coroutine function."""
    pauses = _pauses(what, seconds)
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found  # type: ignore[return-value]
        await asyncio.sleep(next(pauses))


async def turns(count: int = 1) -> None:
    """Everything that is ready to run in the loop has its turn, so many times."""
    for _ in range(count):
        await asyncio.sleep(0)
