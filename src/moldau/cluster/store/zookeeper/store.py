"""The metadata store of a cluster of machines: a ZooKeeper ensemble, through kazoo.

A broker's session is the ephemeral ``/brokers/ids/<id>``, the controllership the ephemeral ``/controller``
with its epoch in ``/controller_epoch``, as Kafka 3.9 has them.

Invariant: the event loop never waits for the network: every call runs on the one thread of this store, in the
order of the calls, and what ZooKeeper reports is brought to the loop. A session counts as lost when ZooKeeper
says so, and already when it has not been reached for so long that it might: before another broker can be
told that this one is gone, this one has stopped acting.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError
from kazoo.protocol.states import EventType

from moldau.base.clock import Clock
from moldau.base.tasks import Background
from moldau.cluster.records import MetadataError, Record
from moldau.cluster.store.contract import (
    ChangeListener,
    Changes,
    LostCallback,
    MetadataStoreError,
    SessionListener,
)
from moldau.cluster.store.zookeeper import tree
from moldau.cluster.store.zookeeper.connection import CONNECTED, Connection
from moldau.cluster.store.zookeeper.settings import ZooKeeperSettings
from moldau.cluster.store.zookeeper.znode_log import CONTROLLER_EPOCH, ZnodeLog

_logger = logging.getLogger(__name__)
_Result = TypeVar("_Result")

CONTROLLER = "/controller"
BROKERS = "/brokers/ids"
#: When the connection is suspended, ZooKeeper has been silent for up to two thirds of the session's time
#: already; after this part of it more, the session may be over.
_PATIENCE = 0.25
_RETRY_SECONDS = 0.25


class ZooKeeperSession:
    def __init__(self, store: "ZooKeeperStore", broker_id: int, on_lost: LostCallback) -> None:
        self._store = store
        self.broker_id = broker_id
        self.on_lost = on_lost

    async def release(self) -> None:
        await self._store.release(self)


class ZooKeeperControllership:
    def __init__(self, store: "ZooKeeperStore", epoch: int, on_lost: LostCallback) -> None:
        self._store = store
        self.epoch = epoch
        self.on_lost = on_lost

    async def resign(self) -> None:
        await self._store.release(self)


class ZooKeeperStore:
    """One broker's access to the ensemble."""

    sessions_outlive_processes = True

    def __init__(self, settings: ZooKeeperSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="moldau-metadata")
        self._connection = Connection(settings, self._state_changed)
        self._log = ZnodeLog(self._connection)
        self._background = Background()
        self._held: list[ZooKeeperSession | ZooKeeperControllership] = []
        self._position = 0
        self._listeners: list[ChangeListener] = []
        self._session_listeners: list[SessionListener] = []
        self._known_sessions: frozenset[int] | None = None
        self._vacancies: set[asyncio.Event] = set()
        self._suspended: asyncio.TimerHandle | None = None
        self._log_moved = asyncio.Event()
        self._sessions_moved = asyncio.Event()
        self._compacting = False
        self._prepared = False
        self._closed = False

    # --- the log -----------------------------------------------------------------------------------------

    async def load(self, after_version: int = 0) -> Changes:
        changes = await self._run(lambda: self._log.load(after_version))
        self._position = changes.version
        self._refresh_own_data(changes.records)
        return changes

    async def append(self, records: Sequence[Record], expected_version: int, controller_epoch: int) -> int:
        version, compaction_due = await self._run(
            lambda: self._log.append(records, expected_version, controller_epoch)
        )
        self._position = version
        self._refresh_own_data(records)
        if compaction_due and not self._compacting:
            self._compacting = True
            self._background.start(self._compact(controller_epoch), "metadata compaction")
        return version

    async def _compact(self, controller_epoch: int) -> None:
        try:
            await self._run(lambda: self._log.compact(controller_epoch))
        except Exception as error:
            _logger.error("The metadata log could not be compacted and goes on growing: %s", error)
        finally:
            self._compacting = False

    def watch(self, listener: ChangeListener) -> None:
        first = not self._listeners
        self._listeners.append(listener)
        if first:
            self._background.start(self._follow_log(), "metadata store")

    async def _follow_log(self) -> None:
        """Delivers what others append; a watch says when to look. A failure is retried, and logged once."""
        logged: str | None = None
        while True:
            self._log_moved.clear()
            try:
                state, _ = await self._run(lambda: self._log.state(watch=self._log_changed))
                logged = None
                if state.version > self._position:
                    position = self._position
                    changes = await self._run(lambda: self._log.load(position))  # noqa: B023
                    if position == self._position and changes.version > position:
                        self._position = changes.version
                        self._refresh_own_data(changes.records)
                        for listener in self._listeners:
                            listener(changes)
                    continue
                if state.version == 0 and self._position == 0:
                    # There is no znode to watch yet.
                    await asyncio.wait([self._waiter(self._log_moved)], timeout=_RETRY_SECONDS)
                    continue
            except MetadataError as error:
                logged = self._log_once(logged, "Cannot follow the metadata of the cluster", error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            await self._log_moved.wait()

    # --- sessions ----------------------------------------------------------------------------------------

    async def sessions(self) -> frozenset[int]:
        return await self._run(self._live_sessions)

    def watch_sessions(self, listener: SessionListener) -> None:
        first = not self._session_listeners
        self._session_listeners.append(listener)
        self._known_sessions = None
        self._sessions_moved.set()
        if first:
            self._background.start(self._follow_sessions(), "broker sessions")

    async def _follow_sessions(self) -> None:
        logged: str | None = None
        while True:
            self._sessions_moved.clear()
            try:
                sessions = await self._run(lambda: self._live_sessions(watch=self._sessions_changed))
                logged = None
            except MetadataError as error:
                logged = self._log_once(logged, "Cannot follow the sessions of the brokers", error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if sessions != self._known_sessions:
                self._known_sessions = sessions
                for listener in self._session_listeners:
                    listener(sessions)
            await self._sessions_moved.wait()

    async def open_session(self, broker_id: int, on_lost: LostCallback) -> ZooKeeperSession:
        """Waits for the session of a process that has died to end: ZooKeeper needs its time to see that."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        said = False
        while not await self._run(lambda: self._register(broker_id)):
            if loop.time() > begin + self._connection.session_timeout_seconds * 1.5:
                raise MetadataStoreError(
                    f"Broker {broker_id} is running already on {self._settings.hosts}"
                    f"{self._settings.chroot}: stop it, or give this broker another node.id."
                )
            if not said:
                said = True
                _logger.warning("broker %d waits for the session of its last process to end", broker_id)
            await asyncio.sleep(_RETRY_SECONDS)
        session = ZooKeeperSession(self, broker_id, on_lost)
        self._held.append(session)
        return session

    async def declare_dead(self, broker_id: int) -> None:
        """Removes its znodes: ZooKeeper would do so only when the session's time is over."""
        await self._run(lambda: self._remove(broker_id))

    # --- the controller ----------------------------------------------------------------------------------

    async def campaign(self, broker_id: int, on_lost: LostCallback) -> ZooKeeperControllership:
        vacant = asyncio.Event()
        self._vacancies.add(vacant)
        try:
            while True:
                vacant.clear()
                epoch = await self._run(lambda: self._try_to_win(broker_id, vacant))
                if epoch is not None:
                    controllership = ZooKeeperControllership(self, epoch, on_lost)
                    self._held.append(controllership)
                    return controllership
                await vacant.wait()
        except asyncio.CancelledError:
            # The thread may still win, although nobody waits for it: give it back right after.
            if not self._closed:
                self._executor.submit(self._give_back)
            raise
        finally:
            self._vacancies.discard(vacant)

    def _give_back(self) -> None:
        if not any(isinstance(held, ZooKeeperControllership) for held in self._held):
            with suppress(MetadataError), self._connection.explained():
                self._delete_own(CONTROLLER)

    async def release(self, held: ZooKeeperSession | ZooKeeperControllership) -> None:
        if held not in self._held:
            return
        self._held.remove(held)
        path = CONTROLLER if isinstance(held, ZooKeeperControllership) else f"{BROKERS}/{held.broker_id}"
        await self._run(lambda: self._delete_own(path))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._suspended is not None:
            self._suspended.cancel()
        await self._background.stop()
        self._held.clear()
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._connection.close)
        finally:
            self._executor.shutdown()

    # --- on the store's own thread -----------------------------------------------------------------------

    def _live_sessions(self, watch: Callable[[Any], None] | None = None) -> frozenset[int]:
        self._prepare()
        names = self._connection.client.get_children(BROKERS, watch=watch)
        return frozenset(int(name) for name in names if name.isdecimal())

    def _register(self, broker_id: int) -> bool:
        """Creates the znode of a broker, in two steps as Kafka does; False when another session has it."""
        self._prepare()
        client, path = self._connection.client, f"{BROKERS}/{broker_id}"
        stat = client.exists(path)
        if stat is not None and stat.ephemeralOwner != self._connection.session_id:
            return False
        if stat is None:
            try:
                client.create(path, None, ephemeral=True, acl=self._connection.acl(path))
            except NodeExistsError:
                return False
            self._write_own_data(broker_id)
        return self._watch_own(broker_id)

    def _watch_own(self, broker_id: int) -> bool:
        """Hears of it when the znode of this broker goes; False when it has gone."""
        path = f"{BROKERS}/{broker_id}"
        stat = self._connection.client.exists(
            path, watch=lambda event: self._own_znode_changed(broker_id, event)
        )
        return stat is not None and self._is_own(stat)

    def _own_znode_changed(self, broker_id: int, event: Any) -> None:
        """Called on kazoo's thread: other brokers may have taken this one for dead."""
        path = f"{BROKERS}/{broker_id}"
        if event.type == EventType.DELETED:
            self._on_loop(lambda: self._taken_away(broker_id))
        elif event.type == EventType.CHANGED and not self._closed:
            with suppress(Exception):
                self._connection.client.exists_async(
                    path, watch=lambda again: self._own_znode_changed(broker_id, again)
                )

    def _taken_away(self, broker_id: int) -> None:
        if any(isinstance(held, ZooKeeperSession) and held.broker_id == broker_id for held in self._held):
            self._lose("other brokers have taken this one for dead")

    def _remove(self, broker_id: int) -> None:
        client = self._connection.client
        with suppress(NoNodeError):
            data, stat = client.get(CONTROLLER)
            if json.loads(data)["brokerid"] == broker_id and not self._is_own(stat):
                client.delete(CONTROLLER, version=stat.version)
        with suppress(NoNodeError):
            stat = client.exists(f"{BROKERS}/{broker_id}")
            if stat is not None and not self._is_own(stat):
                client.delete(f"{BROKERS}/{broker_id}")

    def _is_own(self, stat: Any) -> bool:
        return bool(stat.ephemeralOwner == self._connection.session_id)

    def _write_own_data(self, broker_id: int) -> None:
        known = self._log.image.brokers.get(broker_id)
        if known is not None:
            with suppress(NoNodeError):
                self._connection.client.set(
                    f"{BROKERS}/{broker_id}", tree.broker(known, self._clock.now_ms())
                )

    def _try_to_win(self, broker_id: int, vacant: asyncio.Event) -> int | None:
        """The epoch, or None while another broker is the controller; ``vacant`` is set when that is over."""
        self._prepare()
        client = self._connection.client

        def look_again(event: Any) -> None:
            self._on_loop(vacant.set)

        stat = client.exists(CONTROLLER, watch=look_again)
        if stat is not None and stat.ephemeralOwner != self._connection.session_id:
            return None
        transaction = client.transaction()
        if stat is not None:  # this broker's own, from before it lost and found its session
            transaction.delete(CONTROLLER)
        data, epoch_stat = client.get(CONTROLLER_EPOCH)
        epoch = int(data) + 1
        transaction.create(
            CONTROLLER,
            tree.controller(broker_id, self._clock.now_ms()),
            acl=self._connection.acl(CONTROLLER),
            ephemeral=True,
        )
        transaction.set_data(CONTROLLER_EPOCH, str(epoch).encode(), version=epoch_stat.version)
        results = transaction.commit()
        failed = [each for each in results if isinstance(each, KazooException)]
        if not failed:
            with suppress(NodeExistsError):
                client.create(tree.FEATURES, tree.features(), acl=self._connection.acl(tree.FEATURES))
            return epoch
        if not any(isinstance(each, NodeExistsError | BadVersionError | NoNodeError) for each in failed):
            raise failed[0]
        if client.exists(CONTROLLER, watch=look_again) is None:
            self._on_loop(vacant.set)
        return None

    def _delete_own(self, path: str) -> None:
        client = self._connection.client
        stat = client.exists(path)
        if stat is not None and stat.ephemeralOwner == self._connection.session_id:
            with suppress(NoNodeError):
                client.delete(path)

    def _prepare(self) -> None:
        """Makes what Kafka 3.9's first broker makes, once."""
        if self._prepared:
            return
        client = self._connection.client
        for path in (*tree.ROOTS, CONTROLLER_EPOCH):
            with suppress(NodeExistsError):
                data = b"0" if path == CONTROLLER_EPOCH else None
                client.create(path, data, acl=self._connection.acl(path))
        self._prepared = True

    # --- between the loop and the threads ----------------------------------------------------------------

    async def _run(self, work: Callable[[], _Result]) -> _Result:
        if self._closed:
            raise MetadataStoreError("The metadata store has been closed: the broker is stopping.")
        self._loop = asyncio.get_running_loop()

        def explained() -> _Result:
            with self._connection.explained():
                return work()

        return await self._loop.run_in_executor(self._executor, explained)

    def _on_loop(self, call: Callable[[], object]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)

    def _log_changed(self, event: Any) -> None:
        self._on_loop(self._log_moved.set)

    def _sessions_changed(self, event: Any) -> None:
        self._on_loop(self._sessions_moved.set)

    def _refresh_own_data(self, records: Sequence[Record]) -> None:
        """A registration of this broker makes the data of its znode."""
        for held in self._held:
            if isinstance(held, ZooKeeperSession) and tree.registered(records, held.broker_id):
                broker_id = held.broker_id
                self._background.start(self._refresh(broker_id), "znode of this broker")

    async def _refresh(self, broker_id: int) -> None:
        try:
            await self._run(lambda: self._write_own_data(broker_id))
        except MetadataError as error:
            _logger.warning("%s/%d has no data: %s", BROKERS, broker_id, error)

    def _state_changed(self, state: str) -> None:
        """Called on kazoo's thread."""
        self._on_loop(lambda: self._connected() if state == CONNECTED else self._disconnected(state))

    def _connected(self) -> None:
        if self._suspended is not None:
            _logger.info("ZooKeeper at %s is reached again", self._settings.hosts)
            self._suspended.cancel()
            self._suspended = None
        # Watches of a lost connection are gone: everybody looks again.
        self._log_moved.set()
        self._sessions_moved.set()
        for vacant in self._vacancies:
            vacant.set()
        for held in self._held:
            if isinstance(held, ZooKeeperSession):
                self._background.start(self._look_after(held.broker_id), "znode of this broker")

    async def _look_after(self, broker_id: int) -> None:
        with suppress(MetadataError):  # where the connection is lost again, it comes again
            if not await self._run(lambda: self._watch_own(broker_id)):
                self._taken_away(broker_id)

    def _disconnected(self, state: str) -> None:
        if self._closed or self._loop is None:
            return
        if state == "LOST":
            self._lose("ZooKeeper has ended the session")
        elif self._suspended is None:
            patience = self._connection.session_timeout_seconds * _PATIENCE
            _logger.warning(
                "ZooKeeper at %s cannot be reached: this broker serves on, without changes to the cluster, "
                "and stops leading in %.1f s",
                self._settings.hosts,
                patience,
            )
            self._suspended = self._loop.call_later(
                patience, self._lose, f"ZooKeeper has not been reached for {patience:.1f} s"
            )

    def _lose(self, why: str) -> None:
        held, self._held = self._held, []
        if held:
            _logger.error("%s: this broker stops leading until it has a session again", why)
        for each in held:
            each.on_lost()

    def _log_once(self, logged: str | None, what: str, error: Exception) -> str:
        if str(error) != logged:
            _logger.error("%s: %s", what, error)
        return str(error)

    @staticmethod
    def _waiter(event: asyncio.Event) -> "asyncio.Future[Any]":
        return asyncio.ensure_future(event.wait())
