"""The connections of a source of MySQL's changes: one for questions and the snapshot, one for the binary log.

The log is read by a thread of its own, because a read of it can only wait; a few hundred events at most lie
between it and the task. Events become transactions here: where each begins, its rows, where it ends.

Invariant: a stream that broke is never mended inside of it: the task begins again at the place that it kept.
"""

import queue
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from moldau.connect.connectors.cdc.mysql_tables import described
from moldau.connect.connectors.cdc.mysql_types import MySqlColumn
from moldau.connect.connectors.libraries import library
from moldau.connect.errors import ConnectException, RetriableException

_EXTRA = "connect-mysql"
#: Errors that pass: too many connections, lock waits, deadlocks, shutdown, a table that changed meanwhile.
_PASSING = frozenset({1040, 1042, 1043, 1053, 1077, 1158, 1159, 1160, 1161, 1205, 1213, 1412, 1927})
_CLIENT_ERRORS = range(2000, 2100)
_LOG_IS_GONE = 1236
_SILENCE_SECONDS = 60
_STANDALONE = 1
_EVENTS_AHEAD = 256
_EVENTS = (
    "RotateEvent QueryEvent XidEvent XAPrepareEvent GtidEvent MariadbGtidEvent NotImplementedEvent StopEvent"
)
_ROW_EVENTS = "TableMapEvent WriteRowsEvent UpdateRowsEvent DeleteRowsEvent"


@dataclass(frozen=True, slots=True)
class MySqlAddress:
    host: str
    port: int
    user: str
    password: str
    tls: str

    def parameters(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "charset": "utf8mb4",
            "connect_timeout": 20,
            "read_timeout": _SILENCE_SECONDS,
            "autocommit": True,
            "local_infile": False,  # a server must not be able to ask for files of the worker
            "init_command": "SET time_zone = '+00:00'",
        }
        if self.tls == "disabled":
            found["ssl_disabled"] = True
        elif self.tls == "required":
            found["ssl"] = {"check_hostname": False}
        elif self.tls in ("verify_ca", "verify_identity"):
            found["ssl_verify_cert"] = True
            found["ssl_verify_identity"] = self.tls == "verify_identity"
        return found


@contextmanager
def translated(secret: str, connector: str) -> Iterator[None]:
    pymysql = library("pymysql", _EXTRA)
    try:
        yield
    except pymysql.Error as error:
        number = error.args[0] if error.args else 0
        text = f"mysql says: {' '.join(map(str, error.args)).strip() or error!r}"
        if secret:
            text = text.replace(secret, "[hidden]")
        if number == _LOG_IS_GONE:
            text += (
                ". Next: if the log at that place was purged, stop the connector, DELETE "
                f"/connectors/{connector}/offsets, and resume it: it begins with a new snapshot"
            )
        passes = number in _PASSING or number in _CLIENT_ERRORS or number == 0
        raise (RetriableException if passes else ConnectException)(text) from None


def open_sql(address: MySqlAddress) -> Any:
    return library("pymysql", _EXTRA).connect(**address.parameters())


