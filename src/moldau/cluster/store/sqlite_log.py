"""The metadata log in one SQLite file: blocking calls, which ``store/local.py`` keeps off the event loop.

The file (``PRAGMA application_id`` "MOLD"): ``schema`` is the version of this layout, ``state`` one row that
every change updates, ``log`` one row per append, ``snapshot`` the records that replace all rows of the log up
to ``snapshot_version``. Records are JSON arrays (``cluster/records.py``) with a CRC-32 beside them.

Invariant: several processes share the file, so every change is one immediate transaction that first checks
the version it builds on. A file that cannot be read is never overwritten, emptied or taken for a new one.
"""

import fcntl
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from moldau.cluster.image import EMPTY_IMAGE
from moldau.cluster.records import Record, UnreadableRecord, decode_all, encode_all
from moldau.cluster.store.contract import (
    Changes,
    MetadataStoreError,
    StaleControllerEpoch,
    StaleVersion,
    compaction_due,
)
from moldau.cluster.store.space_reserve import SpaceReserve

FILE_NAME = "metadata.sqlite"
SCHEMA_VERSION = 1
_APPLICATION_ID = int.from_bytes(b"MOLD", "big")
_RECORDS_PER_SNAPSHOT_ROW = 2_000

_LAYOUT = f"""
PRAGMA application_id = {_APPLICATION_ID};
CREATE TABLE schema (version INTEGER NOT NULL);
INSERT INTO schema VALUES ({SCHEMA_VERSION});
CREATE TABLE state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL,
    controller_epoch INTEGER NOT NULL,
    log_records INTEGER NOT NULL,
    snapshot_version INTEGER NOT NULL,
    snapshot_records INTEGER NOT NULL
);
INSERT INTO state VALUES (1, 0, 0, 0, 0, 0);
CREATE TABLE log (
    version INTEGER PRIMARY KEY,
    controller_epoch INTEGER,
    checksum INTEGER NOT NULL,
    records TEXT NOT NULL
);
CREATE TABLE snapshot (part INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, records TEXT NOT NULL);
"""


class _State(NamedTuple):
    version: int
    controller_epoch: int
    log_records: int
    snapshot_version: int
    snapshot_records: int


