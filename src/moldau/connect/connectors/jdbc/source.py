"""JdbcSource: rows of tables, or of one query, as records.

Invariant: a row is read again after a crash rather than lost; what the mode cannot see (a row that is
committed later with an earlier number or time) is said in the documentation, not hidden.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import OneOf, Range
from moldau.connect.connector import Place, SnapshotTask, SourceConnector, SourceTask, SourceTaskContext
from moldau.connect.connectors.jdbc.dialect import Dialect, address_of, dialect_of
from moldau.connect.connectors.jdbc.queries import Condition, Mark, Reading
from moldau.connect.connectors.jdbc.ranges import MOST_RANGES, Plan
from moldau.connect.connectors.jdbc.snapshot import PLAN, SNAPSHOT, JdbcSnapshotTask
from moldau.connect.connectors.jdbc.tables import Table, Tables
from moldau.connect.connectors.jdbc.urls import DatabaseAddress
from moldau.connect.errors import ConfigException, ConnectException, JavaError
from moldau.connect.records import SourceRecord

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

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
        ConfigKey(
            "snapshot.partitions",
            ConfigType.INT,
            0,
            _LOW,
            "Into how many ranges a table is cut that is read on Spark; 0: one for each 50,000 numbers of "
            "its key, and at most 400.",
            Range(0, MOST_RANGES),
        ),
        ConfigKey("validate.non.null", ConfigType.BOOLEAN, True, _LOW, "Refuse columns that may be null."),
    )

    takes_snapshots = True

    def make_task(self) -> SourceTask:
        return JdbcSourceTask()

    def make_snapshots(self) -> SnapshotTask:
        return JdbcSnapshotTask(self.config)

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
            if partition.get(SNAPSHOT) == PLAN and offset is not None:
                Plan.of(offset)


_CHOOSERS = ("table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list")


def sqlite_paths(given: Mapping[str, str]) -> list[str]:
    address = DatabaseAddress.parse(given.get("connection.url", ""))
    return [address.database] if address.kind == "sqlite" else []


def database_hosts(given: Mapping[str, str]) -> list[str]:
    address = DatabaseAddress.parse(given.get("connection.url", ""))
    return [] if address.kind == "sqlite" else [address.host]


@dataclass(slots=True)
class _Progress:
    """How far a table is read."""

    table: Table
    mark: Mark
    due_ms: int = 0
    rows: Generator[SourceRecord, None, None] | None = None


class JdbcSourceTask(SourceTask):
    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:
        self._settings = JdbcSource.config.parse(settings)
        self._context = context
        self._dialect: Dialect = dialect_of(address_of(self._settings))
        self._tables = Tables(self._settings, self._dialect)
        self._known: dict[str, _Progress] = {}
        self._look_at_ms = 0

    def stop(self) -> None:
        dialect = getattr(self, "_dialect", None)
        if dialect is None:
            return
        for each in self._known.values():
            if each.rows is not None:
                with suppress(JavaError):
                    each.rows.close()
        dialect.close()

    def poll(self) -> Sequence[SourceRecord]:
        now = self._context.now_ms()
        if now >= self._look_at_ms:
            self._find_tables()
            self._look_at_ms = now + self._settings["table.poll.interval.ms"]
        # One that is being read goes first: a connection has one large result at a time.
        for each in sorted(self._known.values(), key=lambda each: (each.rows is None, each.due_ms)):
            if each.rows is None and each.due_ms > now:
                break
            found = self._read(each)
            if found:
                return found
        return []

    def _find_tables(self) -> None:
        found = self._tables.found(complete=not self._known)
        for key in set(self._known) - set(found):
            del self._known[key]
        for key, table in found.items():
            if key not in self._known:
                place = self._context.offset_of(table.partition)
                mark = self._tables.start_mark(place, self._context.now_ms())
                self._known[key] = _Progress(table, mark)

    def _read(self, table: _Progress) -> list[SourceRecord]:
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

    def _records(self, progress: _Progress) -> Generator[SourceRecord, None, None]:
        tables, dialect, start = self._tables, self._dialect, progress.mark

        def limits(reading: Reading, cursor: Any) -> list[Condition]:
            return [
                *reading.before(dialect, tables.until_us(cursor)),
                *reading.after(dialect, start),
            ]

        with closing(tables.rows(progress.table, start, limits, self._settings["query.suffix"])) as rows:
            for record, mark in rows:
                yield record
                progress.mark = mark
