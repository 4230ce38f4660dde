"""Changes of MySQL and MariaDB by their binary log: first what is there, then what changes, without a gap.

The snapshot is one consistent view whose place in the log is known, and the stream begins at that place. That
place is kept before the first row is given out: a snapshot that was cut short is followed by all changes
since the first attempt, because rows that it gave may be deleted by now, which another snapshot does not
show. A place names where a transaction begins, an event in it, and rows of that event; a restart reads that
again and passes over what was written. The log itself describes the tables (``binlog_row_metadata=FULL``), so
that old events are read with the columns of their time and no history of schemas is kept.

Invariant: what a place names was given out, with everything before it.
"""

import logging
import random
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import NonEmptyString, OneOf, Range
from moldau.connect.connector import Place, SourceConnector, SourceTask, SourceTaskContext
from moldau.connect.connectors.cdc.envelope import HEARTBEAT_KEY, HEARTBEAT_VALUE
from moldau.connect.connectors.cdc.mysql_snapshot import check_log, check_server, read_tables, read_view
from moldau.connect.connectors.cdc.mysql_tables import MySqlTable, mysql_source
from moldau.connect.connectors.cdc.mysql_types import MySqlColumn, MySqlRules
from moldau.connect.connectors.cdc.mysql_wire import (
    BinlogStream,
    Boundary,
    LogPosition,
    MySqlAddress,
    Rows,
    open_sql,
    translated,
)
from moldau.connect.data.schema import Struct
from moldau.connect.errors import ConnectException
from moldau.connect.records import SourceRecord

log = logging.getLogger("moldau.connect.connectors")

_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM
_VERSION = "3.6.3.Final"
_LISTS = tuple(f"{kind}.{side}.list" for kind in ("database", "table") for side in ("include", "exclude"))


def _key(name: str, kind: ConfigType, default: object, doc: str, validator: Any = None) -> ConfigKey:
    return ConfigKey(name, kind, default, _MEDIUM, doc, validator)