class SqliteLog:
    """An open file; every method must be called on the thread that opened it."""

    def __init__(self, directory: Path, *, busy_timeout_seconds: float = 10.0) -> None:
        self.path = directory / FILE_NAME
        self._busy_timeout_seconds = busy_timeout_seconds
        self._reserve = SpaceReserve(directory)
        with self._explained(), self._reserve.lent():
            if not self.path.exists():
                _create(self.path)
            self._connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=busy_timeout_seconds,
                isolation_level=None,
            )
            try:
                # Makes SQLite create its files beside the database, also where nothing but this has room.
                self._check_layout()
                self._connection.execute("PRAGMA synchronous = FULL")
            except BaseException:
                self._connection.close()
                raise

    def load(self, after_version: int) -> Changes:
        with self._transaction("BEGIN"):
            state = self._state()
            if after_version > state.version:
                raise MetadataStoreError(
                    f"{self.path} stands at version {state.version}, but this broker has seen version "
                    f"{after_version}: an older copy was put in its place. Put the newer one back, or "
                    "restart the broker if the older one is meant."
                )
            if after_version > 0 and after_version >= state.snapshot_version:
                return Changes(after_version, state.version, self._log_rows(after_version, state.version))
            return Changes(0, state.version, self._everything(state))

    def append(
        self, records: Sequence[Record], expected_version: int, controller_epoch: int
    ) -> tuple[int, bool]:
        """The new version, and whether the log has grown so long that ``compact`` is due."""
        text = encode_all(records)
        with self._transaction("BEGIN IMMEDIATE"):
            state = self._state()
            if controller_epoch < 1 or controller_epoch != state.controller_epoch:
                raise StaleControllerEpoch
            if expected_version != state.version:
                raise StaleVersion
            version = expected_version + 1
            self._connection.execute(
                "INSERT INTO log VALUES (?, ?, ?, ?)", (version, controller_epoch, _checksum(text), text)
            )
            state = state._replace(version=version, log_records=state.log_records + len(records))
            self._write_state(state)
        return version, compaction_due(state.log_records, state.snapshot_records)

    def compact(self) -> None:
        """Replaces the log by a snapshot of the image, unless another process has just done so."""
        with self._transaction("BEGIN IMMEDIATE"):
            state = self._state()
            if not compaction_due(state.log_records, state.snapshot_records):
                return
            snapshot = EMPTY_IMAGE.apply_all(self._everything(state)).snapshot()
            self._connection.execute("DELETE FROM snapshot")
            self._connection.execute("DELETE FROM log")
            for part, start in enumerate(range(0, len(snapshot), _RECORDS_PER_SNAPSHOT_ROW)):
                text = encode_all(snapshot[start : start + _RECORDS_PER_SNAPSHOT_ROW])
                self._connection.execute(
                    "INSERT INTO snapshot VALUES (?, ?, ?)", (part, _checksum(text), text)
                )
            self._write_state(
                state._replace(log_records=0, snapshot_version=state.version, snapshot_records=len(snapshot))
            )

    def increment_controller_epoch(self) -> int:
        """A new controller epoch, greater than every one before; the caller has the controller's lock."""
        with self._transaction("BEGIN IMMEDIATE"):
            state = self._state()
            self._write_state(state._replace(controller_epoch=state.controller_epoch + 1))
        return state.controller_epoch + 1

    def version(self) -> int:
        """The version of the last append by any process; takes microseconds, so it can be polled often."""
        with self._explained():
            return self._state().version

    def close(self) -> None:
        with self._explained(), self._reserve.lent():
            self._connection.close()

    def _state(self) -> _State:
        row = self._connection.execute(
            "SELECT version, controller_epoch, log_records, snapshot_version, snapshot_records FROM state"
        ).fetchone()
        if row is None or any(type(value) is not int for value in row):
            raise self._damaged("its state is missing")
        return _State(*row)

    def _write_state(self, state: _State) -> None:
        self._connection.execute(
            "UPDATE state SET version = ?, controller_epoch = ?, log_records = ?, snapshot_version = ?, "
            "snapshot_records = ?",
            state,
        )

    def _everything(self, state: _State) -> list[Record]:
        records: list[Record] = []
        for part, (row, checksum, text) in enumerate(
            self._connection.execute("SELECT part, checksum, records FROM snapshot ORDER BY part")
        ):
            if row != part:
                raise self._damaged(f"part {part} of its snapshot is missing")
            records.extend(self._decoded(f"part {part} of its snapshot", checksum, text))
        if len(records) != state.snapshot_records:
            raise self._damaged(f"its snapshot has {len(records)} of {state.snapshot_records} records")
        records.extend(self._log_rows(state.snapshot_version, state.version))
        return records

    def _log_rows(self, after_version: int, version: int) -> list[Record]:
        records: list[Record] = []
        expected = after_version
        for row, checksum, text in self._connection.execute(
            "SELECT version, checksum, records FROM log WHERE version > ? ORDER BY version", (after_version,)
        ):
            expected += 1
            if row != expected:
                raise self._damaged(f"version {expected} of its log is missing")
            records.extend(self._decoded(f"version {row} of its log", checksum, text))
        if expected != version:
            raise self._damaged(f"version {expected + 1} of its log is missing")
        return records

    def _decoded(self, where: str, checksum: object, text: object) -> list[Record]:
        if type(text) is not str or _checksum(text) != checksum:
            raise self._damaged(f"the checksum of {where} does not fit")
        try:
            return decode_all(text)
        except UnreadableRecord as error:
            raise MetadataStoreError(f"{self.path}, {where}: {error}") from error

    def _check_layout(self) -> None:
        application_id = self._connection.execute("PRAGMA application_id").fetchone()[0]
        if application_id != _APPLICATION_ID:
            raise self._damaged("it is not a metadata database of Moldau")
        (version,) = self._connection.execute("SELECT version FROM schema").fetchone() or (0,)
        if version != SCHEMA_VERSION:
            raise MetadataStoreError(
                f"{self.path} has the layout {version}, but this release reads the layout {SCHEMA_VERSION}: "
                "start the broker with the release that has written it, or a later one."
            )

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self._explained(), self._reserve.lent():
            self._connection.execute(begin)
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                # A failed COMMIT may have ended the transaction already.
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns errors of SQLite and the system into a message that says what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._explanation(error) from error
        except UnicodeDecodeError as error:
            # SQLite quotes what it does not understand, which need not be UTF-8.
            raise self._damaged(_shown(error)) from error
        except OSError as error:
            raise MetadataStoreError(
                f"The metadata in {self.path.parent} cannot be used ({error}): check that the directory "
                "exists and that this user may write to it."
            ) from error

    def _explanation(self, error: sqlite3.Error) -> MetadataStoreError:
        primary_code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if primary_code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return MetadataStoreError(
                f"{self.path} has been locked by another process for {self._busy_timeout_seconds:g} s: see "
                "whether a broker or a tool on it has been paused."
            )
        if primary_code == sqlite3.SQLITE_FULL:
            return MetadataStoreError(f"{self.path} cannot grow, the disk is full: free some space.")
        if primary_code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            return MetadataStoreError(
                f"{self.path} cannot be written ({error}): check that this user may write to the file and "
                "its directory, and that the file system is not mounted read-only."
            )
        if primary_code == sqlite3.SQLITE_IOERR:
            return MetadataStoreError(f"{self.path} cannot be read or written ({error}): check the disk.")
        return self._damaged(_shown(error))

    def _damaged(self, why: str) -> MetadataStoreError:
        return MetadataStoreError(
            f"{self.path} cannot be used as the metadata of this cluster ({why}). It has been left as it is: "
            "put a backup in its place, or move it and the topics' directories away to start an empty one."
        )


def _shown(error: Exception) -> str:
    """The error, shortened and as ASCII: it may quote arbitrary bytes of a damaged file."""
    return str(error)[:120].encode("ascii", "backslashreplace").decode()


def _checksum(text: str) -> int:
    return zlib.crc32(text.encode())


def _create(path: Path) -> None:
    """Writes the file under another name and then renames it, so that a file of this name is always complete.

    Brokers that start together wait for the lock in turn; the second one finds the file there.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(path.parent / "metadata.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            if path.with_name(f"{FILE_NAME}-wal").exists():
                # SQLite would write the changes of the lost file into the new one.
                raise MetadataStoreError(
                    f"{path} is gone, but {FILE_NAME}-wal beside it holds changes to it: put the file back, "
                    "or move that one away too to start an empty cluster."
                )
            _write_new(path, path.with_name(f"{FILE_NAME}.new"))
    finally:
        os.close(lock)


def _write_new(path: Path, temporary: Path) -> None:
    temporary.unlink(missing_ok=True)
    connection = sqlite3.connect(temporary, isolation_level=None)
    try:
        # Nothing to protect yet: one fsync of the finished file is enough.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.executescript(_LAYOUT)
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    _synchronise(temporary)
    temporary.rename(path)
    _synchronise(path.parent)


def _synchronise(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
