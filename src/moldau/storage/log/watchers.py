"""Readers that have seen all that a partition's log has for them are notified when that is no longer so.

A fetch session with thousands of partitions learns in this way which of them it has to look at.

Invariant: a watcher is notified inside the change, before anybody can read what came of it, and once: it
watches again after it has looked. It only makes a note; the partition may be half way through its change, and
is not to be read.
"""

from typing import Protocol

from moldau.storage.log.log import Log


class Watcher(Protocol):
    def moved(self) -> None:
        """What was watched may have changed, and is watched no longer."""
        ...


class Watchers:
    """Those who watch one partition."""

    __slots__ = ("_log", "_watching")

    def __init__(self) -> None:
        self._watching: dict[Watcher, None] = {}
        self._log: Log | None = None

    def __len__(self) -> int:
        return len(self._watching)

    def add(self, watcher: Watcher, log: Log) -> None:
        """``log`` is the one that the partition has now; when it gets another, it has to tell."""
        self._watching[watcher] = None
        self._log = log
        log.on_change = self.tell

    def discard(self, watcher: Watcher) -> None:
        self._watching.pop(watcher, None)

    def tell(self) -> None:
        """How far somebody may read, who leads, or what is known of a follower is about to be another."""
        log = self._log
        if log is not None:
            self._log = log.on_change = None
            watching, self._watching = self._watching, {}
            for watcher in watching:
                watcher.moved()