class MySqlCdc(SourceConnector):
    class_name = "io.debezium.connector.mysql.MySqlConnector"
    task_class_name = "io.debezium.connector.mysql.MySqlConnectorTask"
    synonyms = ("io.debezium.connector.mariadb.MariaDbConnector",)
    config = ConfigDef(
        ConfigKey("database.hostname", ConfigType.STRING, importance=_HIGH, doc="The server."),
        ConfigKey("database.port", ConfigType.INT, 3306, _HIGH, "Its port.", Range(1, 65535)),
        ConfigKey("database.user", ConfigType.STRING, importance=_HIGH, doc="A user who may replicate."),
        ConfigKey("database.password", ConfigType.PASSWORD, None, _HIGH, "Their password."),
        ConfigKey(
            "topic.prefix",
            ConfigType.STRING,
            importance=_HIGH,
            doc="Before the names of topics: PREFIX.DATABASE.TABLE.",
            validator=NonEmptyString(),
        ),
        _key("database.server.id", ConfigType.LONG, 0, "The number as a replica; 0 draws one.", Range(0)),
        _key(
            "database.ssl.mode",
            ConfigType.STRING,
            "preferred",
            "Whether the connection is encrypted, and what is checked of the server.",
            OneOf("disabled", "preferred", "required", "verify_ca", "verify_identity"),
        ),
        _key("database.include.list", ConfigType.LIST, [], "Regular expressions of databases."),
        _key("database.exclude.list", ConfigType.LIST, [], "Regular expressions of databases."),
        _key("table.include.list", ConfigType.LIST, [], "Regular expressions of DATABASE.TABLE."),
        _key("table.exclude.list", ConfigType.LIST, [], "Regular expressions of DATABASE.TABLE."),
        _key("column.exclude.list", ConfigType.LIST, [], "Regular expressions of DATABASE.TABLE.COLUMN."),
        _key(
            "snapshot.mode",
            ConfigType.STRING,
            "initial",
            "What is read before the stream.",
            OneOf("initial", "initial_only", "no_data", "never"),
        ),
        _key(
            "decimal.handling.mode",
            ConfigType.STRING,
            "precise",
            "How decimals come.",
            OneOf("precise", "double", "string"),
        ),
        _key(
            "bigint.unsigned.handling.mode",
            ConfigType.STRING,
            "long",
            "How BIGINT UNSIGNED comes.",
            OneOf("long", "precise"),
        ),
        _key("tombstones.on.delete", ConfigType.BOOLEAN, True, "A record without value behind a delete."),
        _key("skipped.operations", ConfigType.LIST, ["t"], "Operations that are left out: c, u, d, none."),
        _key("heartbeat.interval.ms", ConfigType.LONG, 0, "How often a heartbeat is sent; 0 is never."),
        _key("heartbeat.topics.prefix", ConfigType.STRING, "__debezium-heartbeat", "Their topic."),
        _key("max.batch.size", ConfigType.INT, 2048, "Records at a time.", Range(1)),
        _key("poll.interval.ms", ConfigType.LONG, 500, "How long to wait for a change.", Range(1)),
    )

    def make_task(self) -> SourceTask:
        return MySqlCdcTask()

    @classmethod
    def exactly_once(cls, given: Mapping[str, str]) -> bool:
        """A snapshot that is cut short begins anew; the stream goes on where it was."""
        return given.get("snapshot.mode") in ("no_data", "never")

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        return [given.get("database.hostname", "")]

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        problems: dict[str, list[str]] = {}
        for setting in (*_LISTS, "column.exclude.list"):
            for expression in given.get(setting, "").split(","):
                try:
                    re.compile(expression)
                except re.error as error:
                    problems[setting] = [f"{expression} is no regular expression: {error}"]
        return problems

    def check_offsets(self, offsets: Sequence[tuple[Place, Place | None]]) -> None:
        for partition, offset in offsets:
            if "server" not in partition:
                raise ConnectException("Partition objects should contain the key 'server'")
            if offset is not None and not (
                isinstance(offset.get("file"), str) and isinstance(offset.get("pos"), int)
            ):
                raise ConnectException("Offset objects should either be null or contain 'file' and 'pos'")


