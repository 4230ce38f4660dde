"""The only place that tells time.

Invariant: every other room is handed a ``Clock``; a test hands it one that it can step.
"""

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970, for timestamps that people and records see."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for deadlines."""
        ...


class SystemClock:
    """The machine's own time."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class SteppedClock:
    """The machine's time plus what a test has advanced it by; listeners hear of every step.

    With ``frozen`` the machine's time does not count at all and only ``advance`` moves the clock.
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
        """Moves the clock on and tells everyone who waits for a moment."""
        if seconds < 0:
            raise ValueError("a clock does not go back")
        self._offset_seconds += seconds
        for listener in tuple(self._listeners):
            listener()

    def on_advance(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """Tells a listener nothing more; a clock outlives the brokers that it is lent to."""
        if listener in self._listeners:
            self._listeners.remove(listener)
