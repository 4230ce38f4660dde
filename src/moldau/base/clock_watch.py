"""Notices that the time of the machine has jumped: somebody set it, or the machine slept.

Retention, timestamps, the lifetime of tokens and certificates go by that time. Deadlines do not: they follow
the monotonic clock, and hold across a jump.

Invariant: nothing is done but to count it and to say it. A thread that was late is no jump, for both clocks
were late together.
"""

import logging

from moldau.base.clock import Clock

log = logging.getLogger("moldau.clock")

CHECK_SECONDS = 1.0
#: NTP turns the clock by less than that between two looks.
_JUMP_MS = 500


class ClockWatch:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._difference = self._now()
        self.jumps = 0
        self.last_jump_ms = 0

    def _now(self) -> float:
        """By how much one clock is before the other, in milliseconds; it stays the same without a jump."""
        return self._clock.now_ms() - self._clock.monotonic() * 1000

    def check(self) -> None:
        difference = self._now()
        jump = round(difference - self._difference)
        self._difference = difference
        if abs(jump) < _JUMP_MS:
            return
        self.jumps += 1
        self.last_jump_ms = jump
        log.warning(
            "the time of this machine has jumped %s by %.1f s: retention and timestamps follow it",
            "forward" if jump > 0 else "back",
            abs(jump) / 1000,
        )
