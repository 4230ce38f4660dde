"""The only module that reads the time.

Invariant: everything else is given a ``Clock``, so that a test can give it one that it steps by hand.
"""

import time
from collections.abc import Callable
from typing import Protocol

#: Seconds from nowhere, to measure how long work takes: never for deadlines, which follow a ``Clock``.
stopwatch: Callable[[], float] = time.perf_counter
#: Seconds of CPU that the calling thread has used.
thread_seconds: Callable[[], float] = time.thread_time


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970, for timestamps that people and records see."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for deadlines."""
        ...


class SystemClock:
    """The time of the machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class SteppedClock:
    """The time of the machine plus what a test has advanced it by; listeners are called at every advance.

    With ``frozen`` only ``advance`` moves the clock.
    """

    def __init__(self, *, frozen: bool = False, start_ms: int = 1_700_000_000_000) -> None:
        self._frozen = frozen
        self._start_ms = start_ms
        self._offset_seconds = 0.0
        self._listeners: list[Callable[[], None]] = []

    def now_ms(self) -> int:
        base = self._start_ms if self._frozen else time.time_ns() // 1_000_000
        return base + round(self._offset_seconds * 1000)

    def monotonic(self) -> float:
        return (0.0 if self._frozen else time.monotonic()) + self._offset_seconds

    @property
    def advanced_seconds(self) -> float:
        """By how much all calls of ``advance`` together have moved it."""
        return self._offset_seconds

    def advance(self, seconds: float) -> None:
        """Moves the clock forward and calls the listeners, which look for deadlines that have passed."""
        if seconds < 0:
            raise ValueError("a clock does not go back")
        self._offset_seconds += seconds
        for listener in tuple(self._listeners):
            listener()

    def on_advance(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[], None]) -> None:
        """For a broker that stops: its clock may be in use by others."""
        if listener in self._listeners:
            self._listeners.remove(listener)
