"""HBaseSink: records as rows of tables, by their keys; a tombstone deletes the row.

Cells and deletes carry a version that comes from the record, its offset or its timestamp, so that a record
which comes again, or late, changes nothing where a newer one is.

Invariant: a record that cannot be written is reported by itself, after all others of its batch are written.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import OneOf, OneOfAnyCase, Range
from moldau.connect.connector import SinkConnector, SinkTask, SinkTaskContext
from moldau.connect.connectors.hbase.gateway import Gateway, Refused
from moldau.connect.connectors.hbase.rows import Layout, Row, is_family
from moldau.connect.connectors.hbase.tables import Tables
from moldau.connect.connectors.hbase.values import BINARY, ENCODINGS, TEXT
from moldau.connect.connectors.http.client import check_url, host_of
from moldau.connect.errors import ConfigException, DataException
from moldau.connect.records import SinkRecord

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
#: About how much goes into one request; a single row may be larger.
_REQUEST_BYTES = 4 * 1024 * 1024
_Pair = tuple[SinkRecord, Row]
_Refusal = tuple[SinkRecord, DataException]


class HBaseSink(SinkConnector):
    class_name = "io.confluent.connect.hbase.HBaseSinkConnector"
    task_class_name = "io.confluent.connect.hbase.HBaseSinkTask"
    synonyms = ("io.moldau.connect.hbase.HBaseSinkConnector",)
    config = ConfigDef(
        ConfigKey(
            "connection.url",
            ConfigType.LIST,
            importance=_HIGH,
            doc="HBase's REST gateway, http://host:8080, or several of one cluster.",
        ),
        ConfigKey("connection.username", ConfigType.STRING, None, _MEDIUM, "The user."),
        ConfigKey("connection.password", ConfigType.PASSWORD, None, _MEDIUM, "Their password."),
        ConfigKey(
            "table.name.format",
            ConfigType.STRING,
            "${topic}",
            _MEDIUM,
            "The table, with its namespace if it has one (shop:orders); ${topic} is the topic.",
        ),
        ConfigKey(
            "column.family",
            ConfigType.STRING,
            "",
            _MEDIUM,
            "The family of fields that have no fields themselves; the topic where it is empty.",
        ),
        ConfigKey(
            "row.key.definition", ConfigType.LIST, [], _MEDIUM, "Fields of the key, in order; all if empty."
        ),
        ConfigKey(
            "row.key.delimiter",
            ConfigType.STRING,
            "|",
            _MEDIUM,
            "Between fields of the key; where it is empty, two keys may come to one row.",
        ),
        ConfigKey(
            "cell.encoding",
            ConfigType.STRING,
            TEXT,
            _MEDIUM,
            "How values are written: text, or binary as HBase's class Bytes writes them.",
            OneOf(TEXT, BINARY),
        ),
        ConfigKey(
            "write.time",
            ConfigType.STRING,
            "offset",
            _MEDIUM,
            "The version of cells: offset, for tables that nobody else writes and topics that are never made "
            "anew, or timestamp, the record's.",
            OneOf("offset", "timestamp"),
        ),
        ConfigKey(
            "behavior.on.null.fields",
            ConfigType.STRING,
            "delete",
            _MEDIUM,
            "What a null in the value does to its column: delete empties it, ignore leaves it as it is.",
            OneOf("delete", "ignore"),
        ),
        ConfigKey("auto.create.tables", ConfigType.BOOLEAN, False, _MEDIUM, "Make tables that are missing."),
        ConfigKey(
            "auto.create.column.families",
            ConfigType.BOOLEAN,
            False,
            _MEDIUM,
            "Add families that are missing; HBase takes the table offline for that moment.",
        ),
        ConfigKey(
            "insert.mode", ConfigType.STRING, "UPSERT", _LOW, "Rows are replaced.", OneOfAnyCase("UPSERT")
        ),
        ConfigKey("max.batch.size", ConfigType.INT, 1000, _MEDIUM, "Rows in a request.", Range(1, 100_000)),
        ConfigKey("max.concurrent.requests", ConfigType.INT, 8, _LOW, "Deletes at a time.", Range(1, 100)),
        ConfigKey("read.timeout.ms", ConfigType.INT, 30_000, _MEDIUM, "How long to wait.", Range(1)),
    )

    def make_task(self) -> SinkTask:
        return HBaseSinkTask()

    def has_offsets_in_rows(self) -> bool:
        return bool(self.settings["write.time"] == "offset")

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        try:
            for url in given.get("connection.url", "").split(","):
                check_url(url)
        except ConfigException as error:
            found["connection.url"] = [error.message]
        family = given.get("column.family", "").strip()
        if family and not is_family(family):
            found["column.family"] = ["It cannot be the name of a column family"]
        return found

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        return [host_of(url) for url in given.get("connection.url", "").split(",")]


class HBaseSinkTask(SinkTask):
    def start(self, settings: Mapping[str, str], context: SinkTaskContext) -> None:
        parsed = HBaseSink.config.parse(settings)
        self._context = context
        self._most: int = parsed["max.batch.size"]
        self._layout = _layout(parsed, settings.get("row.key.delimiter", parsed["row.key.delimiter"]))
        password = parsed["connection.password"]
        self._gateways = [
            Gateway(
                parsed["connection.url"],
                parsed["connection.username"],
                None if password is None else password.secret,
                parsed["read.timeout.ms"] / 1000,
            )
            for _ in range(parsed["max.concurrent.requests"])
        ]
        self._gateway = self._gateways[0]
        self._threads = ThreadPoolExecutor(len(self._gateways), "hbase-deletes")
        self._tables = Tables(
            self._gateway,
            makes_tables=parsed["auto.create.tables"],
            makes_families=parsed["auto.create.column.families"],
            by_offset=self._layout.by_offset,
        )

    def stop(self) -> None:
        threads = getattr(self, "_threads", None)
        if threads is not None:
            threads.shutdown()
            for gateway in self._gateways:
                gateway.close()

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._tables.begin_batch()
        by_table: dict[str, list[_Pair]] = {}
        refused: list[_Refusal] = []
        for record in records:
            try:
                row = self._layout.row(record)
                self._tables.fit(row, self._layout.default_family(record.topic))
            except DataException as error:
                refused.append((record, error))
            else:
                by_table.setdefault(row.table, []).append((record, row))
        for table, pairs in by_table.items():
            refused += self._write(table, pairs)
        for record, reason in refused:
            self._context.report(record, reason)

    def _write(self, table: str, pairs: Sequence[_Pair]) -> list[_Refusal]:
        """The order of requests does not count: versions do."""
        refused: list[_Refusal] = []
        for part in self._parts([pair for pair in pairs if pair[1].cells]):
            refused += self._put(table, part)
        bad = {id(record) for record, _ in refused}
        deletes = [
            (record, row) for record, row in pairs if row.deleted or (row.emptied and id(record) not in bad)
        ]
        return refused + self._delete(table, deletes)

    def _delete(self, table: str, pairs: Sequence[_Pair]) -> list[_Refusal]:
        """One request for each, several at a time: the gateway knows no other way."""
        if not pairs:
            return []
        families = self._tables.families(table)
        count = min(len(self._gateways), len(pairs))
        running = [
            self._threads.submit(_delete_each, gateway, families, pairs[number::count])
            for number, gateway in enumerate(self._gateways[:count])
        ]
        wait(running)  # a gateway is one thread's at a time, also when another one has failed
        return [refusal for each in running for refusal in each.result()]

    def _put(self, table: str, pairs: Sequence[_Pair]) -> list[_Refusal]:
        try:
            self._gateway.put(table, [row for _, row in pairs])
        except Refused as error:
            if len(pairs) == 1:
                return [(pairs[0][0], error)]
            half = len(pairs) // 2  # one of them is bad: it is found by halves
            return self._put(table, pairs[:half]) + self._put(table, pairs[half:])
        return []

    def _parts(self, pairs: Sequence[_Pair]) -> Iterator[list[_Pair]]:
        part: list[_Pair] = []
        size = 0
        for pair in pairs:
            if part and (len(part) >= self._most or size + pair[1].size > _REQUEST_BYTES):
                yield part
                part, size = [], 0
            part.append(pair)
            size += pair[1].size
        if part:
            yield part


def _delete_each(gateway: Gateway, families: AbstractSet[str], pairs: Sequence[_Pair]) -> list[_Refusal]:
    refused: list[_Refusal] = []
    for record, row in pairs:
        try:
            if row.deleted:
                gateway.delete_row(row, families)
            else:
                gateway.empty_columns(row, row.emptied)
        except DataException as error:
            refused.append((record, error))
    return refused


def _layout(parsed: Mapping[str, Any], delimiter: str) -> Layout:
    """``delimiter`` as it was given: blanks at its ends mean something."""
    return Layout(
        parsed["table.name.format"],
        parsed["column.family"],
        tuple(parsed["row.key.definition"]),
        delimiter,
        ENCODINGS[parsed["cell.encoding"]],
        parsed["write.time"] == "offset",
        parsed["behavior.on.null.fields"] == "delete",
    )
