"""Rows into tables: tables and columns that are missing are made if that is allowed, and statements have
many rows.

Invariant: rows reach a table in the order of their records, so that the last one of a key stays.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from moldau.connect.connectors.jdbc.dialect import Dialect, TableName, marks
from moldau.connect.connectors.jdbc.rows import Row
from moldau.connect.data.schema import Schema
from moldau.connect.errors import ConnectException, RetriableException


class TableWriter:
    def __init__(self, dialect: Dialect, settings: Mapping[str, Any]) -> None:
        self._dialect = dialect
        self._mode: str = settings["insert.mode"]
        self._batch: int = settings["batch.size"]
        self._creates: bool = settings["auto.create"]
        self._evolves: bool = settings["auto.evolve"]
        #: The columns of tables that were seen.
        self._known: dict[TableName, set[str]] = {}

    def write(self, cursor: Any, rows: Iterable[tuple[TableName, Row]]) -> None:
        try:
            for (table, names, keys, deleted), group in groupby(rows, key=_shape):
                found = [row for _, row in group]
                self._prepare(cursor, table, found[0])
                for part in self._parts(found, len(names)):
                    if deleted:
                        self._delete(cursor, table, part)
                    elif self._mode == "update":
                        self._update(cursor, table, part)
                    else:
                        self._insert(cursor, table, names, keys, part)
        except BaseException:
            self._known.clear()  # what was made in this transaction is undone with it
            raise

    def _parts(self, rows: Sequence[Row], columns: int) -> Iterator[Sequence[Row]]:
        size = max(1, min(self._batch, self._dialect.max_parameters // max(1, columns)))
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    # --- statements -----------------------------------------------------------------------------------

    def _insert(
        self, cursor: Any, table: TableName, names: Sequence[str], keys: Sequence[str], rows: Sequence[Row]
    ) -> None:
        if self._mode == "upsert" and keys:
            # One statement must not change a row twice: the last one of each key is what stays.
            rows = list({row.values[: len(keys)]: row for row in rows}.values())
            shape = marks(self._dialect.mark, len(names), len(rows))
            text = self._dialect.upsert(table, keys, names[len(keys) :], shape)
        else:
            text = self._dialect.insert(table, names, marks(self._dialect.mark, len(names), len(rows)))
        cursor.execute(text, [value for row in rows for value in row.values])

    def _update(self, cursor: Any, table: TableName, rows: Sequence[Row]) -> None:
        changes = ", ".join(self._equal(name) for name in rows[0].others)
        if not changes:
            return
        where = " AND ".join(self._equal(name) for name in rows[0].keys)
        text = f"UPDATE {self._dialect.table(table)} SET {changes} WHERE {where}"
        count = len(rows[0].keys)
        cursor.executemany(text, [(*row.values[count:], *row.values[:count]) for row in rows])

    def _delete(self, cursor: Any, table: TableName, rows: Sequence[Row]) -> None:
        where = " AND ".join(self._equal(name) for name in rows[0].keys)
        cursor.executemany(
            f"DELETE FROM {self._dialect.table(table)} WHERE {where}", [row.values for row in rows]
        )

    def _equal(self, name: str) -> str:
        return f"{self._dialect.quoted(name)} = {self._dialect.mark}"

    # --- tables ---------------------------------------------------------------------------------------

    def _prepare(self, cursor: Any, table: TableName, row: Row) -> None:
        known = self._known.get(table)
        if known is not None and known.issuperset(row.names):
            return
        there = {column.name for column in self._dialect.columns(cursor, table)}
        if not there and not row.deleted:
            self._create(cursor, table, row)
            there = set(row.names)
        missing = [name for name in row.names if name not in there]
        if missing and not row.deleted:
            self._evolve(cursor, table, row, missing)
        self._known[table] = there | set(row.names)

    def _create(self, cursor: Any, table: TableName, row: Row) -> None:
        if not self._creates:
            raise ConnectException(f"The table {table} is missing. Next: make it, or set auto.create=true")
        definitions = [
            self._definition(name, schema, name in row.keys)
            for name, schema in zip(row.names, row.schemas, strict=True)
        ]
        if row.keys:
            definitions.append(f"PRIMARY KEY ({', '.join(map(self._dialect.quoted, row.keys))})")
        self._define(cursor, f"CREATE TABLE {self._dialect.table(table)} ({', '.join(definitions)})")

    def _definition(self, name: str, schema: Schema, key: bool) -> str:
        kind = self._dialect.type_of(schema, key)
        required = key or not schema.optional
        return f"{self._dialect.quoted(name)} {kind} {'NOT NULL' if required else 'NULL'}"

    def _evolve(self, cursor: Any, table: TableName, row: Row, missing: Sequence[str]) -> None:
        if not self._evolves:
            raise ConnectException(
                f"The table {table} has no column {', '.join(missing)}. Next: add it, or set auto.evolve=true"
            )
        schemas = dict(zip(row.names, row.schemas, strict=True))
        for name in missing:
            # Rows that are there have no value for it, so it may be null whatever the schema says.
            kind = self._dialect.type_of(schemas[name], key=False)
            column = f"{self._dialect.quoted(name)} {kind} NULL"
            self._define(cursor, f"ALTER TABLE {self._dialect.table(table)} ADD COLUMN {column}")

    def _define(self, cursor: Any, statement: str) -> None:
        """Another task may have been first since we looked; it is looked at again with the next attempt."""
        try:
            cursor.execute(statement)
        except self._dialect.errors as error:
            if any(words in str(error).lower() for words in ("already exists", "duplicate")):
                raise RetriableException(f"Another task has done the same: {error}") from None
            raise


def _shape(item: tuple[TableName, Row]) -> tuple[TableName, tuple[str, ...], tuple[str, ...], bool]:
    table, row = item
    return table, row.names, row.keys, row.deleted
