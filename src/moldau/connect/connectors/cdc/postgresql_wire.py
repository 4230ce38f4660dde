"""The two connections of a source of PostgreSQL's changes: one for questions and the snapshot, one that
streams.

Invariant: what is acknowledged to the server is never behind of what was acknowledged before, and errors that
may pass by themselves are RetriableExceptions.
"""

import select
import struct as binary
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from moldau.connect.connectors.cdc.pgoutput import EPOCH_2000_US, lsn_of, lsn_text
from moldau.connect.connectors.libraries import library
from moldau.connect.errors import ConnectException, RetriableException

_EXTRA = "connect-postgresql"
#: Texts of values have one form, whatever the server is set to.
_OPTIONS = "-c datestyle=ISO -c intervalstyle=postgres -c timezone=UTC -c extra_float_digits=3"
_PASSING = ("08", "53", "57", "40", "55006")  # the last: the slot is still used by a connection that dies


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    host: str
    port: int
    user: str
    password: str
    database: str
    sslmode: str

    def parameters(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user or None,
            "password": self.password or None,
            "dbname": self.database,
            "sslmode": self.sslmode,
            "connect_timeout": 20,
            "options": _OPTIONS,
            "application_name": "moldau-connect",
        }


@contextmanager
def translated(secret: str) -> Iterator[None]:
    psycopg = library("psycopg", _EXTRA)
    try:
        yield
    except psycopg.Error as error:
        text = f"postgresql says: {str(error).strip()}"
        if secret:
            text = text.replace(secret, "[hidden]")
        state = getattr(error, "sqlstate", None)
        if state is not None:
            passes = str(state).startswith(_PASSING)
        else:
            passes = isinstance(error, psycopg.OperationalError) and "authentication failed" not in text
        raise (RetriableException if passes else ConnectException)(text) from None


def open_sql(address: PostgresAddress) -> Any:
    """A connection whose statements are committed one by one."""
    return library("psycopg", _EXTRA).connect(autocommit=True, **address.parameters())


@dataclass(frozen=True, slots=True)
class Slot:
    consistent_lsn: int
    snapshot: str


class ReplicationStream:
    """A connection that speaks the protocol of replication."""

    def __init__(self, address: PostgresAddress) -> None:
        psycopg = library("psycopg", _EXTRA)
        self._error = psycopg.OperationalError
        self._pq = library("psycopg.pq", _EXTRA)
        text = library("psycopg.conninfo", _EXTRA).make_conninfo(
            **address.parameters(), replication="database"
        )
        self._connection = self._pq.PGconn.connect(text.encode())
        if self._connection.status != self._pq.ConnStatus.OK:
            raise self._error(self._connection.get_error_message())
        self._acknowledged = 0
        #: All before this was sent, as the server said last.
        self.server_lsn = 0

    def create_slot(self, name: str) -> Slot:
        result = self._command(f'CREATE_REPLICATION_SLOT "{name}" LOGICAL pgoutput EXPORT_SNAPSHOT')
        return Slot(lsn_of(result.get_value(0, 1).decode()), result.get_value(0, 2).decode())

    def start(self, slot: str, lsn: int, publication: str) -> None:
        names = publication.replace("'", "''")
        self._command(
            f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(lsn)} '
            f"(proto_version '1', publication_names '\"{names}\"')"
        )
        self._acknowledged = lsn
        self._connection.nonblocking = 1

    def _command(self, text: str) -> Any:
        result = self._connection.exec_(text.encode())
        status = self._pq.ExecStatus
        if result.status not in (status.TUPLES_OK, status.COMMAND_OK, status.COPY_BOTH):
            state = result.error_field(self._pq.DiagnosticField.SQLSTATE)
            error = self._error(result.get_error_message())
            error.sqlstate = None if state is None else state.decode()
            raise error
        return result

    def messages(self, timeout: float) -> Iterator[tuple[int, bytes]]:
        """LSNs and messages that are there, or that come within ``timeout`` seconds if there are none."""
        waited = False
        while True:
            size, data = self._connection.get_copy_data(1)
            if size == 0:
                if waited:
                    return
                select.select([self._connection.socket], [], [], timeout)
                self._connection.consume_input()
                waited = True
                continue
            if size < 0:
                raise self._error("the server ended the stream")
            waited = True
            raw = bytes(data)
            if raw[:1] == b"w":
                (start,) = binary.unpack_from(">Q", raw, 1)
                yield start, raw[25:]
            elif raw[:1] == b"k":
                end, _, wants_answer = binary.unpack_from(">QqB", raw, 1)
                self.server_lsn = max(self.server_lsn, end)
                if wants_answer:
                    self.acknowledge(self._acknowledged, 0)
            self._connection.consume_input()

    def acknowledge(self, lsn: int, now_ms: int) -> None:
        """All before ``lsn`` is kept here: the server may forget it."""
        self._acknowledged = max(lsn, self._acknowledged)
        when = now_ms * 1000 - EPOCH_2000_US if now_ms else 0
        known = self._acknowledged
        self._connection.put_copy_data(b"r" + binary.pack(">QQQqB", known, known, known, when, 0))
        self._connection.flush()

    def close(self) -> None:
        self._connection.finish()


def settings_address(settings: Mapping[str, Any]) -> PostgresAddress:
    password = settings["database.password"]
    return PostgresAddress(
        settings["database.hostname"],
        settings["database.port"],
        settings["database.user"],
        "" if password is None else password.secret,
        settings["database.dbname"],
        settings["database.sslmode"],
    )
