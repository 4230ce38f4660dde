"""The tables that a source reads: which ones its settings choose, by which columns each is read, and the
records of a query on one of them.

Invariant: whoever reads a row (the task, or a process that reads a range of a snapshot) makes the same record
of it.
"""

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.connect.config.definition import Settings
from moldau.connect.connectors.jdbc.dialect import Column, Dialect, TableName
from moldau.connect.connectors.jdbc.queries import Condition, Mark, Reading
from moldau.connect.data.schema import Schema, Struct, struct
from moldau.connect.errors import ConnectException, RetriableException
from moldau.connect.records import SourceRecord


@dataclass(frozen=True, slots=True)
class Table:
    """One table, or the query, that is read."""

    #: The text that is selected from.
    source: str
    topic: str
    partition: Mapping[str, object]
    schema_name: str | None = None
    has_where: bool = False
    name: TableName | None = None


#: What limits a query, made when the columns are known; the cursor is for questions such as the time.
Limits = Callable[[Reading, Any], Sequence[Condition]]


class Tables:
    def __init__(self, settings: Settings, dialect: Dialect) -> None:
        self._settings = settings
        self._dialect = dialect
        self._mode: str = settings["mode"]

    # --- which ----------------------------------------------------------------------------------------

    def found(self, *, complete: bool) -> dict[str, Table]:
        """Those that are there now and wanted; with ``complete``, one that is listed and not there is an
        error."""
        if self._settings["query"]:
            return {"query": self._query()}
        with self._dialect.transaction() as cursor:
            kinds = [kind.strip() for kind in self._settings["table.types"]]
            there = self._dialect.tables(cursor, self._settings["schema.pattern"], kinds)
        missing = set(self._settings["table.whitelist"]) - {
            text for name in there for text in (str(name), name.name)
        }
        if missing and complete:
            raise ConnectException(f"The database has no table {', '.join(sorted(missing))}")
        return {str(name): self._table(name) for name in there if self._wants(name)}

    def _query(self) -> Table:
        query = self._settings["query"].strip().rstrip(";")
        where = re.search(r"\bwhere\b", query, re.IGNORECASE) is not None
        return Table(query, self._settings["topic.prefix"], {"query": "query"}, has_where=where)

    def _table(self, name: TableName) -> Table:
        return Table(
            f"SELECT * FROM {self._dialect.table(name)}",
            self._settings["topic.prefix"] + name.name,
            {"protocol": "1", "table": str(name)},
            name.name,
            name=name,
        )

    def _wants(self, name: TableName) -> bool:
        texts = (str(name), name.name)
        listed, without = self._settings["table.whitelist"], self._settings["table.blacklist"]
        if listed and not any(text in listed for text in texts):
            return False
        if any(text in without for text in texts):
            return False
        including, excluding = self._settings["table.include.list"], self._settings["table.exclude.list"]
        if including and not any(re.fullmatch(each, text) for each in including for text in texts):
            return False
        return not any(re.fullmatch(each, text) for each in excluding for text in texts)

    def start_mark(self, place: Mapping[str, object] | None, now_ms: int) -> Mark:
        """Where reading goes on after ``place``, or begins where there is none."""
        initial = self._settings["timestamp.initial"]
        if place is None and initial is not None:
            return Mark(when=1000 * (now_ms if initial < 0 else initial))
        return Mark.of(place)

    def until_us(self, cursor: Any) -> int:
        """Rows of this time or later are left for the next query."""
        return self._dialect.now_us(cursor) - 1000 * int(self._settings["timestamp.delay.interval.ms"])

    # --- rows -----------------------------------------------------------------------------------------

    def rows(
        self, table: Table, start: Mark, limits: Limits, suffix: str = ""
    ) -> Generator[tuple[SourceRecord, Mark], None, None]:
        """Asks once and gives all of the answer, with the mark behind each row; nothing is asked before the
        first row is wanted."""
        dialect = self._dialect
        with dialect.transaction() as cursor:
            columns = [] if table.name is None else dialect.columns(cursor, table.name)
            reading = self.reading(columns, table)
            text, parameters = reading.select(
                dialect, table.source, limits(reading, cursor), suffix, table.has_where
            )
            rows = dialect.big_cursor()
            try:
                rows.execute(text, tuple(parameters))
                if table.name is None or not columns:
                    columns = dialect.result_columns(rows)
                    reading = _with_types(reading, columns)
                columns = in_order(columns, rows)
                schema = _schema_of(columns, table.schema_name)
                incrementing, timestamp = reading.incrementing is not None, bool(reading.timestamps)
                for row, mark in reading.marked(columns, _batched(rows), start):
                    yield (
                        SourceRecord(
                            topic=table.topic,
                            value_schema=schema,
                            value=_struct_of(schema, columns, row),
                            source_partition=table.partition,
                            source_offset=mark.place(incrementing, timestamp),
                        ),
                        mark,
                    )
            finally:
                rows.close()

    def reading(self, columns: Sequence[Column], table: Table) -> Reading:
        by_name = {column.name: column for column in columns}
        numbers: Column | None = None
        if "incrementing" in self._mode:
            numbers = self._incrementing(by_name, table)
        times: list[Column] = []
        if "timestamp" in self._mode:
            times += [_named(by_name, name, table) for name in self._settings["timestamp.column.name"]]
        needed = [each for each in (numbers,) if each is not None] + times[:1] * (len(times) == 1)
        if self._settings["validate.non.null"]:
            for column in needed:
                if column.nullable and columns and not column.primary_key:
                    raise ConnectException(
                        f"The column {column.name} of {table.schema_name} may be null, and rows with a null "
                        "would not be seen. Next: NOT NULL, or validate.non.null=false"
                    )
        return Reading(numbers, tuple(times))

    def _incrementing(self, by_name: Mapping[str, Column], table: Table) -> Column:
        name = self._settings["incrementing.column.name"]
        if name:
            return _named(by_name, name, table)
        counted = [column for column in by_name.values() if column.auto_increment]
        if len(counted) != 1:
            raise ConnectException(
                f"{table.schema_name} has {len(counted)} columns that the database counts up. "
                "Next: name one by incrementing.column.name"
            )
        return counted[0]


