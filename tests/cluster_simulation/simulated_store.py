"""The metadata store of a simulated cluster: slow, out of reach now and then, with sessions that run out.

It keeps the contract of ``cluster/store/contract.py`` as ZooKeeper does: a session lives on for a while after
its process has died, unless others have seen that; a process that cannot reach the store loses its session
before the store gives it away, unless the process itself stood still.

Invariant: one append at a time, in order, fenced by the controller's epoch. What a process is told, it is
told in its own context: not at all when it is dead, late when it stands still.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from moldau.cluster.records import Record
from moldau.cluster.store.contract import (
    ChangeListener,
    Changes,
    LostCallback,
    MetadataStoreError,
    SessionListener,
    StaleControllerEpoch,
    StaleVersion,
)
from moldau.cluster.store.memory import MemoryLog
from tests.cluster_simulation.processes import Process
from tests.cluster_simulation.simulated_network import NetworkLoop

#: When a process gives its session up by itself, as a part of the session's time.
_GIVEN_UP = 0.7
_GIVE_UP_SECONDS = 1.0


class StoreServer:
    """What all stores of the cluster reach: the log, who is there, who is the controller."""

    def __init__(self, loop: NetworkLoop, seed: int, session_seconds: float) -> None:
        self.loop = loop
        self.dice = Random(f"store {seed}")
        self.session_seconds = session_seconds
        self.longest_delay = self.dice.choice((0.004, 0.03, 0.15))
        self.log = MemoryLog()
        self.sessions: dict[int, SimulatedStore] = {}
        self.controller: SimulatedStore | None = None
        self.controller_epoch = 0
        self.stores: list[SimulatedStore] = []
        #: Processes that do not reach it.
        self.cut: set[Process] = set()
        #: Since when, and the number of the silence that it is: one that stood still meanwhile has another.
        self._cut_since: dict[Process, tuple[float, int]] = {}
        #: A bug made on purpose: appends are taken from any controller, whatever it has read.
        self.fences = True

    def delay(self) -> float:
        return self.dice.uniform(0.0002, self.longest_delay)

    def silence(self, process: Process) -> None:
        """The process is cut off, stands still or is dead from now on; its session may run out."""
        store = self._store_of(process)
        if store is not None:
            store.silences += 1
            number = store.silences
            self.loop.call_outside(self.session_seconds, lambda: self._expire(store, number))

    def heard(self, process: Process) -> None:
        store = self._store_of(process)
        if store is not None:
            store.silences += 1
            if store.expired:
                # It learns of it some time after it has come back.
                process.call_later(self.dice.uniform(0, 0.2), store.lose)

    def cut_off(self, process: Process) -> None:
        self.cut.add(process)
        self.silence(process)
        store = self._store_of(process)
        if store is not None:
            number = store.silences
            if not process.paused:
                self._cut_since[process] = self.loop.time(), number
            process.call_later(self.session_seconds * _GIVEN_UP, store.give_up, number)

    def has_outlived_its_session(self, process: Process) -> bool:
        """Whether it has been cut off, and able to notice, for longer than a session lasts."""
        store = self._store_of(process)
        if process not in self.cut or store is None or process not in self._cut_since or process.paused:
            return False
        since, number = self._cut_since[process]
        return store.silences == number and self.loop.time() - since > self.session_seconds

    def heal(self) -> None:
        healed, self.cut = self.cut, set()
        for process in sorted(healed, key=str):
            if process.alive:
                self.heard(process)

    def _store_of(self, process: Process) -> "SimulatedStore | None":
        return next((each for each in self.stores if each.process is process), None)

    def _expire(self, store: "SimulatedStore", number: int) -> None:
        if store.silences == number:
            self.end(store)

    def end(self, store: "SimulatedStore") -> None:
        """Its session is over, and so is its controllership."""
        store.expired = True
        for broker_id, holder in tuple(self.sessions.items()):
            if holder is store:
                del self.sessions[broker_id]
                self._tell_sessions()
        self.end_controllership(store)
        if not store.process.alive and store in self.stores:
            self.stores.remove(store)

    def end_controllership(self, store: "SimulatedStore") -> None:
        if self.controller is store:
            self.controller = None
            for other in tuple(self.stores):
                other.tell(other.vacant)

    def _tell_sessions(self) -> None:
        for store in tuple(self.stores):
            store.tell(store.sessions_moved)

    def tell_changes(self, author: "SimulatedStore") -> None:
        for store in tuple(self.stores):
            if store is not author:
                store.tell(store.catch_up)


class _Held:
    def __init__(self, release: Callable[[], None], broker_id: int = -1, epoch: int = -1) -> None:
        self._release = release
        self.broker_id = broker_id
        self.epoch = epoch

    async def release(self) -> None:
        self._release()

    async def resign(self) -> None:
        self._release()


class SimulatedStore:
    """One process's view of it."""

    sessions_outlive_processes = True

    def __init__(self, server: StoreServer, process: Process) -> None:
        self._server = server
        self.process = process
        self._position = 0
        self._listeners: list[ChangeListener] = []
        self._session_listeners: list[SessionListener] = []
        self._lost_callbacks: list[LostCallback] = []
        self._vacant = asyncio.Event()
        self.silences = 0
        self.expired = False
        self._closed = False
        server.stores.append(self)

    # --- what the server does with it ----------------------------------------------------------------

    def tell(self, callback: Callable[[], None]) -> None:
        """Later, and only when it can be reached."""

        def arrive() -> None:
            if self.process in self._server.cut:
                self._server.loop.call_outside(0.1, arrive)
            elif self.process.alive and not self._closed:
                self.process.call_soon(callback)

        self._server.loop.call_outside(self._server.delay(), arrive)

    def vacant(self) -> None:
        self._vacant.set()

    def catch_up(self) -> None:
        log = self._server.log
        if self._listeners and self._position < log.version:
            changes = log.changes(self._position)
            self._position = changes.version
            for listener in self._listeners:
                listener(changes)

    def sessions_moved(self) -> None:
        live = frozenset(self._server.sessions)
        for listener in self._session_listeners:
            listener(live)

    def give_up(self, number: int) -> None:
        """The store has been silent for so long that the session may be over."""
        if self.silences == number:
            self.lose()

    def lose(self) -> None:
        callbacks, self._lost_callbacks = self._lost_callbacks, []
        for callback in callbacks:
            callback()

    # --- the contract -----------------------------------------------------------------------------------

    async def _way(self) -> None:
        """To the server or back; an error when it takes too long."""
        await asyncio.sleep(self._server.delay())
        waited = 0.0
        while self.process in self._server.cut:
            if waited > _GIVE_UP_SECONDS:
                raise MetadataStoreError("the store cannot be reached")
            await asyncio.sleep(0.1)
            waited += 0.1

    async def load(self, after_version: int = 0) -> Changes:
        await self._way()
        changes = self._server.log.changes(after_version)
        await self._way()
        self._position = max(self._position, changes.version)
        return changes

    async def append(self, records: Sequence[Record], expected_version: int, controller_epoch: int) -> int:
        await self._way()
        server = self._server
        if server.fences:
            if controller_epoch != server.controller_epoch or self.expired:
                raise StaleControllerEpoch
            if expected_version != server.log.version:
                raise StaleVersion
        server.log.append(records)
        version = server.log.version
        server.tell_changes(self)
        await self._way()
        self._position = max(self._position, version)
        return version

    def watch(self, listener: ChangeListener) -> None:
        self._listeners.append(listener)
        self.tell(self.catch_up)

    async def sessions(self) -> frozenset[int]:
        await self._way()
        live = frozenset(self._server.sessions)
        await self._way()
        return live

    def watch_sessions(self, listener: SessionListener) -> None:
        self._session_listeners.append(listener)
        self.tell(self.sessions_moved)

    async def open_session(self, broker_id: int, on_lost: LostCallback) -> _Held:
        server = self._server
        while True:
            await self._way()
            holder = server.sessions.get(broker_id)
            if holder is None or holder is self:
                break
            await asyncio.sleep(0.1)
        self.expired = False
        self._lost_callbacks.append(on_lost)
        if holder is None:
            server.sessions[broker_id] = self
            server._tell_sessions()

        def release() -> None:
            if server.sessions.get(broker_id) is self:
                del server.sessions[broker_id]
                server._tell_sessions()

        return _Held(release, broker_id=broker_id)

    async def declare_dead(self, broker_id: int) -> None:
        await self._way()
        holder = self._server.sessions.get(broker_id)
        if holder is not None and holder is not self:
            self._server.end(holder)
            if holder.process.alive:
                holder.tell(holder.lose)

    async def campaign(self, broker_id: int, on_lost: LostCallback) -> _Held:
        server = self._server
        while True:
            self._vacant.clear()
            await self._way()
            if server.controller in (None, self) and server.sessions.get(broker_id) is self:
                break
            if server.controller in (None, self):
                await asyncio.sleep(0.1)  # a session comes first
                continue
            await self._vacant.wait()
        server.controller = self
        server.controller_epoch += 1
        self._lost_callbacks.append(on_lost)
        return _Held(lambda: server.end_controllership(self), epoch=server.controller_epoch)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._lost_callbacks.clear()
            self._server.end(self)
            if self in self._server.stores:
                self._server.stores.remove(self)
