"""What the log says about peers that misbehave: a line each, but only so many a second.

Invariant: peers cannot make the log grow faster than ``_LINES_A_SECOND``; what is left out is counted, and
the count is written.
"""

import logging
from collections.abc import Callable

from moldau.base.clock import stopwatch

log = logging.getLogger("moldau.broker.connection")

_LINES_A_SECOND = 10


class Complaints:
    __slots__ = ("_call_later", "_left_out", "_now", "_second_began", "_written")

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], None]], object] | None = None,
        now: Callable[[], float] = stopwatch,
    ) -> None:
        """``call_later`` calls a function after so many seconds; without it nothing is left out."""
        self._call_later = call_later
        self._now = now
        self._second_began = -1.0
        self._written = 0
        self._left_out = 0

    def closing(self, peer: str, listener_name: str, reason: str) -> None:
        """A connection is closed because of its peer."""
        if self._may_write():
            log.warning("closing connection from %s on %s: %s", peer, listener_name, reason)

    def _may_write(self) -> bool:
        if self._call_later is None:
            return True
        now = self._now()
        if now - self._second_began >= 1.0:
            self._second_began, self._written = now, 0
        self._written += 1
        if self._written <= _LINES_A_SECOND:
            return True
        if not self._left_out:
            self._call_later(1.0, self._say_how_many)
        self._left_out += 1
        return False

    def _say_how_many(self) -> None:
        count, self._left_out = self._left_out, 0
        log.warning("closed %d more connections because of what their peers did", count)
