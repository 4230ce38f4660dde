"""PostgreSQL, by psycopg."""

import datetime
from collections.abc import Callable, Sequence
from typing import Any

from moldau.connect.connectors.jdbc.dialect import Column, Dialect, TableName
from moldau.connect.connectors.jdbc.values import instant, is_nested, json_text, microseconds, moment, scaled
from moldau.connect.connectors.libraries import library
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, date, decimal, time, timestamp
from moldau.connect.data.types import Type
from moldau.connect.errors import DataException

_EXTRA = "connect-postgresql"
_CONNECT_SECONDS = 20
_NUMERIC, _DATE, _TIME, _TIMETZ, _TIMESTAMP, _TIMESTAMPTZ = 1700, 1082, 1083, 1266, 1114, 1184
_PLAIN = {
    16: Type.BOOLEAN,
    21: Type.INT16,
    23: Type.INT32,
    20: Type.INT64,
    26: Type.INT64,
    700: Type.FLOAT32,
    701: Type.FLOAT64,
    17: Type.BYTES,
}
#: Errors of these classes pass: connection, resources, shutdown, serialization and deadlocks.
_PASSING = ("08", "53", "57", "40")

_TABLES = """
SELECT n.nspname, c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_toast%%'
ORDER BY 1, 2
"""
_COLUMNS = """
SELECT a.attname, a.atttypid::int8, a.atttypmod, a.attnotnull,
       a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid), '') LIKE 'nextval(%%',
       EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary
               AND a.attnum = ANY (i.indkey))
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_KINDS = {"r": "TABLE", "p": "TABLE", "v": "VIEW", "m": "MATERIALIZED VIEW", "f": "FOREIGN TABLE"}


class PostgreSQL(Dialect):
    def connect(self) -> Any:
        psycopg = library("psycopg", _EXTRA)
        address = self.address
        connection = psycopg.connect(
            host=address.host,
            port=address.port,
            dbname=address.database,
            user=address.user or None,
            password=address.password or None,
            sslmode=address.parameters.get("sslmode", "prefer"),
            connect_timeout=_CONNECT_SECONDS,
            application_name=address.parameters.get("applicationname", "moldau-connect"),
        )
        connection.execute("SET TimeZone TO 'UTC'")
        schema = address.parameters.get("currentschema")
        if schema:
            connection.execute("SELECT set_config('search_path', %s, false)", (schema,))
        connection.commit()
        return connection

    @property
    def errors(self) -> type[Exception]:
        found: type[Exception] = library("psycopg", _EXTRA).Error
        return found

    def passes(self, error: Exception) -> bool:
        state = getattr(error, "sqlstate", None)
        if state is not None:
            return str(state).startswith(_PASSING)
        # Without a state it comes from libpq itself: refused, closed, timed out.
        psycopg = library("psycopg", _EXTRA)
        if not isinstance(error, psycopg.OperationalError):
            return False
        text = str(error)
        return "authentication failed" not in text and "does not exist" not in text

    def tables(self, cursor: Any, schema: str | None, kinds: Sequence[str]) -> list[TableName]:
        cursor.execute(_TABLES)
        wanted = {kind.upper() for kind in kinds}
        return [
            TableName(found, name)
            for found, name, kind in cursor.fetchall()
            if _KINDS[kind if isinstance(kind, str) else kind.decode()] in wanted and schema in (None, found)
        ]

    def columns(self, cursor: Any, table: TableName) -> list[Column]:
        cursor.execute(_COLUMNS, (self.table(table),))
        return [
            _column(name, oid, modifier, not required, serial, key)
            for name, oid, modifier, required, serial, key in cursor.fetchall()
        ]

    def result_columns(self, cursor: Any) -> list[Column]:
        found = []
        for each in cursor.description:
            scale = each.scale
            modifier = -1 if scale is None else ((each.precision or 38) << 16 | scale) + 4
            found.append(_column(each.name, each.type_code, modifier, True, False, False))
        return found

    def now_us(self, cursor: Any) -> int:
        cursor.execute("SELECT clock_timestamp()")
        return microseconds(cursor.fetchone()[0])

    def timestamp_parameter(self, column: Column, microseconds: int) -> object:
        when = moment(microseconds)
        return when if column.has_zone else when.replace(tzinfo=None)

    def big_cursor(self) -> Any:
        cursor = self.connection.cursor(name="moldau_connect")
        cursor.itersize = 5000
        return cursor

    def type_of(self, schema: Schema, key: bool) -> str:
        named = {DATE: "DATE", TIME: "TIME", TIMESTAMP: "TIMESTAMP", DECIMAL: "DECIMAL"}
        if schema.name in named:
            return named[schema.name]
        return {
            Type.INT8: "SMALLINT",
            Type.INT16: "SMALLINT",
            Type.INT32: "INT",
            Type.INT64: "BIGINT",
            Type.FLOAT32: "REAL",
            Type.FLOAT64: "DOUBLE PRECISION",
            Type.BOOLEAN: "BOOLEAN",
            Type.STRING: "TEXT",
            Type.BYTES: "BYTEA",
        }.get(schema.type, "JSONB")

    def upsert(self, table: TableName, keys: Sequence[str], others: Sequence[str], rows: str) -> str:
        conflict = ", ".join(map(self.quoted, keys))
        changes = ", ".join(f"{self.quoted(each)} = EXCLUDED.{self.quoted(each)}" for each in others)
        action = f"DO UPDATE SET {changes}" if changes else "DO NOTHING"
        return f"{self.insert(table, [*keys, *others], rows)} ON CONFLICT ({conflict}) {action}"

    def written(self, schema: Schema | None, value: object) -> object:
        if is_nested(value):
            return json_text(value)
        found = super().written(schema, value)
        if isinstance(found, datetime.datetime):
            return found.replace(tzinfo=None)
        if isinstance(found, str) and "\0" in found:
            raise DataException("A text has a zero byte, which PostgreSQL cannot keep")
        return found


def _column(name: str, oid: int, modifier: int, nullable: bool, serial: bool, key: bool) -> Column:
    schema, read = _type(oid, modifier, nullable)
    moments = oid in (_TIMESTAMP, _TIMESTAMPTZ)
    return Column(name, schema, read, nullable, serial, key, moments, oid == _TIMESTAMPTZ)


def _type(oid: int, modifier: int, optional: bool) -> tuple[Schema, Callable[[Any], object]]:
    if oid in _PLAIN:
        return Schema(_PLAIN[oid], optional=optional), _same
    if oid == _NUMERIC:
        if modifier < 4:
            return Schema(Type.FLOAT64, optional=optional), float
        scale = (modifier - 4) & 0x7FF
        return decimal(scale, optional=optional), scaled(scale)
    if oid == _DATE:
        return date(optional=optional), instant
    if oid == _TIME:
        return time(optional=optional), instant
    if oid in (_TIMESTAMP, _TIMESTAMPTZ):
        return timestamp(optional=optional), instant
    return Schema(Type.STRING, optional=optional), _text


def _same(value: Any) -> object:
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value) if _is_json(value) else str(value)


def _is_json(value: Any) -> bool:
    return isinstance(value, dict | list)
