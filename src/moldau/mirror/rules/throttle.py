"""A bound on the bytes a second of a flow.

Invariant: pure; time comes in as an argument. Over any longer stretch no more than the rate passes, after at
most one second's worth at once.
"""


class Throttle:
    __slots__ = ("_available", "_last", "rate")

    def __init__(self, rate: float | None) -> None:
        """``rate`` in bytes a second; None lets everything pass."""
        self.rate = rate
        self._available = 0.0 if rate is None else rate
        self._last: float | None = None

    def pause(self, size: int, now: float) -> float:
        """Takes ``size`` bytes; the seconds to wait before they may go on."""
        rate = self.rate
        if rate is None:
            return 0.0
        elapsed = 0.0 if self._last is None else max(0.0, now - self._last)
        self._last = now
        self._available = min(rate, self._available + elapsed * rate) - size
        return max(0.0, -self._available / rate)
