"""A metadata store in memory, for brokers embedded in a test.

It keeps the same contract as the stores on disk, within one event loop. Stores that share a ``MemoryLog`` are
brokers of one cluster; closing a store has the same effect as the death of its broker.
"""

import asyncio
from collections.abc import Sequence

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
        self.version = 0
        self.snapshot_version = 0
        self.snapshot: tuple[Record, ...] = ()
        #: The appends after the snapshot: the one at index i led to version snapshot_version + i + 1.
        self.appends: list[tuple[Record, ...]] = []
        self.appended_records = 0
        self.controller_epoch = 0
        self.controller_lock = asyncio.Lock()
        self.live_sessions: set[int] = set()
        self.stores: list[MemoryStore] = []

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
        if self._held:
            self._held = False
            self._log.live_sessions.remove(self.broker_id)
            self._log.notify_session_listeners()


class MemoryControllership:
    def __init__(self, log: MemoryLog, epoch: int) -> None:
        self._log = log
        self.epoch = epoch
        self._held = True

    async def resign(self) -> None:
        if self._held:
            self._held = False
            self._log.controller_lock.release()


class MemoryStore:
    def __init__(self, log: MemoryLog | None = None) -> None:
        self._log = MemoryLog() if log is None else log
        self._log.stores.append(self)
        self._position = 0
        self._listeners: list[ChangeListener] = []
        self._session_listeners: list[SessionListener] = []
        self._to_release: list[MemorySession | MemoryControllership] = []

    async def load(self, after_version: int = 0) -> Changes:
        changes = self._log.changes(after_version)
        self._position = changes.version
        return changes

    async def append(
        self, records: Sequence[Record], expected_version: int, controller_epoch: int | None
    ) -> int:
        log = self._log
        if controller_epoch is not None and controller_epoch != log.controller_epoch:
            raise StaleControllerEpoch
        if expected_version != log.version:
            raise StaleVersion
        log.append(records)
        self._position = log.version
        for store in log.stores:
            if store is not self:
                store.catch_up_soon()
        return log.version

    def watch(self, listener: ChangeListener) -> None:
        self._listeners.append(listener)
        self.catch_up_soon()

    def catch_up_soon(self) -> None:
        if self._listeners:
            asyncio.get_running_loop().call_soon(self._catch_up)

    def _catch_up(self) -> None:
        if self._position < self._log.version:
            changes = self._log.changes(self._position)
            self._position = changes.version
            for listener in self._listeners:
                listener(changes)

    async def sessions(self) -> frozenset[int]:
        return frozenset(self._log.live_sessions)

    def watch_sessions(self, listener: SessionListener) -> None:
        self._session_listeners.append(listener)
        asyncio.get_running_loop().call_soon(listener, frozenset(self._log.live_sessions))

    def notify_session_listeners(self) -> None:
        for listener in self._session_listeners:
            asyncio.get_running_loop().call_soon(listener, frozenset(self._log.live_sessions))

    async def open_session(self, broker_id: int, on_lost: LostCallback) -> MemorySession:
        if broker_id in self._log.live_sessions:
            raise MetadataStoreError(
                f"Broker {broker_id} is running already: stop it, or give this one another node.id."
            )
        self._log.live_sessions.add(broker_id)
        self._log.notify_session_listeners()
        session = MemorySession(self._log, broker_id)
        self._to_release.append(session)
        return session

    async def campaign(self, broker_id: int, on_lost: LostCallback) -> MemoryControllership:
        await self._log.controller_lock.acquire()
        self._log.controller_epoch += 1
        controllership = MemoryControllership(self._log, self._log.controller_epoch)
        self._to_release.append(controllership)
        return controllership

    async def close(self) -> None:
        self._listeners.clear()
        self._session_listeners.clear()
        if self in self._log.stores:
            self._log.stores.remove(self)
        for each in self._to_release:
            if isinstance(each, MemorySession):
                await each.release()
            else:
                await each.resign()
        self._to_release.clear()
