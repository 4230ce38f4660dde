"""A metadata store in memory, for brokers embedded in a test.

It keeps the same contract as the stores on disk. Stores that share a ``MemoryLog`` are brokers of one
cluster, each on an event loop and thread of its own if it likes; closing a store has the same effect as the
death of its broker.

Invariant: whoever touches a ``MemoryLog`` has its lock; what a store is told, it is told on its own loop.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence

from moldau.cluster.image import EMPTY_IMAGE
from moldau.cluster.records import Record
from moldau.cluster.store.contract import (
    ChangeListener,
    Changes,
    LostCallback,
    MetadataStoreError,
    SessionListener,
    StaleControllerEpoch,
    StaleVersion,
    compaction_due,
)


class MemoryLog:
    """What the brokers of one cluster share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.version = 0
        self.snapshot_version = 0
        self.snapshot: tuple[Record, ...] = ()
        #: The appends after the snapshot: the one at index i led to version snapshot_version + i + 1.
        self.appends: list[tuple[Record, ...]] = []
        self.appended_records = 0
        self.controller_epoch = 0
        self.controller: MemoryControllership | None = None
        #: Who waits to be the controller, first come, first served.
        self.candidates: deque[Callable[[], None]] = deque()
        self.live_sessions: set[int] = set()
        self.stores: list[MemoryStore] = []

    def elect(self) -> "MemoryControllership | None":
        """A new controllership, unless somebody has it."""
        with self.lock:
            if self.controller is not None:
                return None
            self.controller_epoch += 1
            self.controller = MemoryControllership(self, self.controller_epoch)
            return self.controller

    def resign(self, controllership: "MemoryControllership") -> None:
        with self.lock:
            if self.controller is controllership:
                self.controller = None
                for candidate in tuple(self.candidates):
                    candidate()

    def changes(self, after_version: int) -> Changes:
        if not self.snapshot_version <= after_version <= self.version:
            after_version = 0
        first = max(after_version - self.snapshot_version, 0)
        records = list(self.snapshot) if after_version == 0 else []
        for batch in self.appends[first:]:
            records.extend(batch)
        return Changes(after_version, self.version, records)

    def append(self, records: Sequence[Record]) -> None:
        self.version += 1
        self.appends.append(tuple(records))
        self.appended_records += len(records)
        if compaction_due(self.appended_records, len(self.snapshot)):
            self.snapshot = tuple(EMPTY_IMAGE.apply_all(self.changes(0).records).snapshot())
            self.snapshot_version = self.version
            self.appends.clear()
            self.appended_records = 0

    def notify_session_listeners(self) -> None:
        for store in self.stores:
            store.notify_session_listeners()


class MemorySession:
    def __init__(self, log: MemoryLog, broker_id: int) -> None:
        self._log = log
        self.broker_id = broker_id
        self._held = True

    async def release(self) -> None:
        with self._log.lock:
            if self._held:
                self._held = False
                self._log.live_sessions.remove(self.broker_id)
                self._log.notify_session_listeners()


class MemoryControllership:
    def __init__(self, log: MemoryLog, epoch: int) -> None:
        self._log = log
        self.epoch = epoch

    async def resign(self) -> None:
        self._log.resign(self)


class MemoryStore:
    sessions_outlive_processes = False

    def __init__(self, log: MemoryLog | None = None) -> None:
        self._log = MemoryLog() if log is None else log
        self._loop: asyncio.AbstractEventLoop | None = None
        self._position = 0
        self._listeners: list[ChangeListener] = []
        self._session_listeners: list[SessionListener] = []
        self._to_release: list[MemorySession | MemoryControllership] = []
        with self._log.lock:
            self._log.stores.append(self)

    async def load(self, after_version: int = 0) -> Changes:
        with self._log.lock:
            changes = self._log.changes(after_version)
        self._position = changes.version
        return changes

    async def append(self, records: Sequence[Record], expected_version: int, controller_epoch: int) -> int:
        log = self._log
        with log.lock:
            if controller_epoch < 1 or controller_epoch != log.controller_epoch:
                raise StaleControllerEpoch
            if expected_version != log.version:
                raise StaleVersion
            log.append(records)
            self._position = version = log.version
            for store in log.stores:
                if store is not self:
                    store.catch_up_soon()
        return version

    def watch(self, listener: ChangeListener) -> None:
        self._loop = asyncio.get_running_loop()
        self._listeners.append(listener)
        self.catch_up_soon()

    def catch_up_soon(self) -> None:
        if self._listeners:
            self._soon(self._catch_up)

    def _catch_up(self) -> None:
        with self._log.lock:
            if self._position >= self._log.version:
                return
            changes = self._log.changes(self._position)
        self._position = changes.version
        for listener in self._listeners:
            listener(changes)

    async def sessions(self) -> frozenset[int]:
        with self._log.lock:
            return frozenset(self._log.live_sessions)

    def watch_sessions(self, listener: SessionListener) -> None:
        self._loop = asyncio.get_running_loop()
        self._session_listeners.append(listener)
        self.notify_session_listeners()

    def notify_session_listeners(self) -> None:
        with self._log.lock:
            live = frozenset(self._log.live_sessions)
        for listener in self._session_listeners:
            self._soon(lambda listener=listener: listener(live))  # type: ignore[misc]

    async def open_session(self, broker_id: int, on_lost: LostCallback) -> MemorySession:
        with self._log.lock:
            if broker_id in self._log.live_sessions:
                raise MetadataStoreError(
                    f"Broker {broker_id} is running already: stop it, or give this one another node.id."
                )
            self._log.live_sessions.add(broker_id)
            self._log.notify_session_listeners()
        session = MemorySession(self._log, broker_id)
        self._to_release.append(session)
        return session

    async def declare_dead(self, broker_id: int) -> None:
        """A session here ends with its process in any case."""

    async def campaign(self, broker_id: int, on_lost: LostCallback) -> MemoryControllership:
        loop = asyncio.get_running_loop()
        vacant = asyncio.Event()

        def told() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(vacant.set)

        with self._log.lock:
            self._log.candidates.append(told)
        try:
            while (won := self._log.elect()) is None:
                await vacant.wait()
                vacant.clear()
        finally:
            with self._log.lock:
                self._log.candidates.remove(told)
        self._to_release.append(won)
        return won

    async def close(self) -> None:
        self._listeners.clear()
        self._session_listeners.clear()
        with self._log.lock:
            if self in self._log.stores:
                self._log.stores.remove(self)
        for each in self._to_release:
            if isinstance(each, MemorySession):
                await each.release()
            else:
                await each.resign()
        self._to_release.clear()

    def _soon(self, call: Callable[[], None]) -> None:
        """On this store's own loop, whichever thread asks for it."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)