class MySqlCdcTask(SourceTask):
    waits = True

    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:
        self._settings = MySqlCdc.config.parse(settings)
        self._context = context
        secret = self._settings["database.password"]
        self._address = MySqlAddress(
            self._settings["database.hostname"],
            self._settings["database.port"],
            self._settings["database.user"],
            "" if secret is None else secret.secret,
            self._settings["database.ssl.mode"],
        )
        self._flavour = (
            "mariadb" if settings.get("connector.class", "").endswith("MariaDbConnector") else "mysql"
        )
        self._source_schema = mysql_source(self._flavour)
        self._rules = MySqlRules(
            self._settings["decimal.handling.mode"], self._settings["bigint.unsigned.handling.mode"]
        )
        self._partition = {"server": self._settings["topic.prefix"]}
        self._sql: Any = None
        self._stream: BinlogStream | None = None
        self._records: Generator[list[SourceRecord], None, None] | None = None
        self._tables: dict[tuple[str, str], tuple[tuple[MySqlColumn, ...], MySqlTable]] = {}
        #: A transaction of which a restart passes over what comes up to this event and row.
        self._begin: LogPosition | None = None
        self._after = (-1, 0)
        self._boundary = LogPosition("", 0)
        #: Whether all that was read up to the boundary, and nothing more, is given out.
        self._settled = True
        self._beat_at = 0

    def stop(self) -> None:
        records, self._records = getattr(self, "_records", None), None
        if records is not None:
            with suppress(Exception):
                records.close()
        stream, self._stream = getattr(self, "_stream", None), None
        if stream is not None:
            stream.close()
        sql, self._sql = getattr(self, "_sql", None), None
        if sql is not None:
            with suppress(Exception):
                sql.close()

    def poll(self) -> Sequence[SourceRecord]:
        with translated(self._address.password, self._context.connector):
            if self._records is None:
                self._records = self._work()
            return next(self._records, [])

    def _work(self) -> Generator[list[SourceRecord], None, None]:
        """Batches of records, an empty one when there is nothing now; the first call connects."""
        self._sql = open_sql(self._address)
        check_server(self._sql)
        place = self._context.offset_of(self._partition)
        if place is None or (place.get("snapshot") and not place.get("last_snapshot_record")):
            yield from self._first_time(place)
        else:
            self._boundary = LogPosition(str(place.get("file")), _number(place.get("pos")))
            self._begin = self._boundary
            self._after = (_number(place.get("event"), -1), _number(place.get("row")))
            self._settled = self._after[0] < 0
        self._sql.close()
        if self._settings["snapshot.mode"] == "initial_only":
            self.waits = False
            while True:
                yield []
        number = self._settings["database.server.id"] or random.SystemRandom().randrange(1 << 20, 1 << 31)
        self._stream = BinlogStream(self._address, number, self._boundary, self._wants)
        while True:
            yield self._changes(self._stream)

    # --- tables ---------------------------------------------------------------------------------------

    def _wants(self, database: str, table: str) -> bool:
        return self._matches("database", database) and self._matches("table", f"{database}.{table}")

    def _matches(self, kind: str, name: str) -> bool:
        including = self._settings[f"{kind}.include.list"]
        excluding = self._settings[f"{kind}.exclude.list"]
        if including and not any(re.fullmatch(each, name) for each in including):
            return False
        return not any(re.fullmatch(each, name) for each in excluding)

    def _shows(self, database: str, table: str, column: str) -> bool:
        name = f"{database}.{table}.{column}"
        return not any(re.fullmatch(each, name) for each in self._settings["column.exclude.list"])

    def _table(self, database: str, name: str, columns: tuple[MySqlColumn, ...]) -> MySqlTable:
        known = self._tables.get((database, name))
        if known is not None and known[0] == columns:
            return known[1]
        shown = [column for column in columns if self._shows(database, name, column.name)]
        prefix = self._settings["topic.prefix"]
        table = MySqlTable.of(prefix, database, name, shown, self._rules, self._source_schema)
        self._tables[database, name] = (columns, table)
        return table

    # --- the snapshot ---------------------------------------------------------------------------------

    def _first_time(self, begun: Place | None) -> Iterator[list[SourceRecord]]:
        position = read_view(self._sql)
        if begun is not None:
            log.info("connector %s: a new snapshot, then all since the first", self._context.connector)
            position = LogPosition(str(begun.get("file")), _number(begun.get("pos")))
            check_log(self._sql, position, self._context.connector)
        self._boundary = position
        self._context.keep(self._partition, _snapshot_place(position))
        if self._settings["snapshot.mode"] in ("no_data", "never"):
            return
        held: SourceRecord | None = None
        batch: list[SourceRecord] = []
        for record in self._snapshot(position):
            if held is not None:
                batch.append(held)
            held = record
            if len(batch) >= self._settings["max.batch.size"]:
                yield batch
                batch = []
        if held is not None:
            last = {**(held.source_offset or {}), "last_snapshot_record": True}
            batch.append(held.replaced(source_offset=last))
        yield batch

    def _snapshot(self, position: LogPosition) -> Iterator[SourceRecord]:
        now = self._context.now_ms()
        place = _snapshot_place(position)
        for database, name, columns, rows in read_tables(self._sql, self._wants, self._shows):
            table = self._table(database, name, columns)
            where = {"server_id": 0, "file": position.file, "pos": position.pos, "row": 0}
            made = Struct(self._source_schema, self._source(table, now, "true", where))
            for row in rows:
                cells = table.row(row)
                yield table.shape.change("r", None, cells, made, now, (self._partition, place))

    def _source(
        self, table: MySqlTable, when_ms: int, snapshot: str, more: Mapping[str, object]
    ) -> dict[str, object]:
        return {
            "version": _VERSION,
            "connector": self._flavour,
            "name": self._settings["topic.prefix"],
            "ts_ms": when_ms,
            "snapshot": snapshot,
            "db": table.database,
            "ts_us": when_ms * 1000,
            "ts_ns": when_ms * 1_000_000,
            "table": table.name,
            **more,
        }

    # --- the stream -----------------------------------------------------------------------------------

    def _changes(self, stream: BinlogStream) -> list[SourceRecord]:
        found: list[SourceRecord] = []
        wait = self._settings["poll.interval.ms"] / 1000
        while len(found) < self._settings["max.batch.size"]:
            item = stream.next(wait)
            if item is None:
                break
            self._settled = isinstance(item, Boundary)
            if isinstance(item, Boundary):
                self._boundary = item.position
            else:
                found += self._taken(item)
            wait = 0
        return found or self._heartbeat()

    def _taken(self, change: Rows) -> list[SourceRecord]:
        if change.op in self._settings["skipped.operations"]:
            return []
        table = self._table(change.database, change.table, change.columns)
        found: list[SourceRecord] = []
        for number, (before, after) in enumerate(change.rows, 1):
            if change.begin == self._begin and (change.event, number) <= self._after:
                continue
            found += self._made(table, change, number, before, after)
        return found

    def _made(
        self,
        table: MySqlTable,
        change: Rows,
        number: int,
        before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
    ) -> Iterator[SourceRecord]:
        """The records of one changed row. Only the last of them has its place: the others have that of the
        row before, so that none is passed over when the task ends between them."""
        now, shape = self._context.now_ms(), table.shape
        more = {
            "server_id": change.server_id,
            "gtid": change.gtid,
            "file": change.begin.file,
            "pos": change.pos,
            "row": number - 1,
        }
        source = Struct(self._source_schema, self._source(table, change.ts_sec * 1000, "false", more))
        old = None if before is None else table.row(before)
        new = None if after is None else table.row(after)
        earlier, place = self._place(change, number - 1), self._place(change, number)
        if old is None or (new is not None and shape.key_of(old) == shape.key_of(new)):
            yield shape.change(change.op, old, new, source, now, place)
            return
        tombstone = self._settings["tombstones.on.delete"] and shape.key is not None
        last = place if new is None and not tombstone else earlier
        gone = shape.change("d", old, None, source, now, last)
        yield gone
        if tombstone:
            found = shape.tombstone(gone)
            yield found.replaced(source_offset=place[1]) if new is None else found
        if new is not None:
            yield shape.change("c", None, new, source, now, place)

    def _place(self, change: Rows, row: int) -> tuple[Mapping[str, object], Mapping[str, object]]:
        found: dict[str, object] = {
            "file": change.begin.file,
            "pos": change.begin.pos,
            "event": change.event,
            "row": row,
            "ts_sec": change.ts_sec,
        }
        if change.gtid is not None:
            found["gtid"] = change.gtid
        return self._partition, found

    def _heartbeat(self) -> list[SourceRecord]:
        """A place behind what other tables did, so that a restart need not read that again; never one that
        lies before a record that is out."""
        interval, now = self._settings["heartbeat.interval.ms"], self._context.now_ms()
        if not interval or now < self._beat_at or not self._settled:
            return []
        self._beat_at = now + interval
        prefix = self._settings["topic.prefix"]
        boundary = self._boundary
        place = {"file": boundary.file, "pos": boundary.pos, "event": -1, "row": 0}
        return [
            SourceRecord(
                topic=f"{self._settings['heartbeat.topics.prefix']}.{prefix}",
                key_schema=HEARTBEAT_KEY,
                key=Struct(HEARTBEAT_KEY, {"serverName": prefix}),
                value_schema=HEARTBEAT_VALUE,
                value=Struct(HEARTBEAT_VALUE, {"ts_ms": now}),
                source_partition=self._partition,
                source_offset=place,
            )
        ]


def _snapshot_place(position: LogPosition) -> dict[str, object]:
    return {"snapshot": True, "last_snapshot_record": False, "file": position.file, "pos": position.pos}


def _number(value: object, default: int = 0) -> int:
    return value if isinstance(value, int) else default
