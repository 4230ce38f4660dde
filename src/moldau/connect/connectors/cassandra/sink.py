"""CassandraSink: records as rows of tables, by their keys; a tombstone deletes.

An INSERT of Cassandra replaces the row of its key, so that a batch which comes again comes to the same.
Rows of a batch are written many at a time. Their order is kept by the write time that each statement
carries: the server keeps what has the latest.

Invariant: of two records with one key the later one counts, in whatever order their writes arrive; a row
that the server refuses is reported by itself, after all before it are written.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import OneOf, Range
from moldau.connect.connector import SinkConnector, SinkTask, SinkTaskContext
from moldau.connect.connectors.cassandra.mapping import MAX_TTL_SECONDS, Target, Targets, row_of
from moldau.connect.connectors.cassandra.tables import Tables, translate
from moldau.connect.errors import ConfigException, ConnectException, DataException, RetriableException
from moldau.connect.records import SinkRecord

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_LEVELS = ("ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM", "LOCAL_ONE")


class CassandraSink(SinkConnector):
    class_name = "com.datastax.oss.kafka.sink.CassandraSinkConnector"
    task_class_name = "com.datastax.oss.kafka.sink.CassandraSinkTask"
    synonyms = ("com.datastax.kafkaconnector.DseSinkConnector",)
    config = ConfigDef(
        ConfigKey("contactPoints", ConfigType.LIST, importance=_HIGH, doc="Servers of the cluster."),
        ConfigKey("port", ConfigType.INT, 9042, _HIGH, "Their port.", Range(1, 65535)),
        ConfigKey("loadBalancing.localDc", ConfigType.STRING, "", _HIGH, "The data centre to write to."),
        ConfigKey("auth.username", ConfigType.STRING, "", _HIGH, "The user."),
        ConfigKey("auth.password", ConfigType.PASSWORD, None, _HIGH, "Their password."),
        ConfigKey("keyspace", ConfigType.STRING, "", _HIGH, "Where tables without a mapping are."),
        ConfigKey(
            "table.name.format",
            ConfigType.STRING,
            "${topic}",
            _MEDIUM,
            "The table where topic.TOPIC.KEYSPACE.TABLE.mapping names none; ${topic} is the topic, with "
            "underscores for what a table's name cannot have.",
        ),
        ConfigKey("pk.fields", ConfigType.LIST, [], _MEDIUM, "Fields of the key; a name for a single value."),
        ConfigKey("auto.create", ConfigType.BOOLEAN, False, _MEDIUM, "Make tables that are missing."),
        ConfigKey("auto.evolve", ConfigType.BOOLEAN, False, _MEDIUM, "Add columns that are missing."),
        ConfigKey("deletesEnabled", ConfigType.BOOLEAN, True, _MEDIUM, "Delete the row of a tombstone."),
        ConfigKey("nullToUnset", ConfigType.BOOLEAN, True, _MEDIUM, "A null leaves the column as it is."),
        ConfigKey(
            "ttl",
            ConfigType.INT,
            -1,
            _MEDIUM,
            "Seconds that rows stay; 0: for ever; -1: as the table says.",
            Range(-1, MAX_TTL_SECONDS),
        ),
        ConfigKey(
            "consistencyLevel",
            ConfigType.STRING,
            "LOCAL_QUORUM",
            _MEDIUM,
            "How many replicas have to confirm a row.",
            OneOf(*_LEVELS),
        ),
        ConfigKey(
            "write.time",
            ConfigType.STRING,
            "now",
            _MEDIUM,
            "The write time of rows: now, or offset, with which a batch that comes late changes nothing, for "
            "tables that nobody else writes and topics that are never made anew.",
            OneOf("now", "offset"),
        ),
        ConfigKey("maxConcurrentRequests", ConfigType.INT, 128, _LOW, "Writes at a time.", Range(1, 10_000)),
        ConfigKey("queryExecutionTimeout", ConfigType.INT, 30, _LOW, "Seconds to wait.", Range(1)),
    )

    def make_task(self) -> SinkTask:
        return CassandraSinkTask()

    def has_offsets_in_rows(self) -> bool:
        return bool(self.settings["write.time"] == "offset")

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        try:
            settings = cls.config.parse(given)
        except ConfigException:
            return {}  # the definition tells which setting it is
        try:
            targets = Targets.of(given, settings)
        except ConfigException as error:
            return {"keyspace": [error.message]}
        if not targets.by_topic and not targets.keyspace:
            return {"keyspace": ["Either keyspace or topic.TOPIC.KEYSPACE.TABLE.mapping has to be set"]}
        return {}

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        return [host.strip() for host in given.get("contactPoints", "").split(",") if host.strip()]


class CassandraSinkTask(SinkTask):
    def start(self, settings: Mapping[str, str], context: SinkTaskContext) -> None:
        self._settings = CassandraSink.config.parse(settings)
        self._context = context
        self._targets = Targets.of(settings, self._settings)
        self._tables = Tables(self._settings)
        self._last_time = 0

    def stop(self) -> None:
        tables = getattr(self, "_tables", None)
        if tables is not None:
            tables.close()

    def put(self, records: Sequence[SinkRecord]) -> None:
        size = self._settings["maxConcurrentRequests"]
        waiting: list[tuple[SinkRecord, Any]] = []
        for record in records:
            try:
                statements = self._statements(record)
            except DataException as error:
                self._written(waiting)  # good rows before a bad one are there, whatever becomes of it
                waiting = []
                self._context.report(record, error)
                continue
            waiting += [(record, self._tables.session.execute_async(each)) for each in statements]
            if len(waiting) >= size:
                self._written(waiting)
                waiting = []
        self._written(waiting)

    def _statements(self, record: SinkRecord) -> list[Any]:
        """All of a record, or none: one that does not fit one table is not written to another."""
        targets: list[Target] = self._targets.for_topic(record.topic)
        time = self._write_time(record)
        return [self._tables.bound(target, row_of(record, target), time) for target in targets]

    def _write_time(self, record: SinkRecord) -> int:
        if self._settings["write.time"] == "offset":
            return record.offset + 1
        self._last_time = max(self._context.now_ms() * 1000, self._last_time + 1)
        return self._last_time

    def _written(self, waiting: Sequence[tuple[SinkRecord, Any]]) -> None:
        """Waits for all of them first: none may arrive after the batch has failed and comes again."""
        outcomes = [(record, _error_of(future)) for record, future in waiting]
        problems = [(record, error) for record, error in outcomes if error is not None]
        passing = [error for _, error in problems if isinstance(error, RetriableException)]
        if passing:
            raise passing[0]
        for record, error in problems:
            if not isinstance(error, DataException):
                raise error
            self._context.report(record, error)


def _error_of(future: Any) -> Exception | None:
    try:
        future.result()
    except Exception as error:
        # What the server says of a row is about this row, unless its table is gone.
        text = str(error)
        about_table = any(words in text.lower() for words in ("unconfigured table", "does not exist"))
        if type(error).__name__ == "InvalidRequest" and not about_table:
            return DataException(f"cassandra refuses the row: {text[:300]}")
        found = translate(error)
        return found if isinstance(found, ConnectException) else ConnectException(text[:300])
    return None