def rows_of(sql: Any, statement: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    with sql.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        return list(cursor.fetchall())


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A place between two events of the binary log."""

    file: str
    pos: int


@dataclass(frozen=True, slots=True)
class Rows:
    """One event of changed rows: (before, after) pairs, in the transaction that began at ``begin``."""

    begin: LogPosition
    event: int
    op: str
    database: str
    table: str
    columns: tuple[MySqlColumn, ...]
    rows: list[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]]
    ts_sec: int
    server_id: int
    gtid: str | None
    pos: int


@dataclass(frozen=True, slots=True)
class Boundary:
    """Nothing is open here: reading may begin again at this place."""

    position: LogPosition


@dataclass(slots=True)
class Transactions:
    """Puts events of the log's reader together. Pure but for what the events decode lazily."""

    position: LogPosition
    wanted: Any
    begun: bool = False
    announced: bool = False
    event: int = 0
    gtid: str | None = None
    tables: dict[int, tuple[MySqlColumn, ...] | None] = field(default_factory=dict)

    def take(self, event: Any) -> Rows | Boundary | None:
        match type(event).__name__:
            case "RotateEvent":
                self.position = LogPosition(event.next_binlog, event.position)
                self.tables.clear()
                # The first one is made up by the server, and may stand amid what was given out before.
                return Boundary(self.position) if event.timestamp else None
            case "TableMapEvent":
                named = self.wanted(event.schema, event.table)
                self.tables[event.table_id] = described(event) if named else None
            case "WriteRowsEvent" | "UpdateRowsEvent" | "DeleteRowsEvent":
                return self._rows(event)
            case "MariadbGtidEvent":
                self._announce(event.gtid)
                self.begun = not event.flags & _STANDALONE
            case "GtidEvent" | "NotImplementedEvent" if event.event_type in (33, 34):
                self._announce(event.gtid if event.event_type == 33 else None)
            case "QueryEvent":
                return self._statement(event)
            case "XidEvent" | "XAPrepareEvent":
                return self._end(event)
            case _ if not self.begun and not self.announced:
                return self._end(event)
        return None

    def _announce(self, gtid: str | None) -> None:
        self.announced, self.begun, self.gtid, self.event = True, False, gtid, 0

    def _statement(self, event: Any) -> Boundary | None:
        text = event.query.strip().upper()
        if text == "BEGIN" or text.startswith("XA START"):
            self.begun = True
            if not self.announced:
                self.event = 0
            return None
        if self.begun and text not in ("COMMIT", "ROLLBACK"):
            return None  # a savepoint, or a table that is made from a query
        return self._end(event)

    def _end(self, event: Any) -> Boundary | None:
        self.begun = self.announced = False
        self.gtid, self.event = None, 0
        after = event.packet.log_pos
        if after <= self.position.pos:
            return None  # made up by the server when the stream begins
        self.position = LogPosition(self.position.file, after)
        return Boundary(self.position)

    def _rows(self, event: Any) -> Rows | None:
        number, self.event = self.event, self.event + 1
        columns = self.tables.get(event.table_id)
        if columns is None:
            return None
        op = {"W": "c", "U": "u", "D": "d"}[type(event).__name__[0]]
        if op == "u":
            rows = [(row["before_values"], row["after_values"]) for row in event.rows]
        elif op == "c":
            rows = [(None, row["values"]) for row in event.rows]
        else:
            rows = [(row["values"], None) for row in event.rows]
        return Rows(
            self.position,
            number,
            op,
            event.schema,
            event.table,
            columns,
            rows,
            event.timestamp,
            event.packet.server_id,
            self.gtid,
            event.packet.log_pos - event.packet.event_size,
        )


class BinlogStream:
    """What comes of the binary log, from ``start`` on, read by a thread."""

    def __init__(self, address: MySqlAddress, server_id: int, start: LogPosition, wanted: Any) -> None:
        replication = library("pymysqlreplication", _EXTRA)
        events = library("pymysqlreplication.event", _EXTRA)
        changes = library("pymysqlreplication.row_event", _EXTRA)
        self._connections: list[Any] = []
        self._address = address
        self._found: queue.Queue[Rows | Boundary | Exception] = queue.Queue(_EVENTS_AHEAD)
        self._stopped = threading.Event()
        self._transactions = Transactions(start, wanted)
        wanted_events = [getattr(events, name) for name in _EVENTS.split()]
        wanted_events += [getattr(changes, name) for name in _ROW_EVENTS.split()]
        self._reader = replication.BinLogStreamReader(
            connection_settings=address.parameters(),
            server_id=server_id,
            blocking=True,
            resume_stream=True,
            log_file=start.file,
            log_pos=start.pos,
            only_events=wanted_events,
            filter_non_implemented_events=False,
            slave_heartbeat=_SILENCE_SECONDS / 3,  # keeps the connection from looking dead
            pymysql_wrapper=self._connect,
            enable_logging=False,
        )
        self._thread = threading.Thread(target=self._read, name="binlog", daemon=True)
        self._thread.start()

    def _connect(self, **parameters: Any) -> Any:
        """The reader opens two connections. That it opens a lost one again by itself, amid a transaction, is
        refused."""
        pymysql = library("pymysql", _EXTRA)
        if len(self._connections) >= 2:
            raise pymysql.err.OperationalError(2013, "the server ended the stream")
        named = {"database" if name == "db" else name: value for name, value in parameters.items()}
        made = pymysql.connect(**named)
        self._connections.append(made)
        return made

    def _read(self) -> None:
        try:
            while not self._stopped.is_set():
                event = self._reader.fetchone()
                if event is None:
                    raise library("pymysql", _EXTRA).err.OperationalError(2013, "the server ended the stream")
                made = self._transactions.take(event)
                if made is not None:
                    self._give(made)
        except Exception as error:
            self._give(error)

    def _give(self, made: Rows | Boundary | Exception) -> None:
        while not self._stopped.is_set():
            with suppress(queue.Full):
                self._found.put(made, timeout=0.5)
                return

    def next(self, timeout: float) -> Rows | Boundary | None:
        """What comes next, or None if nothing comes within ``timeout`` seconds."""
        try:
            found = self._found.get(timeout=timeout) if timeout else self._found.get_nowait()
        except queue.Empty:
            return None
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        self._stopped.set()
        for connection in self._connections:
            with suppress(Exception):
                connection._sock.shutdown(socket.SHUT_RDWR)  # ends a read that the thread waits in
        self._thread.join(5)
        for connection in self._connections:
            with suppress(Exception):
                connection._force_close()
