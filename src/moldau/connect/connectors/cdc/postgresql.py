"""Changes of PostgreSQL by logical replication: first what is there, then what changes, without a gap.

The slot is made with a snapshot; the snapshot is read in its view, and the stream begins where it ends. A
place names a transaction and a change in it. After a restart the server sends again from the last place that
was kept for good, and what was written already is passed over.

Invariant: the server is told to forget only what lies before the place that a restart would find.
"""

import json
import logging
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import NonEmptyString, OneOf, Range
from moldau.connect.connector import Place, SourceConnector, SourceTask, SourceTaskContext
from moldau.connect.connectors.cdc.envelope import HEARTBEAT_KEY, HEARTBEAT_VALUE
from moldau.connect.connectors.cdc.pgoutput import Begin, Change, Commit, Relation, decode
from moldau.connect.connectors.cdc.postgresql_tables import SOURCE, Catalogue, Table
from moldau.connect.connectors.cdc.postgresql_wire import (
    ReplicationStream,
    open_sql,
    settings_address,
    translated,
)
from moldau.connect.data.schema import Struct
from moldau.connect.errors import ConnectException
from moldau.connect.records import SourceRecord

log = logging.getLogger("moldau.connect.connectors")

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_NAME = re.compile(r"[a-z0-9_]{1,63}")
_VERSION = "3.6.3.Final"


def _key(name: str, kind: ConfigType, default: object, doc: str, validator: Any = None) -> ConfigKey:
    return ConfigKey(name, kind, default, _MEDIUM, doc, validator)


class PostgresCdc(SourceConnector):
    class_name = "io.debezium.connector.postgresql.PostgresConnector"
    task_class_name = "io.debezium.connector.postgresql.PostgresConnectorTask"
    config = ConfigDef(
        ConfigKey("database.hostname", ConfigType.STRING, importance=_HIGH, doc="The server."),
        ConfigKey("database.port", ConfigType.INT, 5432, _HIGH, "Its port.", Range(1, 65535)),
        ConfigKey("database.user", ConfigType.STRING, importance=_HIGH, doc="A user who may replicate."),
        ConfigKey("database.password", ConfigType.PASSWORD, None, _HIGH, "Their password."),
        ConfigKey("database.dbname", ConfigType.STRING, importance=_HIGH, doc="The database."),
        ConfigKey(
            "topic.prefix",
            ConfigType.STRING,
            importance=_HIGH,
            doc="Before the names of topics: PREFIX.SCHEMA.TABLE.",
            validator=NonEmptyString(),
        ),
        _key("database.sslmode", ConfigType.STRING, "prefer", "As libpq's sslmode."),
        _key("plugin.name", ConfigType.STRING, "pgoutput", "The decoder.", OneOf("pgoutput")),
        _key("slot.name", ConfigType.STRING, "debezium", "The replication slot."),
        _key("slot.drop.on.stop", ConfigType.BOOLEAN, False, "Drop the slot when the task stops."),
        _key("publication.name", ConfigType.STRING, "dbz_publication", "The publication."),
        _key(
            "publication.autocreate.mode",
            ConfigType.STRING,
            "all_tables",
            "What a publication that is missing has.",
            OneOf("all_tables", "filtered", "disabled"),
        ),
        _key("schema.include.list", ConfigType.LIST, [], "Regular expressions of schemas."),
        _key("schema.exclude.list", ConfigType.LIST, [], "Regular expressions of schemas."),
        _key("table.include.list", ConfigType.LIST, [], "Regular expressions of SCHEMA.TABLE."),
        _key("table.exclude.list", ConfigType.LIST, [], "Regular expressions of SCHEMA.TABLE."),
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
        _key("tombstones.on.delete", ConfigType.BOOLEAN, True, "A record without value behind a delete."),
        _key("skipped.operations", ConfigType.LIST, ["t"], "Operations that are left out: c, u, d, t, none."),
        _key("heartbeat.interval.ms", ConfigType.LONG, 0, "How often a heartbeat is sent; 0 is never."),
        _key("heartbeat.topics.prefix", ConfigType.STRING, "__debezium-heartbeat", "Their topic."),
        _key("max.batch.size", ConfigType.INT, 2048, "Records at a time.", Range(1)),
        _key("poll.interval.ms", ConfigType.LONG, 500, "How long to wait for a change.", Range(1)),
    )

    def make_task(self) -> SourceTask:
        return PostgresCdcTask()

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
        for name in ("slot.name", "publication.name"):
            value = given.get(name, "debezium")
            if not _NAME.fullmatch(value):
                problems[name] = ["It has to have small letters, digits and underscores only, at most 63"]
        for name in ("schema", "table"):
            for side in ("include", "exclude"):
                setting = f"{name}.{side}.list"
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
            if offset is not None and not isinstance(offset.get("lsn"), int):
                raise ConnectException("Offset objects should either be null or contain the number 'lsn'")


