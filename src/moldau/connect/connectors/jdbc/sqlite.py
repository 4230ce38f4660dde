"""SQLite: one file; types are what the declaration of a column says, as SQLite itself reads it.

Invariant: a moment is compared to the millisecond, in whichever of SQLite's forms a row keeps it (text, days,
milliseconds since 1970).
"""

import datetime
import re
import sqlite3
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from moldau.connect.connectors.jdbc.dialect import Column, Dialect, TableName
from moldau.connect.connectors.jdbc.values import instant, is_nested, json_text, microseconds, moment, scaled
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, date, decimal, time, timestamp
from moldau.connect.data.types import Instant, Type
from moldau.connect.errors import DataException

_BUSY_SECONDS = 10.0
_FORM = "%Y-%m-%d %H:%M:%f"


class Sqlite(Dialect):
    mark = "?"
    max_parameters = 900

    def connect(self) -> Any:
        # A task is run by one thread at a time, but not always by the same one.
        connection = sqlite3.connect(
            f"file:{_escaped(self.address.database)}?mode=rw",
            uri=True,
            timeout=_BUSY_SECONDS,
            check_same_thread=False,
        )
        connection.text_factory = str
        return connection

    @property
    def errors(self) -> type[Exception]:
        return sqlite3.Error

    def passes(self, error: Exception) -> bool:
        text = str(error)
        return isinstance(error, sqlite3.OperationalError) and (
            "locked" in text or "busy" in text or "unable to open" in text or "disk I/O" in text
        )

    def tables(self, cursor: Any, schema: str | None, kinds: Sequence[str]) -> list[TableName]:
        wanted = [kind.lower() for kind in kinds]
        cursor.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
        return [
            TableName("", name)
            for name, kind in cursor.fetchall()
            if kind in wanted and not name.startswith("sqlite_")
        ]

    def columns(self, cursor: Any, table: TableName) -> list[Column]:
        cursor.execute(f"PRAGMA table_info({self.quoted(table.name)})")
        rows = cursor.fetchall()
        keys = [row for row in rows if row[5]]
        return [
            _column(name, declared, bool(required), bool(key), alone=bool(key) and len(keys) == 1)
            for _, name, declared, required, _, key in rows
        ]

    def result_columns(self, cursor: Any) -> list[Column]:
        # A query has no declared types: values say themselves what they are, as texts where they differ.
        return [_column(each[0], "", required=False, key=False, alone=False) for each in cursor.description]

    def now_us(self, cursor: Any) -> int:
        cursor.execute(f"SELECT strftime('{_FORM}', 'now')")
        return microseconds(_parsed(cursor.fetchone()[0]))

    def timestamp_text(self, column: str) -> str:
        return (
            f"(CASE typeof({column}) WHEN 'integer' "
            f"THEN strftime('{_FORM}', {column} / 1000.0, 'unixepoch') "
            f"ELSE strftime('{_FORM}', {column}) END)"
        )

    def timestamp_parameter(self, column: Column, microseconds: int) -> object:
        when = moment(microseconds)
        return f"{when:%Y-%m-%d %H:%M:%S}.{when.microsecond // 1000:03d}"

    def type_of(self, schema: Schema, key: bool) -> str:
        named = {DATE: "DATE", TIME: "TIME", TIMESTAMP: "TIMESTAMP", DECIMAL: "NUMERIC"}
        if schema.name in named:
            return named[schema.name]
        if schema.type in (Type.FLOAT32, Type.FLOAT64):
            return "REAL"
        if schema.type is Type.BYTES:
            return "BLOB"
        whole = schema.type in (Type.BOOLEAN, Type.INT8, Type.INT16, Type.INT32, Type.INT64)
        return "INTEGER" if whole else "TEXT"

    def upsert(self, table: TableName, keys: Sequence[str], others: Sequence[str], rows: str) -> str:
        conflict = ", ".join(map(self.quoted, keys))
        changes = ", ".join(f"{self.quoted(each)} = excluded.{self.quoted(each)}" for each in others)
        action = f"DO UPDATE SET {changes}" if changes else "DO NOTHING"
        # WHERE true: without it SQLite cannot tell ON of a conflict from ON of a join.
        return f"{self.insert(table, [*keys, *others], rows)} ON CONFLICT ({conflict}) {action}"

    def locked(self, select: str) -> str:
        return select

    def begin_writing(self, cursor: Any) -> None:
        cursor.execute("BEGIN IMMEDIATE")

    def split(self, name: str) -> TableName:
        return TableName("", name)

    def written(self, schema: Schema | None, value: object) -> object:
        if is_nested(value):
            return json_text(value)
        found = super().written(schema, value)
        if isinstance(found, datetime.datetime):
            return f"{found:%Y-%m-%d %H:%M:%S}.{found.microsecond // 1000:03d}"
        if isinstance(found, datetime.date | datetime.time):
            return found.isoformat()
        return str(found) if isinstance(found, Decimal) else found


def _escaped(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _column(name: str, declared: str, required: bool, key: bool, alone: bool) -> Column:
    word = declared.upper()
    rowid = alone and word == "INTEGER"
    nullable = not required and not rowid
    schema, read = _type(word, nullable)
    is_timestamp = "DATETIME" in word or "TIMESTAMP" in word
    return Column(name, schema, read, nullable, rowid, key, is_timestamp)


def _type(word: str, optional: bool) -> tuple[Schema, Callable[[Any], object]]:
    """SQLite's own rules for affinities, with the words that it has no rule for before them."""
    if "DATETIME" in word or "TIMESTAMP" in word:
        return timestamp(optional=optional), lambda value: instant(_parsed(value))
    if word == "DATE":
        return date(optional=optional), lambda value: instant(_parsed(value).date())
    if word == "TIME":
        return time(optional=optional), lambda value: instant(datetime.time.fromisoformat(str(value)))
    if word.startswith("BOOL"):
        return Schema(Type.BOOLEAN, optional=optional), _boolean
    if "INT" in word:
        return Schema(Type.INT64, optional=optional), _whole
    if "CHAR" in word or "CLOB" in word or "TEXT" in word or "JSON" in word or not word:
        return Schema(Type.STRING, optional=optional), _text
    if "BLOB" in word:
        return Schema(Type.BYTES, optional=optional), _bytes
    found = re.search(r"\(\s*\d+\s*,\s*(\d+)\s*\)", word)
    if found is not None and ("DEC" in word or "NUM" in word):
        return decimal(int(found[1]), optional=optional), scaled(int(found[1]))
    return Schema(Type.FLOAT64, optional=optional), _number


def _parsed(value: Any) -> datetime.datetime:
    """A moment in any of SQLite's forms."""
    if isinstance(value, int):
        return Instant(value).datetime()
    if isinstance(value, float):
        return Instant(round((value - 2440587.5) * 86_400_000)).datetime()
    try:
        return datetime.datetime.fromisoformat(str(value))
    except ValueError:
        raise DataException(f"The text {str(value)[:40]!r} in a column of dates is no date") from None


def _boolean(value: Any) -> bool:
    if isinstance(value, int):
        return value != 0
    text = str(value).lower()
    if text in ("true", "false", "t", "f"):
        return text.startswith("t")
    raise _misfit(value, "BOOLEAN")


def _whole(value: Any) -> int:
    if isinstance(value, int):
        return value
    raise _misfit(value, "INTEGER")


def _number(value: Any) -> float:
    if isinstance(value, int | float):
        return float(value)
    raise _misfit(value, "REAL")


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _misfit(value: Any, declared: str) -> DataException:
    return DataException(f"A column that is declared {declared} holds a {type(value).__name__}")