def _named(by_name: Mapping[str, Column], name: str, table: Table) -> Column:
    if table.name is None and not by_name:  # a query: its types are known when it has run
        return Column(name, None, lambda value: value, is_timestamp=True)
    if name not in by_name:
        raise ConnectException(f"{table.schema_name} has no column {name}")
    return by_name[name]


def _with_types(reading: Reading, columns: Sequence[Column]) -> Reading:
    by_name = {column.name: column for column in columns}
    numbers = reading.incrementing
    return Reading(
        None if numbers is None else by_name.get(numbers.name, numbers),
        tuple(by_name.get(each.name, each) for each in reading.timestamps),
    )


def in_order(columns: Sequence[Column], cursor: Any) -> list[Column]:
    """The columns as the result has them; one that came since they were listed is left for the next time."""
    by_name = {column.name: column for column in columns}
    found = [by_name.get(str(each[0])) for each in cursor.description]
    if any(each is None for each in found):
        raise RetriableException("The table changed while it was read")
    return [each for each in found if each is not None]


def _batched(cursor: Any) -> Iterator[Sequence[Any]]:
    while rows := cursor.fetchmany(2000):
        yield from rows


def _schema_of(columns: Sequence[Column], name: str | None) -> Schema:
    return struct([(each.name, each.connect) for each in columns if each.connect is not None], name=name)


def _struct_of(schema: Schema, columns: Sequence[Column], row: Sequence[Any]) -> Struct:
    made = Struct(schema)
    for column, value in zip(columns, row, strict=True):
        if column.connect is not None and value is not None:
            made.put(column.name, column.read(value))
    return made
