"""What sinks into tables of lakes share: rows are collected, and a flush is one commit of a table.

The commit carries, for every partition of a topic, the offset behind its last row. A flush asks the table for
these first and passes over records that are in it already.

Invariant: rows and the offsets behind them are in the same commit, or neither is; two tasks that have the
same partition for a moment cannot both commit it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moldau.base.names import TopicPartition
from moldau.connect.config.definition import ConfigKey, ConfigType, Importance, Settings
from moldau.connect.config.validators import OneOf, Range
from moldau.connect.connector import SinkTask, SinkTaskContext
from moldau.connect.connectors.tables.columns import aligned, cell, column_type, merged, table_of
from moldau.connect.data.schema import Struct
from moldau.connect.errors import ConnectException, DataException
from moldau.connect.records import SinkRecord

_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM
#: The column of a batch that says which rows are to be removed.
GONE = "__moldau_gone"

WRITING = (
    ConfigKey(
        "write.mode",
        ConfigType.STRING,
        "append",
        _HIGH,
        "append adds a row for each record; upsert keeps one for each key.",
        OneOf("append", "upsert"),
    ),
    ConfigKey(
        "pk.mode",
        ConfigType.STRING,
        "none",
        _HIGH,
        "Where the key of an upsert comes from.",
        OneOf("none", "record_key", "record_value"),
    ),
    ConfigKey("pk.fields", ConfigType.LIST, [], _MEDIUM, "The columns of the key; else all fields of keys."),
    ConfigKey("delete.enabled", ConfigType.BOOLEAN, False, _MEDIUM, "Delete the row of a tombstone."),
    ConfigKey("auto.create", ConfigType.BOOLEAN, True, _MEDIUM, "Make tables that are missing."),
    ConfigKey("auto.evolve", ConfigType.BOOLEAN, True, _MEDIUM, "Add columns that are missing."),
    ConfigKey("flush.size", ConfigType.INT, 10_000, _HIGH, "Records of a commit.", Range(1)),
    ConfigKey(
        "flush.interval.ms",
        ConfigType.LONG,
        10_000,
        _HIGH,
        "How long records wait for a commit at most.",
        Range(1),
    ),
)


def writing_problems(given: Mapping[str, str]) -> dict[str, list[str]]:
    problems: dict[str, list[str]] = {}
    keys = given.get("pk.mode", "none")
    if given.get("write.mode", "append") == "upsert" and keys == "none":
        problems["pk.mode"] = ["An upsert needs a key: record_key, or record_value with pk.fields"]
    if keys == "record_value" and not given.get("pk.fields", "").strip():
        problems["pk.fields"] = ["pk.mode=record_value needs the fields of the key"]
    if given.get("delete.enabled", "false").strip().lower() == "true" and (
        keys != "record_key" or given.get("write.mode", "append") != "upsert"
    ):
        problems["delete.enabled"] = ["Deletion needs write.mode=upsert and pk.mode=record_key"]
    return problems


class LakeTable(ABC):
    """One table, as it was when it was opened; ``write`` is one commit."""

    @abstractmethod
    def schema(self) -> Any:
        """An Arrow schema, or None where there is no table yet."""

    @abstractmethod
    def end(self, connector: str, at: TopicPartition) -> int:
        """The offset behind the last row of a partition."""

    @abstractmethod
    def append(self, rows: Any, connector: str, ends: Mapping[TopicPartition, int]) -> None: ...

    @abstractmethod
    def upsert(
        self, rows: Any, keys: Sequence[str], connector: str, ends: Mapping[TopicPartition, int]
    ) -> None:
        """``rows`` have the column ``GONE``; there is one of each key."""


@dataclass(frozen=True, slots=True)
class _Row:
    at: TopicPartition
    offset: int
    values: Mapping[str, Any]
    kinds: Mapping[str, Any]
    key: tuple[object, ...]
    gone: bool


@dataclass(slots=True)
class _Waiting:
    since_ms: int
    rows: list[_Row] = field(default_factory=list)


class LakeSinkTask(SinkTask):
    """``extra`` is what to install for it."""

    extra: str

    @abstractmethod
    def parsed(self, settings: Mapping[str, str]) -> Settings: ...

    @abstractmethod
    def open(self, name: str) -> LakeTable: ...

    @abstractmethod
    def table_name(self, topic: str) -> str: ...

    def start(self, settings: Mapping[str, str], context: SinkTaskContext) -> None:
        self._settings = self.parsed(settings)
        self._context = context
        self._upsert = self._settings["write.mode"] == "upsert"
        self._waiting: dict[str, _Waiting] = {}
        self._seen: dict[TopicPartition, int] = {}

    def put(self, records: Sequence[SinkRecord]) -> None:
        now = self._context.now_ms()
        for record in records:
            at = _origin(record)
            if record.offset < self._seen.get(at, 0):
                self._drop(at, record.offset)  # the group went back: what was collected comes again
            self._seen[at] = record.offset + 1
            try:
                row = self._row(record, at)
            except DataException as error:
                self._context.report(record, error)
                continue
            name = self.table_name(record.topic)
            waiting = self._waiting.setdefault(name, _Waiting(now))
            waiting.rows.append(row)
            if len(waiting.rows) >= self._settings["flush.size"]:
                self._write(name)
        self.idle()

    def idle(self) -> None:
        before = self._context.now_ms() - self._settings["flush.interval.ms"]
        for name in [name for name, each in self._waiting.items() if each.since_ms <= before]:
            self._write(name)

    def kept(self, ends: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        found = dict(ends)
        for waiting in self._waiting.values():
            for row in waiting.rows:
                if row.at in found:
                    found[row.at] = min(found[row.at], row.offset)
        return found

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        for at in partitions:
            self._drop(at, 0)
            self._seen.pop(at, None)

    def _drop(self, at: TopicPartition, start: int) -> None:
        for waiting in self._waiting.values():
            waiting.rows = [row for row in waiting.rows if row.at != at or row.offset < start]

    # --- rows -----------------------------------------------------------------------------------------

    def _row(self, record: SinkRecord, at: TopicPartition) -> _Row:
        values: dict[str, Any] = {}
        kinds: dict[str, Any] = {}
        if isinstance(record.value, Struct):
            self._take(record.value, values, kinds)
        elif record.value is not None:
            raise DataException("A row of a table needs a struct with a schema as value")
        elif not (self._upsert and self._settings["delete.enabled"]):
            raise DataException("A record without a value is no row. Next: upsert with delete.enabled=true")
        key = self._key(record, values, kinds) if self._upsert else ()
        if not values:
            raise DataException("The record has no fields")
        return _Row(at, record.offset, values, kinds, key, record.value is None)

    def _take(self, found: Struct, values: dict[str, Any], kinds: dict[str, Any]) -> None:
        for item, value in found.items():
            values[item.name] = cell(item.schema, value)
            kinds[item.name] = column_type(item.schema, self.extra)

    def _key(self, record: SinkRecord, values: dict[str, Any], kinds: dict[str, Any]) -> tuple[object, ...]:
        names: list[str] = self._settings["pk.fields"]
        if self._settings["pk.mode"] == "record_key":
            if isinstance(record.key, Struct):
                self._take(record.key, values, kinds)
                names = names or [each.name for each in record.key.schema.fields]
            elif record.key_schema is not None and len(names) == 1:
                values[names[0]] = cell(record.key_schema, record.key)
                kinds[names[0]] = column_type(record.key_schema, self.extra)
            else:
                raise DataException("The key is no struct. Next: name its column in pk.fields")
        key = tuple(values.get(name) for name in names)
        if not key or any(part is None for part in key):
            raise DataException(f"The key ({', '.join(names)}) of an upsert has to have values")
        self._keys = names
        return key

    # --- commits --------------------------------------------------------------------------------------

    def _write(self, name: str) -> None:
        waiting = self._waiting.pop(name)
        if not waiting.rows:
            return
        table = self.open(name)
        connector = self._context.connector
        origins = {row.at for row in waiting.rows}
        known = {at: table.end(connector, at) for at in origins}
        rows = [row for row in waiting.rows if row.offset >= known[row.at]]
        if not rows:
            return
        there = table.schema()
        if there is None and not self._settings["auto.create"]:
            raise ConnectException(
                f"The table {name} is missing. Next: auto.create=true, or make it yourself"
            )
        ends = {row.at: row.offset + 1 for row in rows}
        if self._upsert:
            rows = list({row.key: row for row in rows}.values())
            if there is None:
                rows = [row for row in rows if not row.gone]
        kinds: dict[str, Any] = {}
        for row in rows:
            merged(kinds, row.kinds.items(), self.extra)
        if not rows:
            return  # a table that is not there yet, and nothing but tombstones
        batch = table_of([row.values for row in rows], kinds, self.extra)
        batch = aligned(batch, there, self._settings["auto.evolve"], self.extra)
        if self._upsert and there is not None:
            batch = batch.append_column(GONE, [[row.gone for row in rows]])
            table.upsert(batch, self._keys, connector, ends)
        else:
            table.append(batch, connector, ends)


def _origin(record: SinkRecord) -> TopicPartition:
    topic = record.topic if record.original_topic is None else record.original_topic
    partition = record.partition if record.original_partition is None else record.original_partition
    return TopicPartition(topic, partition or 0)