class PostgresCdcTask(SourceTask):
    waits = True

    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:
        self._settings = PostgresCdc.config.parse(settings)
        self._context = context
        self._address = settings_address(self._settings)
        self._partition = {"server": self._settings["topic.prefix"]}
        self._catalogue = Catalogue(self._settings["topic.prefix"], self._settings["decimal.handling.mode"])
        self._sql: Any = None
        self._stream: ReplicationStream | None = None
        self._records: Generator[list[SourceRecord], None, None] | None = None
        self._tables: dict[int, Table | None] = {}
        self._begin: Begin | None = None
        self._event = 0
        #: The last change of the transaction that is being read; it goes out when the next thing is known.
        self._held: list[SourceRecord] = []
        #: Behind the last transaction that was read, and the last one of which records were given out.
        self._end_lsn = 0
        self._given_lsn = 0
        self._beat_at = 0
        self._told_at = 0
        #: A restart passes over what comes up to this change, or to this record of it where it made several.
        self._after: tuple[int, int] = (0, -1)
        self._after_part: int | None = None

    def stop(self) -> None:
        if getattr(self, "_records", None) is not None and self._records is not None:
            with suppress(Exception):
                self._records.close()
        self._records = None
        if getattr(self, "_stream", None) is not None and self._stream is not None:
            self._stream.close()
            self._stream = None
        sql, self._sql = getattr(self, "_sql", None), None
        if sql is not None:
            with suppress(Exception):
                if self._settings["slot.drop.on.stop"]:
                    sql.execute("SELECT pg_drop_replication_slot(%s)", (self._settings["slot.name"],))
                sql.close()

    def poll(self) -> Sequence[SourceRecord]:
        with translated(self._address.password):
            if self._records is None:
                self._records = self._work()
            return next(self._records, [])

    def _work(self) -> Generator[list[SourceRecord], None, None]:
        """Batches of records, an empty one when there is nothing now; the first call connects."""
        self._sql = open_sql(self._address)
        self._catalogue.load_types(self._sql)
        place = self._context.offset_of(self._partition)
        self._publish()
        if place is None or (place.get("snapshot") and not place.get("last_snapshot_record")):
            yield from self._first_time(begun=place is not None)
        else:
            self._again(place)
        if self._settings["snapshot.mode"] == "initial_only":
            self.waits = False
            while True:
                yield []
        assert self._stream is not None
        while True:
            yield self._changes(self._stream)

    # --- beginning ------------------------------------------------------------------------------------

    def _wants(self, schema: str, table: str) -> bool:
        return self._matches("schema", schema) and self._matches("table", f"{schema}.{table}")

    def _matches(self, kind: str, name: str) -> bool:
        including = self._settings[f"{kind}.include.list"]
        excluding = self._settings[f"{kind}.exclude.list"]
        if including and not any(re.fullmatch(each, name) for each in including):
            return False
        return not any(re.fullmatch(each, name) for each in excluding)

    def _publish(self) -> None:
        name = self._settings["publication.name"]
        if self._sql.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (name,)).fetchone():
            return
        mode = self._settings["publication.autocreate.mode"]
        if mode == "disabled":
            raise ConnectException(f"The publication {name} is missing. Next: CREATE PUBLICATION {name} …")
        tables = "FOR ALL TABLES"
        if mode == "filtered":
            found = [each for each in self._catalogue.relations(self._sql) if self._wanted(each)]
            if not found:
                raise ConnectException("No table is included, so there is nothing to publish")
            tables = "FOR TABLE " + ", ".join(f"{_quoted(r.schema)}.{_quoted(r.table)}" for r in found)
        self._sql.execute(f"CREATE PUBLICATION {_quoted(name)} {tables}")

    def _wanted(self, relation: Relation) -> bool:
        return self._wants(relation.schema, relation.table)

    def _first_time(self, begun: bool) -> Iterator[list[SourceRecord]]:
        slot, mode = self._settings["slot.name"], self._settings["snapshot.mode"]
        wants_rows = mode not in ("no_data", "never")
        start = self._kept_since(slot)
        self._stream = ReplicationStream(self._address)
        if start is None:
            made = self._stream.create_slot(slot)
            start = made.consistent_lsn
            if wants_rows:
                yield from self._snapshot(made.snapshot, start)
        elif begun or wants_rows:
            # A snapshot was cut short. Rows that it has given may be deleted by now, which another snapshot
            # does not show: what has changed since the slot was made follows, some of it a second time.
            log.info("connector %s: a new snapshot, then all that slot %s has", self._context.connector, slot)
            yield from self._snapshot(None, start)
        else:
            start = 0  # from where the slot is
        self._end_lsn = self._given_lsn = start
        self._stream.start(slot, start, self._settings["publication.name"])

    def _kept_since(self, slot: str) -> int | None:
        """The place from which on a slot that is there has all changes; one that has lost some is removed."""
        found = self._sql.execute(
            "SELECT confirmed_flush_lsn - '0/0'::pg_lsn, to_jsonb(s) ->> 'wal_status' "
            "FROM pg_replication_slots s WHERE slot_name = %s",
            (slot,),
        ).fetchone()
        if found is not None and (found[0] is None or found[1] == "lost"):
            log.warning("connector %s: slot %s has lost changes; made anew", self._context.connector, slot)
            self._sql.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
            return None
        return None if found is None else int(found[0])

    def _again(self, place: Place) -> None:
        slot = self._settings["slot.name"]
        found = self._sql.execute(
            "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (slot,)
        ).fetchone()
        if found is None:
            raise ConnectException(
                f"The replication slot {slot} is gone, and with it changes since the last place. Next: stop "
                f"the connector, DELETE /connectors/{self._context.connector}/offsets, and resume it: it "
                "begins with a new snapshot"
            )
        start = _number(place.get("lsn_end"))
        self._after = (_number(place.get("lsn_commit")), _number(place.get("event"), -1))
        part = place.get("part")
        self._after_part = part if isinstance(part, int) else None
        self._end_lsn = start
        self._stream = ReplicationStream(self._address)
        self._stream.start(slot, start, self._settings["publication.name"])

    # --- the snapshot ---------------------------------------------------------------------------------

    def _snapshot(self, name: str | None, lsn: int) -> Iterator[list[SourceRecord]]:
        """The rows of the named moment, or of now; what has changed from ``lsn`` on is to follow."""
        sql = self._sql
        sql.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if name is not None:
            sql.execute(f"SET TRANSACTION SNAPSHOT '{name}'")
        now = self._context.now_ms()
        held: SourceRecord | None = None
        batch: list[SourceRecord] = []
        for relation in [each for each in self._catalogue.relations(sql) if self._wanted(each)]:
            table = self._catalogue.table(sql, relation)
            for record in self._rows(table, lsn, now):
                if held is not None:
                    batch.append(held)
                held = record
                if len(batch) >= self._settings["max.batch.size"]:
                    yield batch
                    batch = []
        if held is not None:
            batch.append(_last_of_snapshot(held))
        sql.execute("COMMIT")
        yield batch

    def _rows(self, table: Table, lsn: int, now: int) -> Iterator[SourceRecord]:
        names = ", ".join(map(_quoted, table.columns)) or "*"
        place = {"snapshot": True, "last_snapshot_record": False, "lsn": lsn, "lsn_end": lsn}
        source = self._source(table, now * 1000, lsn, None, "true")
        where = f"{_quoted(table.schema)}.{_quoted(table.name)}"
        with (
            self._sql.cursor() as cursor,
            cursor.copy(f"COPY (SELECT {names} FROM {where}) TO STDOUT") as copy,
        ):
            for cells in copy.rows():
                row = table.row(cells)
                yield table.shape.change("r", None, row, source, now, (self._partition, place))

    def _source(self, table: Table, when_us: int, lsn: int, xid: int | None, snapshot: str) -> Struct:
        return Struct(
            SOURCE,
            {
                "version": _VERSION,
                "connector": "postgresql",
                "name": self._settings["topic.prefix"],
                "ts_ms": when_us // 1000,
                "snapshot": snapshot,
                "db": self._address.database,
                "sequence": json.dumps([str(self._end_lsn or None), str(lsn)]),
                "ts_us": when_us,
                "ts_ns": when_us * 1000,
                "schema": table.schema,
                "table": table.name,
                "txId": xid,
                "lsn": lsn,
            },
        )

    # --- the stream -----------------------------------------------------------------------------------

    def _changes(self, stream: ReplicationStream) -> list[SourceRecord]:
        found: list[SourceRecord] = []
        for lsn, raw in stream.messages(self._settings["poll.interval.ms"] / 1000):
            found += self._taken(lsn, raw)
            if len(found) >= self._settings["max.batch.size"]:
                break
        now = self._context.now_ms()
        found += self._heartbeat(stream, now)
        self._tell(stream, now)
        return found

    def _taken(self, lsn: int, raw: bytes) -> list[SourceRecord]:
        message = decode(raw)
        match message:
            case Begin():
                self._begin, self._event = message, 0
            case Commit():
                self._begin = None
                self._end_lsn = message.end_lsn
                if self._held:
                    self._given_lsn = message.end_lsn
                return self._let_go({"lsn_end": message.end_lsn})
            case Relation():
                wanted = self._wanted(message)
                self._tables[message.oid] = self._catalogue.table(self._sql, message) if wanted else None
            case Change():
                return self._change(lsn, message)
        return []

    def _let_go(self, more: Mapping[str, object]) -> list[SourceRecord]:
        """The records of the last change. Where they are several, those before the last say in their place
        which they are: a restart between them goes on there, and behind the last one with the next change."""
        held, self._held = self._held, []
        if held:
            held[-1] = held[-1].replaced(source_offset={**(held[-1].source_offset or {}), **more})
        return held

    def _change(self, lsn: int, change: Change) -> list[SourceRecord]:
        begin, event = self._begin, self._event
        assert begin is not None
        self._event += 1
        table = self._tables.get(change.relation)
        if table is None or change.op in self._settings["skipped.operations"]:
            return []
        passed = self._passed((begin.final_lsn, event))
        if passed is None:
            return []
        before = self._let_go({})
        place = {
            "lsn": lsn or begin.final_lsn,
            "lsn_commit": begin.final_lsn,
            "event": event,
            "lsn_end": self._end_lsn,
            "txId": begin.xid,
            "ts_usec": begin.commit_us,
        }
        source = self._source(table, begin.commit_us, lsn or begin.final_lsn, begin.xid, "false")
        made = list(self._made(table, change, source, (self._partition, place)))
        numbered = [
            each.replaced(source_offset={**place, "part": part}) for part, each in enumerate(made[:-1])
        ]
        self._held = [*numbered, made[-1]][passed:]
        return before

    def _passed(self, change: tuple[int, int]) -> int | None:
        """How many records of a change are written; None if all of them are."""
        if change < self._after or (change == self._after and self._after_part is None):
            return None
        return self._after_part + 1 if change == self._after and self._after_part is not None else 0

    def _made(
        self,
        table: Table,
        change: Change,
        source: Struct,
        place: tuple[Mapping[str, object], Mapping[str, object]],
    ) -> Iterator[SourceRecord]:
        now, shape = self._context.now_ms(), table.shape
        old = None if change.old is None else table.row(change.old)
        new = None if change.new is None else table.row(change.new, None if change.old_is_key else change.old)
        tombstones = self._settings["tombstones.on.delete"] and shape.key is not None
        moved = old is not None and new is not None and shape.key_of(old) != shape.key_of(new)
        if change.op == "d" or moved:
            gone = shape.change("d", old, None, source, now, place)
            yield gone
            if tombstones:
                yield shape.tombstone(gone)
        if change.op != "d":
            shown = None if change.old_is_key else old
            op = "c" if moved else change.op
            yield shape.change(op, None if moved else shown, new, source, now, place)

    # --- what the server may forget ---------------------------------------------------------------------

    def _heartbeat(self, stream: ReplicationStream, now: int) -> list[SourceRecord]:
        interval = self._settings["heartbeat.interval.ms"]
        if not interval or now < self._beat_at or self._held or self._begin is not None:
            return []
        self._beat_at = now + interval
        prefix = self._settings["topic.prefix"]
        end = max(stream.server_lsn, self._end_lsn)
        return [
            SourceRecord(
                topic=f"{self._settings['heartbeat.topics.prefix']}.{prefix}",
                key_schema=HEARTBEAT_KEY,
                key=Struct(HEARTBEAT_KEY, {"serverName": prefix}),
                value_schema=HEARTBEAT_VALUE,
                value=Struct(HEARTBEAT_VALUE, {"ts_ms": now}),
                source_partition=self._partition,
                source_offset={"lsn": end, "lsn_end": end, "lsn_commit": end, "event": -1},
            )
        ]

    def _tell(self, stream: ReplicationStream, now: int) -> None:
        if now < self._told_at:
            return
        self._told_at = now + 1000
        kept = self._context.kept_offset_of(self._partition)
        end = 0 if kept is None else _number(kept.get("lsn_end"))
        if kept is not None and end >= self._given_lsn and not self._held and self._begin is None:
            # Nothing of ours is on its way: what the log has beyond it is about other tables.
            end = max(end, self._end_lsn, stream.server_lsn)
        stream.acknowledge(end, now)


def _last_of_snapshot(record: SourceRecord) -> SourceRecord:
    return record.replaced(source_offset={**(record.source_offset or {}), "last_snapshot_record": True})


def _number(value: object, default: int = 0) -> int:
    return value if isinstance(value, int) else default


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
