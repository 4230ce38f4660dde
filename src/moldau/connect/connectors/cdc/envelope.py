"""The envelope of Debezium: what a row was, what it is, where the change comes from, and what it did.

Invariant: pure. A key has the columns of the primary key; a table without one has records without keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moldau.connect.data.schema import Schema, Struct, struct
from moldau.connect.data.types import Type
from moldau.connect.records import SourceRecord

_OPTIONAL_INT64 = Schema(Type.INT64, optional=True)
_SNAPSHOT = Schema(
    Type.STRING,
    optional=True,
    default="false",
    name="io.debezium.data.Enum",
    version=1,
    parameters={
        "allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
    },
)
_TRANSACTION = struct(
    {
        "id": Schema(Type.STRING),
        "total_order": Schema(Type.INT64),
        "data_collection_order": Schema(Type.INT64),
    },
    name="event.block",
    version=1,
    optional=True,
)
HEARTBEAT_KEY = struct({"serverName": Schema(Type.STRING)}, name="io.debezium.connector.common.ServerNameKey")
HEARTBEAT_VALUE = struct({"ts_ms": Schema(Type.INT64)}, name="io.debezium.connector.common.Heartbeat")


def source_schema(name: str, extra: Mapping[str, Schema]) -> Schema:
    """The block ``source``; ``extra`` is what only this kind of database has."""
    common: dict[str, Schema] = {
        "version": Schema(Type.STRING),
        "connector": Schema(Type.STRING),
        "name": Schema(Type.STRING),
        "ts_ms": Schema(Type.INT64),
        "snapshot": _SNAPSHOT,
        "db": Schema(Type.STRING),
        "sequence": Schema(Type.STRING, optional=True),
        "ts_us": _OPTIONAL_INT64,
        "ts_ns": _OPTIONAL_INT64,
    }
    return struct({**common, **extra}, name=name)


@dataclass(frozen=True, slots=True)
class TableShape:
    """The schemas of a table's records."""

    topic: str
    key: Schema | None
    value: Schema
    envelope: Schema

    @classmethod
    def of(
        cls,
        topic: str,
        columns: Sequence[tuple[str, Schema]],
        keys: Sequence[str],
        source: Schema,
    ) -> "TableShape":
        key = None
        if keys:
            chosen = [(name, schema) for name, schema in columns if name in keys]
            key = struct(chosen, name=f"{topic}.Key")
        value = struct(columns, name=f"{topic}.Value", optional=True)
        envelope = struct(
            {
                "before": value,
                "after": value,
                "source": source,
                "transaction": _TRANSACTION,
                "op": Schema(Type.STRING),
                "ts_ms": _OPTIONAL_INT64,
                "ts_us": _OPTIONAL_INT64,
                "ts_ns": _OPTIONAL_INT64,
            },
            name=f"{topic}.Envelope",
            version=2,
        )
        return cls(topic, key, value, envelope)

    def row(self, values: Mapping[str, object]) -> Struct:
        return Struct(self.value, values)

    def key_of(self, row: Struct) -> Struct | None:
        if self.key is None:
            return None
        return Struct(self.key, {field.name: row.get(field.name) for field in self.key.fields})

    def change(
        self,
        op: str,
        before: Struct | None,
        after: Struct | None,
        source: Struct,
        now_ms: int,
        place: tuple[Mapping[str, object], Mapping[str, object]],
    ) -> SourceRecord:
        row = after if after is not None else before
        assert row is not None
        value = {
            "before": before,
            "after": after,
            "source": source,
            "op": op,
            "ts_ms": now_ms,
            "ts_us": now_ms * 1000,
            "ts_ns": now_ms * 1_000_000,
        }
        return SourceRecord(
            topic=self.topic,
            key_schema=self.key,
            key=self.key_of(row),
            value_schema=self.envelope,
            value=Struct(self.envelope, value),
            source_partition=place[0],
            source_offset=place[1],
        )

    def tombstone(self, of: SourceRecord) -> SourceRecord:
        return of.replaced(value_schema=None, value=None)
