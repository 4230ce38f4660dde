"""JdbcSource: rows of tables, or of one query, as records.

Invariant: a row is read again after a crash rather than lost; what the mode cannot see (a row that is
committed later with an earlier number or time) is said in the documentation, not hidden.
"""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import OneOf, Range
from moldau.connect.connector import Place, SourceConnector, SourceTask, SourceTaskContext
from moldau.connect.connectors.jdbc.dialect import Column, Dialect, TableName, address_of, dialect_of
from moldau.connect.connectors.jdbc.queries import Mark, Reading
from moldau.connect.connectors.jdbc.urls import DatabaseAddress
from moldau.connect.data.schema import Schema, Struct, struct
from moldau.connect.errors import ConfigException, ConnectException, JavaError, RetriableException
from moldau.connect.records import SourceRecord

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_TASK_TABLES = "tables"

CONNECTION = (
    ConfigKey(
        "connection.url",
        ConfigType.STRING,
        importance=_HIGH,
        doc="The database: jdbc:sqlite:FILE, jdbc:postgresql://HOST/DB, jdbc:mysql://HOST/DB.",
    ),
    ConfigKey("connection.user", ConfigType.STRING, None, _HIGH, "The user of the database."),
    ConfigKey("connection.password", ConfigType.PASSWORD, None, _HIGH, "Their password."),
)


class JdbcSource(SourceConnector):
    class_name = "io.confluent.connect.jdbc.JdbcSourceConnector"
    task_class_name = "io.confluent.connect.jdbc.source.JdbcSourceTask"
    synonyms = ("io.aiven.connect.jdbc.JdbcSourceConnector",)
    config = ConfigDef(
        *CONNECTION,
        ConfigKey(
            "mode",
            ConfigType.STRING,
            importance=_HIGH,
            doc="How new rows are found.",
            validator=OneOf("bulk", "incrementing", "timestamp", "timestamp+incrementing"),
        ),
        ConfigKey("topic.prefix", ConfigType.STRING, importance=_HIGH, doc="Before the name of the table."),
        ConfigKey("table.whitelist", ConfigType.LIST, [], _MEDIUM, "Tables to read."),
        ConfigKey("table.blacklist", ConfigType.LIST, [], _MEDIUM, "Tables to leave out."),
        ConfigKey("table.include.list", ConfigType.LIST, [], _MEDIUM, "Regular expressions of tables."),
        ConfigKey("table.exclude.list", ConfigType.LIST, [], _MEDIUM, "Regular expressions of tables."),
        ConfigKey("table.types", ConfigType.LIST, ["TABLE"], _LOW, "Kinds of tables: TABLE, VIEW."),
        ConfigKey("schema.pattern", ConfigType.STRING, None, _MEDIUM, "The schema of the tables."),
        ConfigKey(
            "incrementing.column.name",
            ConfigType.STRING,
            "",
            _MEDIUM,
            "The column that grows; where it is empty, the one that the database counts up.",
        ),
        ConfigKey("timestamp.column.name", ConfigType.LIST, [], _MEDIUM, "Columns with the time of change."),
        ConfigKey("timestamp.initial", ConfigType.LONG, None, _LOW, "Milliseconds to begin at; -1 is now."),
        ConfigKey(
            "timestamp.delay.interval.ms",
            ConfigType.LONG,
            0,
            _HIGH,
            "How long to wait for transactions that commit late.",
            Range(0),
        ),
        ConfigKey("query", ConfigType.STRING, "", _MEDIUM, "A query in place of tables."),
        ConfigKey("query.suffix", ConfigType.STRING, "", _LOW, "Put behind every query."),
        ConfigKey("poll.interval.ms", ConfigType.INT, 5000, _HIGH, "How often to look.", Range(0)),
        ConfigKey("batch.max.rows", ConfigType.INT, 1000, _LOW, "Rows at a time.", Range(1)),
        ConfigKey("table.poll.interval.ms", ConfigType.LONG, 60_000, _LOW, "How often to look for tables."),
        ConfigKey("validate.non.null", ConfigType.BOOLEAN, True, _LOW, "Refuse columns that may be null."),
    )

    def make_task(self) -> SourceTask:
        return JdbcSourceTask()

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        problems: dict[str, list[str]] = {}
        try:
            DatabaseAddress.parse(given.get("connection.url", ""))
        except ConfigException as error:
            problems["connection.url"] = [error.message]
        mode = given.get("mode", "")
        if "timestamp" in mode and not given.get("timestamp.column.name", "").strip():
            problems["timestamp.column.name"] = [f"The mode {mode} needs a column of timestamps"]
        chosen = [name for name in _CHOOSERS if given.get(name, "").strip()]
        if given.get("query", "").strip() and chosen:
            problems["query"] = [f"A query and {chosen[0]} exclude each other"]
        for name in ("table.include.list", "table.exclude.list"):
            for expression in given.get(name, "").split(","):
                try:
                    re.compile(expression)
                except re.error as error:
                    problems[name] = [f"{expression} is no regular expression: {error}"]
        return problems

    @classmethod
    def exactly_once(cls, given: Mapping[str, str]) -> bool:
        """Modes whose places tell every two rows apart."""
        return "incrementing" in given.get("mode", "")

    @classmethod
    def paths(cls, given: Mapping[str, str]) -> list[str]:
        return sqlite_paths(given)

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        return database_hosts(given)

    def task_settings(self, max_tasks: int) -> list[dict[str, str]]:
        """Tables are found by tasks themselves, so that a database that is away stops nobody; where tables
        are listed by name, tasks share them."""
        listed = self.settings["table.whitelist"]
        if not listed or max_tasks <= 1:
            return [dict(self.given)]
        count = min(max_tasks, len(listed))
        return [{**self.given, "table.whitelist": ",".join(listed[number::count])} for number in range(count)]

    def check_offsets(self, offsets: Sequence[tuple[Place, Place | None]]) -> None:
        for partition, offset in offsets:
            if "table" not in partition and "query" not in partition:
                raise ConnectException("Partition objects should contain the key 'table' or 'query'")
            Mark.of(offset)


