"""The metadata store of one machine: a SQLite file and lock files that its broker processes share.

A session is a lock on ``sessions/<id>.lock`` and the controllership one on ``controller.lock``, so the
operating system releases both when their process dies, however it dies.

Invariant: the event loop never waits for the disk: every blocking call runs on the one thread of this store,
in the order of the calls. Lock files are never removed, because two processes could then lock two different
files of the same name.
"""

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from moldau.base.tasks import Background
from moldau.cluster.records import MetadataError, Record
from moldau.cluster.store.contract import (
    ChangeListener,
    Changes,
    LostCallback,
    MetadataStoreError,
    SessionListener,
)

if TYPE_CHECKING:
    from moldau.cluster.store.sqlite_log import SqliteLog

_logger = logging.getLogger(__name__)
_Result = TypeVar("_Result")

#: Another process that checks whether a session exists has its lock for microseconds, so locking is retried.
_LOCK_ATTEMPTS = 10
_LOCK_RETRY_SECONDS = 0.01


class FileLock:
    """A lock on a file that lasts until it is released or the process ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        if not _try_lock(descriptor, fcntl.LOCK_EX):
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        # The process id is for people only: the lock is valid even if the disk is full.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        return True

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def holder(self) -> str:
        """The process that locked the file last, for an error message."""
        with suppress(OSError):
            return self.path.read_text("ascii", "replace").strip() or "unknown"
        return "unknown"


class LocalSession:
    def __init__(self, store: "LocalStore", lock: FileLock, broker_id: int) -> None:
        self._store = store
        self._lock = lock
        self.broker_id = broker_id

    async def release(self) -> None:
        await self._store.release_lock(self._lock)


class LocalControllership:
    def __init__(self, store: "LocalStore", lock: FileLock, epoch: int) -> None:
        self._store = store
        self._lock = lock
        self.epoch = epoch

    async def resign(self) -> None:
        await self._store.release_lock(self._lock)


class LocalStore:
    """One broker's access to the store; a second one in the same process acts as a second broker."""

    sessions_outlive_processes = False

    def __init__(
        self,
        directory: Path | str,
        *,
        poll_interval_seconds: float = 0.05,
        poll_interval_alone_seconds: float = 0.5,
        busy_timeout_seconds: float = 10.0,
    ) -> None:
        self._directory = Path(directory)
        self._poll_interval_seconds = poll_interval_seconds
        self._poll_interval_alone_seconds = poll_interval_alone_seconds
        self._busy_timeout_seconds = busy_timeout_seconds
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="moldau-metadata")
        self._log: SqliteLog | None = None
        self._locks: set[FileLock] = set()
        self._position = 0
        self._listeners: list[ChangeListener] = []
        self._session_listeners: list[SessionListener] = []
        self._known_sessions: frozenset[int] | None = None
        self._background = Background()
        self._polling = False
        self._compacting = False
        self._closed = False

    # --- The log ---------------------------------------------------------------------------------------

    async def load(self, after_version: int = 0) -> Changes:
        changes = await self._run(lambda: self._open_log().load(after_version))
        self._position = changes.version
        return changes

    async def append(self, records: Sequence[Record], expected_version: int, controller_epoch: int) -> int:
        version, compaction_due = await self._run(
            lambda: self._open_log().append(records, expected_version, controller_epoch)
        )
        self._position = version
        if compaction_due and not self._compacting:
            self._compacting = True
            self._background.start(self._compact(), "metadata compaction")
        return version

    def watch(self, listener: ChangeListener) -> None:
        self._listeners.append(listener)
        self._start_polling()

    # --- Sessions and the controller -------------------------------------------------------------------

    async def sessions(self) -> frozenset[int]:
        ours = self._our_sessions()
        return await self._run(lambda: self._live_sessions(ours))

    def watch_sessions(self, listener: SessionListener) -> None:
        self._session_listeners.append(listener)
        self._known_sessions = None
        self._start_polling()

    async def open_session(self, broker_id: int, on_lost: LostCallback) -> LocalSession:
        lock = FileLock(self._session_directory / f"{broker_id}.lock")
        for attempt in range(_LOCK_ATTEMPTS):
            if attempt:
                await asyncio.sleep(_LOCK_RETRY_SECONDS)
            if await self._acquire(lock):
                return LocalSession(self, lock, broker_id)
        raise MetadataStoreError(
            f"Broker {broker_id} is running already on {self._directory} (process {lock.holder()}): stop it, "
            "or give this broker another node.id and other log directories."
        )

    async def declare_dead(self, broker_id: int) -> None:
        """A session here ends with its process in any case."""

    async def campaign(self, broker_id: int, on_lost: LostCallback) -> LocalControllership:
        lock = FileLock(self._directory / "controller.lock")
        while not await self._acquire(lock):
            await asyncio.sleep(self._poll_interval_seconds)
        try:
            epoch = await self._run(lambda: self._open_log().increment_controller_epoch())
        except BaseException:
            await self.release_lock(lock)
            raise
        return LocalControllership(self, lock, epoch)

    async def release_lock(self, lock: FileLock) -> None:
        if lock in self._locks:
            self._locks.discard(lock)
            await self._run(lock.release)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._background.stop()
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._close)
        finally:
            self._executor.shutdown()

    # --- On the store's own thread ---------------------------------------------------------------------

    def _open_log(self) -> "SqliteLog":
        if self._log is None:
            # Imported here: neither the command line nor a broker in memory should pay for SQLite.
            from moldau.cluster.store.sqlite_log import SqliteLog

            self._log = SqliteLog(self._directory, busy_timeout_seconds=self._busy_timeout_seconds)
        return self._log

    def _poll_store(self, position: int, ours: frozenset[int]) -> tuple[Changes | None, frozenset[int]]:
        log = self._open_log()
        changes = log.load(position) if log.version() != position else None
        return changes, self._live_sessions(ours)

    def _live_sessions(self, ours: frozenset[int]) -> frozenset[int]:
        """Every session, or an error: a broker must never seem dead because a file could not be opened."""
        live = set(ours)
        try:
            paths = list(self._session_directory.iterdir()) if self._session_directory.exists() else []
            for path in paths:
                named = path.suffix == ".lock" and path.stem.isdecimal()
                if named and int(path.stem) not in ours and _is_locked(path):
                    live.add(int(path.stem))
        except OSError as error:
            raise MetadataStoreError(
                f"The sessions in {self._session_directory} cannot be read ({error}): check that this user "
                "may read and write there."
            ) from error
        return frozenset(live)

    def _close(self) -> None:
        try:
            if self._log is not None:
                self._log.close()
        finally:
            for lock in self._locks:
                lock.release()
            self._locks.clear()

    # --- Between the loop and the thread ---------------------------------------------------------------

    @property
    def _session_directory(self) -> Path:
        return self._directory / "sessions"

    async def _run(self, work: Callable[[], _Result]) -> _Result:
        if self._closed:
            raise MetadataStoreError("The metadata store has been closed: the broker is stopping.")
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def _acquire(self, lock: FileLock) -> bool:
        try:
            acquired = await self._run(lock.try_acquire)
        except OSError as error:
            raise MetadataStoreError(
                f"{lock.path} cannot be locked ({error}): check that this user may write to it."
            ) from error
        except asyncio.CancelledError:
            # The thread may still acquire the lock, although nobody waits for it: release it right after.
            if not self._closed:
                self._executor.submit(lock.release)
            raise
        if acquired:
            self._locks.add(lock)
        return acquired

    async def _compact(self) -> None:
        """In the background: the append that made the log too long does not wait for it."""
        try:
            await self._run(lambda: self._open_log().compact())
        except MetadataError as error:
            _logger.error("The metadata log could not be compacted and goes on growing: %s", error)
        finally:
            self._compacting = False

    def _our_sessions(self) -> frozenset[int]:
        return frozenset(
            int(lock.path.stem) for lock in self._locks if lock.path.parent == self._session_directory
        )

    def _start_polling(self) -> None:
        if not self._polling:
            self._polling = True
            self._background.start(self._poll(), "metadata store")

    async def _poll(self) -> None:
        """Polls for changes by other processes. A failure is retried, and logged once."""
        logged: str | None = None
        while True:
            alone = False
            try:
                alone = await self._poll_once()
                logged = None
            except MetadataError as error:
                if str(error) != logged:
                    logged = str(error)
                    _logger.error("Cannot follow the metadata of the cluster: %s", error)
            await asyncio.sleep(self._poll_interval_alone_seconds if alone else self._poll_interval_seconds)

    async def _poll_once(self) -> bool:
        """Delivers what is new; returns whether this broker is the only one."""
        while True:
            position, ours = self._position, self._our_sessions()
            changes, sessions = await self._run(partial(self._poll_store, position, ours))
            # After a load or an append meanwhile, a part of this is known already: poll again from there.
            if position == self._position:
                break
        if changes is not None:
            self._position = changes.version
            for listener in self._listeners:
                listener(changes)
        if sessions != self._known_sessions:
            self._known_sessions = sessions
            for session_listener in self._session_listeners:
                session_listener(sessions)
        return sessions <= ours


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_locked(path: Path) -> bool:
    """Whether the file is locked. Tries a shared lock, so that two processes that check do not collide."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        return not _try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)
