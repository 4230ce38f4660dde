"""An event loop and a clock with virtual time, which passes when nothing is left to do.

The loop is asyncio's own, so that coroutines, timers and tasks of the broker run unchanged; only where a real
loop would sleep, this one advances its time.

Invariant: no real time, no sockets, no threads. Callbacks run in the order in which they were scheduled, so
that a run depends on nothing but its seed.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

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