_CHOOSERS = ("table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list")


def sqlite_paths(given: Mapping[str, str]) -> list[str]:
    address = DatabaseAddress.parse(given.get("connection.url", ""))
    return [address.database] if address.kind == "sqlite" else []


def database_hosts(given: Mapping[str, str]) -> list[str]:
    address = DatabaseAddress.parse(given.get("connection.url", ""))
    return [] if address.kind == "sqlite" else [address.host]


@dataclass(slots=True)
class _Table:
    """One table, or the query, that is read."""

    #: The text that is selected from.
    source: str
    topic: str
    partition: dict[str, object]
    schema_name: str | None
    mark: Mark
    due_ms: int = 0
    has_where: bool = False
    name: TableName | None = None
    rows: Generator[SourceRecord, None, None] | None = None


class JdbcSourceTask(SourceTask):
    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:
        self._settings = JdbcSource.config.parse(settings)
        self._context = context
        self._dialect: Dialect = dialect_of(address_of(self._settings))
        self._tables: dict[str, _Table] = {}
        self._look_at_ms = 0
        self._mode: str = self._settings["mode"]

    def stop(self) -> None:
        dialect = getattr(self, "_dialect", None)
        if dialect is None:
            return
        for table in self._tables.values():
            if table.rows is not None:
                with suppress(JavaError):
                    table.rows.close()
        dialect.close()

    def poll(self) -> Sequence[SourceRecord]:
        now = self._context.now_ms()
        if now >= self._look_at_ms:
            self._find_tables()
            self._look_at_ms = now + self._settings["table.poll.interval.ms"]
        # One that is being read goes first: a connection has one large result at a time.
        for table in sorted(self._tables.values(), key=lambda each: (each.rows is None, each.due_ms)):
            if table.rows is None and table.due_ms > now:
                break
            found = self._read(table)
            if found:
                return found
        return []

    # --- tables ---------------------------------------------------------------------------------------

    def _find_tables(self) -> None:
        if self._settings["query"]:
            query = self._settings["query"].strip().rstrip(";")
            partition: dict[str, object] = {"query": "query"}
            topic = self._settings["topic.prefix"]
            where = re.search(r"\bwhere\b", query, re.IGNORECASE) is not None
            self._add("query", _Table(query, topic, partition, None, self._mark(partition), 0, where))
            return
        with self._dialect.transaction() as cursor:
            kinds = [kind.strip() for kind in self._settings["table.types"]]
            there = self._dialect.tables(cursor, self._settings["schema.pattern"], kinds)
        wanted = [name for name in there if self._wants(name)]
        missing = set(self._settings["table.whitelist"]) - {
            text for name in there for text in (str(name), name.name)
        }
        if missing and not self._tables:
            raise ConnectException(f"The database has no table {', '.join(sorted(missing))}")
        for key in set(self._tables) - {str(name) for name in wanted}:
            del self._tables[key]
        for name in wanted:
            partition = {"protocol": "1", "table": str(name)}
            source = f"SELECT * FROM {self._dialect.table(name)}"
            topic = self._settings["topic.prefix"] + name.name
            self._add(
                str(name),
                _Table(source, topic, partition, name.name, self._mark(partition), name=name),
            )

    def _add(self, key: str, table: _Table) -> None:
        self._tables.setdefault(key, table)

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

    def _mark(self, partition: Mapping[str, object]) -> Mark:
        found = self._context.offset_of(partition)
        if found is None and self._settings["timestamp.initial"] is not None:
            initial = self._settings["timestamp.initial"]
            return Mark(when=1000 * (self._context.now_ms() if initial < 0 else initial))
        return Mark.of(found)

    # --- rows -----------------------------------------------------------------------------------------

    def _read(self, table: _Table) -> list[SourceRecord]:
        if table.rows is None:
            table.rows = self._records(table)
        found: list[SourceRecord] = []
        with self._dialect.translated():
            try:
                for record in table.rows:
                    found.append(record)
                    if len(found) >= self._settings["batch.max.rows"]:
                        return found
            except BaseException:
                table.rows = None
                raise
        table.rows = None
        table.due_ms = self._context.now_ms() + self._settings["poll.interval.ms"]
        return found

    def _records(self, table: _Table) -> Generator[SourceRecord, None, None]:
        """Asks once and gives all of the answer; nothing is asked before the first row is wanted."""
        dialect = self._dialect
        with dialect.transaction() as cursor:
            columns = [] if table.name is None else dialect.columns(cursor, table.name)
            reading = self._reading(columns, table)
            until = dialect.now_us(cursor) - 1000 * self._settings["timestamp.delay.interval.ms"]
            text, parameters = reading.query(
                dialect, table.source, table.mark, until, self._settings["query.suffix"], table.has_where
            )
            rows = dialect.big_cursor()
            try:
                rows.execute(text, tuple(parameters))
                if table.name is None or not columns:
                    columns = dialect.result_columns(rows)
                    reading = _with_types(reading, columns)
                columns = _in_order(columns, rows)
                schema = _schema_of(columns, table.schema_name)
                incrementing, timestamp = reading.incrementing is not None, bool(reading.timestamps)
                for row, mark in reading.marked(columns, _batched(rows), table.mark):
                    yield SourceRecord(
                        topic=table.topic,
                        value_schema=schema,
                        value=_struct_of(schema, columns, row),
                        source_partition=table.partition,
                        source_offset=mark.place(incrementing, timestamp),
                    )
                    table.mark = mark
            finally:
                rows.close()

    def _reading(self, columns: list[Column], table: _Table) -> Reading:
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

    def _incrementing(self, by_name: Mapping[str, Column], table: _Table) -> Column:
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


def _named(by_name: Mapping[str, Column], name: str, table: _Table) -> Column:
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


def _in_order(columns: Sequence[Column], cursor: Any) -> list[Column]:
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
