"""The snapshot of MySQL and MariaDB: one consistent view, and the place in the binary log that belongs to it.

Invariant: every change of a transactional table is in the view or behind the place, never in both or in none.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moldau.connect.connectors.cdc.mysql_tables import COLUMNS, TABLES, from_catalogue
from moldau.connect.connectors.cdc.mysql_types import MySqlColumn
from moldau.connect.connectors.cdc.mysql_wire import LogPosition, rows_of
from moldau.connect.connectors.libraries import library
from moldau.connect.errors import ConnectException

#: What the server has to be set to, and which versions know it.
_NEEDED = {
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "binlog_checksum": "CRC32",
}
SnapshotTable = tuple[str, str, tuple[MySqlColumn, ...], Iterator[Mapping[str, Any]]]


def check_server(sql: Any) -> None:
    names = ", ".join(f"'{name}'" for name in _NEEDED)
    found = dict(rows_of(sql, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})"))
    wrong = [f"{name}={wanted}" for name, wanted in _NEEDED.items() if found.get(name, "").upper() != wanted]
    if wrong:
        raise ConnectException(
            f"The server needs the settings {', '.join(wrong)} (MySQL 8.0.14, MariaDB 10.5 or later). Next: "
            "put them into its configuration and restart it, or SET GLOBAL those that allow it"
        )


def read_view(sql: Any) -> LogPosition:
    """Begins the view. MariaDB knows the place that belongs to it; MySQL is locked for that moment."""
    rows_of(sql, "SET SESSION net_write_timeout = 3600")  # rows are taken as fast as topics take them
    rows_of(sql, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    rows_of(sql, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    known = dict(rows_of(sql, "SHOW STATUS LIKE 'binlog_snapshot_%'"))
    known = {str(name).lower(): value for name, value in known.items()}
    if known.get("binlog_snapshot_file"):
        return LogPosition(str(known["binlog_snapshot_file"]), int(known["binlog_snapshot_position"]))
    rows_of(sql, "ROLLBACK")
    rows_of(sql, "FLUSH TABLES WITH READ LOCK")
    try:
        rows_of(sql, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        return _position(sql)
    finally:
        rows_of(sql, "UNLOCK TABLES")


def check_log(sql: Any, position: LogPosition, connector: str) -> None:
    """Raises ConnectException where the log no longer has a place: changes behind it may be lost."""
    if position.file not in {str(row[0]) for row in rows_of(sql, "SHOW BINARY LOGS")}:
        raise ConnectException(
            f"A snapshot was cut short, and the binary log {position.file} with the changes since then is "
            f"gone: deletes may be missing. Next: stop the connector, DELETE /connectors/{connector}/offsets "
            "and resume it: it begins with a new snapshot"
        )


def _position(sql: Any) -> LogPosition:
    pymysql = library("pymysql", "connect-mysql")
    try:
        found = rows_of(sql, "SHOW MASTER STATUS")
    except pymysql.err.ProgrammingError:  # another name since MySQL 8.4
        found = rows_of(sql, "SHOW BINARY LOG STATUS")
    return LogPosition(str(found[0][0]), int(found[0][1]))


def read_tables(
    sql: Any, wanted: Callable[[str, str], bool], shown: Callable[[str, str, str], bool]
) -> Iterator[SnapshotTable]:
    """Every wanted table with its rows; those of one have to be read before the next is asked for."""
    for database, name in rows_of(sql, TABLES):
        if not wanted(database, name):
            continue
        found = rows_of(sql, COLUMNS, (database, name))
        columns = tuple(from_catalogue(row) for row in found if shown(database, name, row[0]))
        yield database, name, columns, _rows(sql, database, name, columns)


def _rows(
    sql: Any, database: str, name: str, columns: tuple[MySqlColumn, ...]
) -> Iterator[Mapping[str, Any]]:
    names = ", ".join(_quoted(column.name) for column in columns) or "1"
    cursor = sql.cursor(library("pymysql.cursors", "connect-mysql").SSDictCursor)
    try:
        cursor.execute(f"SELECT {names} FROM {_quoted(database)}.{_quoted(name)}")
        yield from cursor
    finally:
        cursor.close()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
