"""MySQL and MariaDB, by PyMySQL."""

from collections.abc import Callable, Sequence
from typing import Any

from moldau.connect.connectors.jdbc.dialect import Column, Dialect, TableName
from moldau.connect.connectors.jdbc.values import instant, is_nested, json_text, microseconds, moment, scaled
from moldau.connect.connectors.libraries import library
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, date, decimal, time, timestamp
from moldau.connect.data.types import Type

_EXTRA = "connect-mysql"
_CONNECT_SECONDS = 20
#: Errors that pass: too many connections, lock waits, deadlocks, shutdown, and a server that is away.
_PASSING = frozenset({1040, 1042, 1043, 1053, 1077, 1158, 1159, 1160, 1161, 1205, 1213, 1927})
_CLIENT_ERRORS = range(2000, 2100)

_TABLES = """
SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1
"""
_COLUMNS = """
SELECT column_name, data_type, column_type, is_nullable = 'YES', extra LIKE '%%auto_increment%%',
       column_key = 'PRI', numeric_scale
FROM information_schema.columns WHERE table_schema = COALESCE(NULLIF(%s, ''), DATABASE()) AND table_name = %s
ORDER BY ordinal_position
"""
#: PyMySQL's codes of the types of a result.
_CODES = {
    0: "decimal",
    1: "tinyint",
    2: "smallint",
    3: "int",
    4: "float",
    5: "double",
    7: "timestamp",
    8: "bigint",
    9: "mediumint",
    10: "date",
    11: "time",
    12: "datetime",
    13: "year",
    16: "bit",
    246: "decimal",
}


class MySQL(Dialect):
    quote_mark = "`"

    def connect(self) -> Any:
        pymysql = library("pymysql", _EXTRA)
        address = self.address
        return pymysql.connect(
            host=address.host,
            port=address.port,
            user=address.user or None,
            password=address.password,
            database=address.database or None,
            charset="utf8mb4",
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=300,
            autocommit=False,
            local_infile=False,  # a server must not be able to ask for files of the worker
            init_command="SET time_zone = '+00:00'",
        )

    @property
    def errors(self) -> type[Exception]:
        found: type[Exception] = library("pymysql", _EXTRA).Error
        return found

    def passes(self, error: Exception) -> bool:
        number = error.args[0] if error.args else 0
        if isinstance(number, int):
            return number in _PASSING or number in _CLIENT_ERRORS or number == 0
        return type(error).__name__ == "InterfaceError"

    def tables(self, cursor: Any, schema: str | None, kinds: Sequence[str]) -> list[TableName]:
        cursor.execute(_TABLES)
        wanted = {kind.upper() for kind in kinds}
        return [
            TableName("", name)
            for name, kind in cursor.fetchall()
            if ("VIEW" if "VIEW" in kind else "TABLE") in wanted
        ]

    def columns(self, cursor: Any, table: TableName) -> list[Column]:
        cursor.execute(_COLUMNS, (table.schema, table.name))
        return [
            _column(name, kind, full, bool(nullable), bool(serial), bool(key), scale)
            for name, kind, full, nullable, serial, key, scale in cursor.fetchall()
        ]

    def result_columns(self, cursor: Any) -> list[Column]:
        found = []
        for name, code, _, _, _, scale, nullable in cursor.description:
            kind = _CODES.get(code, "varchar")
            found.append(_column(name, kind, kind, bool(nullable), False, False, scale))
        return found

    def now_us(self, cursor: Any) -> int:
        cursor.execute("SELECT UTC_TIMESTAMP(6)")
        return microseconds(cursor.fetchone()[0])

    def timestamp_parameter(self, column: Column, microseconds: int) -> object:
        return moment(microseconds).replace(tzinfo=None)

    def big_cursor(self) -> Any:
        return self.connection.cursor(library("pymysql.cursors", _EXTRA).SSCursor)

    def type_of(self, schema: Schema, key: bool) -> str:
        if schema.name == DECIMAL:
            return f"DECIMAL(65, {(schema.parameters or {}).get('scale', '0')})"
        named = {DATE: "DATE", TIME: "TIME(3)", TIMESTAMP: "DATETIME(3)"}
        if schema.name in named:
            return named[schema.name]
        return {
            Type.INT8: "TINYINT",
            Type.INT16: "SMALLINT",
            Type.INT32: "INT",
            Type.INT64: "BIGINT",
            Type.FLOAT32: "FLOAT",
            Type.FLOAT64: "DOUBLE",
            Type.BOOLEAN: "TINYINT(1)",
            Type.STRING: "VARCHAR(255)" if key else "TEXT",
            Type.BYTES: "VARBINARY(1024)" if key else "LONGBLOB",
        }.get(schema.type, "JSON")

    def upsert(self, table: TableName, keys: Sequence[str], others: Sequence[str], rows: str) -> str:
        changed = others or keys[:1]
        changes = ", ".join(f"{self.quoted(each)} = VALUES({self.quoted(each)})" for each in changed)
        return f"{self.insert(table, [*keys, *others], rows)} ON DUPLICATE KEY UPDATE {changes}"

    def written(self, schema: Schema | None, value: object) -> object:
        if is_nested(value):
            return json_text(value)
        return super().written(schema, value)


def _column(
    name: str, kind: str, full: str, nullable: bool, serial: bool, key: bool, scale: int | None
) -> Column:
    schema, read = _type(kind.lower(), full.lower(), nullable, scale or 0)
    return Column(name, schema, read, nullable, serial, key, kind.lower() in ("timestamp", "datetime"))


def _type(kind: str, full: str, optional: bool, scale: int) -> tuple[Schema, Callable[[Any], object]]:
    if full.startswith("tinyint(1)") or full == "bit(1)":
        return Schema(Type.BOOLEAN, optional=optional), _boolean
    unsigned = "unsigned" in full
    widths = ["tinyint", "smallint", "int", "bigint"]
    if kind in widths or kind in ("mediumint", "year"):
        place = widths.index({"mediumint": "int", "year": "int"}.get(kind, kind)) + unsigned
        if place > 3:
            return decimal(0, optional=optional), scaled(0)
        types = [Type.INT8, Type.INT16, Type.INT32, Type.INT64]
        return Schema(types[place], optional=optional), int
    if kind == "decimal":
        return decimal(scale, optional=optional), scaled(scale)
    if kind in ("float", "double"):
        return Schema(Type.FLOAT32 if kind == "float" else Type.FLOAT64, optional=optional), float
    if kind == "date":
        return date(optional=optional), instant
    if kind == "time":
        return time(optional=optional), instant
    if kind in ("timestamp", "datetime"):
        return timestamp(optional=optional), instant
    if "blob" in kind or "binary" in kind or kind == "bit":
        return Schema(Type.BYTES, optional=optional), bytes
    return Schema(Type.STRING, optional=optional), str


def _boolean(value: Any) -> bool:
    return value not in (0, b"\x00")
