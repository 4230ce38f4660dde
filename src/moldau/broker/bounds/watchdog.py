"""Watches the event loop from a thread of its own: who keeps it for too long is counted, and named.

Every moment the loop is asked for a sign of life. While none comes, the stack of its thread tells what runs
there and for which client; when it comes, it is known for how long.

Invariant: the watcher never touches the broker's state. A machine that let the watcher itself wait is no
fault of the loop, and is not counted. Names are those of our own functions; how many are kept is bounded.
"""

import asyncio
import logging
import sys
import threading
from collections import Counter
from types import FrameType
from typing import Any

from moldau.base.clock import stopwatch

log = logging.getLogger("moldau.broker.watchdog")

#: Nobody may keep the loop for longer.
LEAST_SECONDS = 0.05
#: How often the loop is asked.
_PAUSE_SECONDS = 0.05
#: A wait that was this much longer than it was to be is the machine's.
_MACHINE_SECONDS = 0.05
_NAMES_MOST = 100
#: One line in the log for a name, and then silence about it for so long.
_SILENCE_SECONDS = 60.0
_OTHERS = "others"
#: Its objects know whose request is handled.
_CONNECTIONS = "moldau.broker.connection"


class Holds:
    """How often the loop was held, by whom, and the longest time."""

    __slots__ = ("_said", "by_name", "longest_ms")

    def __init__(self) -> None:
        self.by_name: Counter[str] = Counter()
        self.longest_ms = 0.0
        self._said: dict[str, float] = {}

    def add(self, name: str, client: str, seconds: float, now: float) -> None:
        if name not in self.by_name and len(self.by_name) >= _NAMES_MOST:
            name = _OTHERS
        self.by_name[name] += 1
        self.longest_ms = max(self.longest_ms, seconds * 1000)
        if now - self._said.get(name, -_SILENCE_SECONDS) >= _SILENCE_SECONDS:
            self._said[name] = now
            log.warning("%s kept the event loop for %.0f ms%s", name, seconds * 1000, client)


class Watchdog:
    def __init__(self, loop: asyncio.AbstractEventLoop, holds: Holds) -> None:
        """Made on the loop's own thread."""
        self._loop = loop
        self._holds = holds
        self._watched = threading.get_ident()
        self._alive = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="moldau-watchdog", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(1)

    def _watch(self) -> None:
        while not self._stopped.wait(_PAUSE_SECONDS):
            self._alive.clear()
            asked = stopwatch()
            try:
                self._loop.call_soon_threadsafe(self._alive.set)
            except RuntimeError:  # it is closed
                return
            if self._alive.wait(LEAST_SECONDS):
                continue
            if stopwatch() - asked > LEAST_SECONDS + _MACHINE_SECONDS:
                continue
            name, client = _running(sys._current_frames().get(self._watched))
            while not self._alive.wait(_PAUSE_SECONDS):
                if self._stopped.is_set():
                    return
            now = stopwatch()
            self._holds.add(name, client, now - asked, now)


def _running(frame: FrameType | None) -> tuple[str, str]:
    """The innermost function of ours on a stack, and whose request it works for."""
    name, client = "", ""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not name and module.startswith("moldau."):
            name = f"{module}.{frame.f_code.co_name}"
        owner: Any = frame.f_locals.get("self") if module == _CONNECTIONS else None
        if hasattr(owner, "peer"):
            client = f", for {owner.peer} ({owner.client_id or 'no client id'})"
            break
        frame = frame.f_back
    return name or _OTHERS, client
