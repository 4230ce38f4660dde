"""JdbcSink: records as rows of tables.

A batch is one transaction. Where ``delivery`` is exactly-once, the offset behind the batch is written into a
table of the same database in that transaction, and records before it are passed over: a batch that comes
again after a crash changes nothing.

Invariant: all of a batch is in the database, or nothing of it, but for rows that the database refuses where
errors are tolerated; names from records are quoted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.base.names import TopicPartition
from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import OneOf, Range
from moldau.connect.connector import SinkConnector, SinkTask, SinkTaskContext
from moldau.connect.connectors.jdbc.dialect import Dialect, TableName, address_of, dialect_of
from moldau.connect.connectors.jdbc.kept_offsets import KeptOffsets
from moldau.connect.connectors.jdbc.rows import Row, RowRules, row_of
from moldau.connect.connectors.jdbc.source import CONNECTION, database_hosts, sqlite_paths
from moldau.connect.connectors.jdbc.table_writer import TableWriter
from moldau.connect.connectors.jdbc.urls import DatabaseAddress
from moldau.connect.errors import ConfigException, DataException
from moldau.connect.records import SinkRecord

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_Rows = Sequence[tuple[SinkRecord, TableName, Row]]


class JdbcSink(SinkConnector):
    class_name = "io.confluent.connect.jdbc.JdbcSinkConnector"
    task_class_name = "io.confluent.connect.jdbc.sink.JdbcSinkTask"
    synonyms = ("io.aiven.connect.jdbc.JdbcSinkConnector",)
    config = ConfigDef(
        *CONNECTION,
        ConfigKey(
            "insert.mode",
            ConfigType.STRING,
            "insert",
            _HIGH,
            "insert, upsert by the primary key, or update of rows that are there.",
            OneOf("insert", "upsert", "update"),
        ),
        ConfigKey("batch.size", ConfigType.INT, 3000, _MEDIUM, "Rows in one statement.", Range(1)),
        ConfigKey("delete.enabled", ConfigType.BOOLEAN, False, _MEDIUM, "Delete the row of a tombstone."),
        ConfigKey(
            "table.name.format",
            ConfigType.STRING,
            "${topic}",
            _MEDIUM,
            "The table; ${topic} stands for the topic.",
        ),
        ConfigKey(
            "pk.mode",
            ConfigType.STRING,
            "none",
            _HIGH,
            "Where the primary key comes from.",
            OneOf("none", "kafka", "record_key", "record_value"),
        ),
        ConfigKey("pk.fields", ConfigType.LIST, [], _MEDIUM, "The columns of the primary key."),
        ConfigKey("fields.whitelist", ConfigType.LIST, [], _MEDIUM, "Fields of values to write; else all."),
        ConfigKey("auto.create", ConfigType.BOOLEAN, False, _MEDIUM, "Make tables that are missing."),
        ConfigKey("auto.evolve", ConfigType.BOOLEAN, False, _MEDIUM, "Add columns that are missing."),
        ConfigKey(
            "delivery",
            ConfigType.STRING,
            None,
            _MEDIUM,
            "exactly-once keeps offsets in the database, in the transaction of the rows; the default where "
            "insert.mode is insert. at-least-once keeps none; the default where it is upsert or update.",
            OneOf(None, "exactly-once", "at-least-once"),
        ),
        ConfigKey(
            "offsets.table", ConfigType.STRING, "moldau_connect_offsets", _LOW, "The table of these offsets."
        ),
    )

    def make_task(self) -> SinkTask:
        return JdbcSinkTask()

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        problems: dict[str, list[str]] = {}
        try:
            DatabaseAddress.parse(given.get("connection.url", ""))
        except ConfigException as error:
            problems["connection.url"] = [error.message]
        keys = given.get("pk.mode", "none")
        if given.get("insert.mode", "insert") != "insert" and keys == "none":
            problems["pk.mode"] = [f"The insert.mode {given['insert.mode']} needs a primary key"]
        if given.get("delete.enabled", "false").strip().lower() == "true" and keys != "record_key":
            problems["delete.enabled"] = ["Deletion needs pk.mode=record_key: a tombstone has a key only"]
        return problems

    @classmethod
    def paths(cls, given: Mapping[str, str]) -> list[str]:
        return sqlite_paths(given)

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        return database_hosts(given)

    def forget(self, partitions: Sequence[TopicPartition] | None) -> None:
        if not exactly_once(self.settings):
            return
        dialect = dialect_of(address_of(self.settings))
        try:
            with dialect.transaction() as cursor:
                kept = KeptOffsets(dialect, self.settings["offsets.table"], self.given.get("name", ""))
                kept.forget(cursor, partitions)
        finally:
            dialect.close()


def exactly_once(settings: Mapping[str, Any]) -> bool:
    chosen = settings["delivery"]
    return chosen == "exactly-once" or (chosen is None and settings["insert.mode"] == "insert")


class JdbcSinkTask(SinkTask):
    def start(self, settings: Mapping[str, str], context: SinkTaskContext) -> None:
        parsed = JdbcSink.config.parse(settings)
        self._context = context
        self._dialect: Dialect = dialect_of(address_of(parsed))
        self._format: str = parsed["table.name.format"]
        self._rules = RowRules.of(parsed)
        self._writer = TableWriter(self._dialect, parsed)
        self._tolerates = settings.get("errors.tolerance") == "all"
        self._kept: KeptOffsets | None = None
        if exactly_once(parsed):
            self._kept = KeptOffsets(self._dialect, parsed["offsets.table"], context.connector)

    def put(self, records: Sequence[SinkRecord]) -> None:
        rows = []
        for record in records:
            try:
                table = self._dialect.split(self._format.replace("${topic}", record.topic))
                row = row_of(record, self._rules, self._dialect)
            except DataException as error:
                self._context.report(record, error)
                continue
            rows.append((record, table, row))
        self._write(records, rows)

    def _write(self, records: Sequence[SinkRecord], rows: _Rows) -> None:
        """Writes all in one transaction; where errors are tolerated and the database refuses a row, the
        others without it."""
        try:
            self._write_together(records, rows)
        except DataException as error:
            if not self._tolerates:
                raise
            if len(rows) == 1:
                self._context.report(rows[0][0], error)
                return
            middle = len(rows) // 2
            for half in (rows[:middle], rows[middle:]):
                self._write([record for record, _, _ in half], half)

    def _write_together(self, records: Sequence[SinkRecord], rows: _Rows) -> None:
        with self._dialect.transaction() as cursor:
            if self._kept is not None:
                ends = self._kept.read(cursor, {_origin(record) for record in records})
                rows = [each for each in rows if each[0].offset >= ends.get(_origin(each[0]), 0)]
            self._writer.write(cursor, [(table, row) for _, table, row in rows])
            if self._kept is not None:
                last = {_origin(record): record.offset + 1 for record in records}
                new = {at: end for at, end in last.items() if end > ends.get(at, 0)}
                self._kept.write(cursor, new, ends)

    def stop(self) -> None:
        dialect = getattr(self, "_dialect", None)
        if dialect is not None:
            dialect.close()


def _origin(record: SinkRecord) -> TopicPartition:
    topic = record.topic if record.original_topic is None else record.original_topic
    partition = record.partition if record.original_partition is None else record.original_partition
    return TopicPartition(topic, partition or 0)
