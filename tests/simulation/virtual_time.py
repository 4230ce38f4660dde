"""An event loop and a clock with virtual time, which passes when nothing is left to do.

The loop is asyncio's own, so that coroutines, timers and tasks of the broker run unchanged; only where a real
loop would sleep, this one advances its time.

Invariant: no real time, no sockets, no threads. Callbacks run in the order in which they were scheduled, so
that a run depends on nothing but its seed.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest import mock

from moldau.base import clock as clock_module
from moldau.base.tasks import Background
from moldau.broker.bounds.turns import Rotation, Turn
from moldau.broker.purgatory import Purgatory
from moldau.broker.server import Server

START_MS = 1_700_000_000_000


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._seconds = 0.0
        #: The number of iterations, as a measure of how much happened.
        self.turns = 0
        # What asyncio asks for news from outside; there is no outside.
        self._selector = self

    def time(self) -> float:
        return self._seconds

    def select(self, timeout: float | None) -> Sequence[Any]:
        self.turns += 1
        if timeout is None:
            raise RuntimeError("nobody has anything to do, and nobody ever will")
        self._seconds += timeout
        return ()

    def skip(self, seconds: float) -> None:
        """The whole world stands still for so long: what was due meanwhile comes late, all at once."""
        self._seconds += seconds

    def _process_events(self, event_list: Sequence[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who could be woken."""


class VirtualClock:
    """The broker's clock. Its calendar may be set, as by people and by NTP; its seconds never go back."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._set_by_ms = 0

    def now_ms(self) -> int:
        return START_MS + self._set_by_ms + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()

    def set_by(self, ms: int) -> None:
        self._set_by_ms += ms


class InOrder(dict[Any, None]):
    """A set that is gone through in the order in which its elements came, not in that of their addresses."""

    def add(self, element: Any) -> None:
        self[element] = None

    def discard(self, element: Any) -> None:
        super().pop(element, None)

    remove = discard


def without_the_machine(now: Callable[[], float]) -> ExitStack:
    """How long work takes on this machine, and where its objects lie in memory, decides nothing meanwhile.

    A stopwatch shows ``now``, also where it is the default of a parameter; sets of objects keep their order.
    """
    stack = ExitStack()
    stopwatch = clock_module.stopwatch
    for name, module in sys.modules.copy().items():  # a thread may import something meanwhile
        # Not the clock's own: a module that is imported meanwhile would keep the virtual one for ever.
        is_ours = name.startswith("moldau.") and module is not clock_module
        if is_ours and getattr(module, "stopwatch", None) is stopwatch:
            stack.enter_context(mock.patch.object(module, "stopwatch", now))
    for begin in (Turn.__init__, Rotation.__init__):
        defaults = tuple(now if each is stopwatch else each for each in begin.__defaults__ or ())
        assert now in defaults
        stack.enter_context(mock.patch.object(begin, "__defaults__", defaults))
    for owner, name in ((Server, "connections"), (Purgatory, "_parked"), (Background, "_tasks")):
        stack.enter_context(_in_order(owner, name))
    return stack


def _in_order(owner: Any, name: str) -> Any:
    begin = owner.__init__

    def begin_in_order(self: Any, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        setattr(self, name, InOrder())

    return mock.patch.object(owner, "__init__", begin_in_order)
