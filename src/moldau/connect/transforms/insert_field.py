"""InsertField: fields with the topic, partition, offset or timestamp of a record, or with a fixed text.

A name that ends with ``!`` makes a required field, one with ``?`` or without a mark an optional one.
"""

from typing import NamedTuple

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.data.schema import Schema, Struct, struct, timestamp
from moldau.connect.data.types import Instant, Int32, Int64, Type
from moldau.connect.errors import ConfigException
from moldau.connect.records import ConnectRecord
from moldau.connect.transforms.base import (
    REPLACE_NULL,
    R,
    SchemaCache,
    SidedTransformation,
    require_map,
    require_sink_record,
    require_struct,
)

_PURPOSE = "field insertion"
_MARKS = " End the name with '!' for a required field, or with '?' for an optional one, which is the default."


class Insertion(NamedTuple):
    name: str
    optional: bool

    @classmethod
    def of(cls, written: str | None) -> "Insertion | None":
        if written is None:
            return None
        if written.endswith(("?", "!")):
            return cls(written[:-1], written.endswith("?"))
        return cls(written, optional=True)


def _key(name: str, doc: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, None, Importance.MEDIUM, doc)


class InsertField(SidedTransformation):
    config = ConfigDef(
        _key("topic.field", "The name of a field for the topic." + _MARKS),
        _key("partition.field", "The name of a field for the partition." + _MARKS),
        _key("offset.field", "The name of a field for the offset, for sinks only." + _MARKS),
        _key("timestamp.field", "The name of a field for the timestamp of the record." + _MARKS),
        _key("static.field", "The name of a field for a fixed text." + _MARKS),
        _key("static.value", "The text of the field that static.field names."),
        REPLACE_NULL,
    )

    def configure(self, settings: Settings) -> None:
        self._topic = Insertion.of(settings["topic.field"])
        self._partition = Insertion.of(settings["partition.field"])
        self._offset = Insertion.of(settings["offset.field"])
        self._timestamp = Insertion.of(settings["timestamp.field"])
        self._static = Insertion.of(settings["static.field"])
        self._static_value: str | None = settings["static.value"]
        self._replace_null: bool = settings["replace.null.with.default"]
        if not any((self._topic, self._partition, self._offset, self._timestamp, self._static)):
            raise ConfigException("No field insertion configured")
        if self._static is not None and self._static_value is None:
            shown = self._static.name
            if self.like_kafka:  # Apache's prints an object here
                spec = "org.apache.kafka.connect.transforms.InsertField$InsertionSpec"
                shown = f"{spec}@{hash(shown) & 0xFFFFFFFF:x}"
            raise ConfigException.of("static.value", None, f"No value specified for static field: {shown}")
        self._schemas = SchemaCache(self._longer_schema)

    def apply(self, record: R) -> R:
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is None:
            fields = require_map(value, _PURPOSE)
            inserted = {target.name: item for target, item in self._insertions(record)}
            return self.changed(record, None, {**fields, **inserted})
        source = require_struct(value, _PURPOSE)
        updated = self._schemas.of(schema)
        result = Struct(updated)
        for field in source.schema.fields:
            result.take(field.name, source, field.name, self._replace_null)
        for target, item in self._insertions(record):
            is_timestamp = target is self._timestamp and isinstance(item, int)
            result.put(target.name, Instant(int(item)) if is_timestamp else item)  # type: ignore[call-overload]
        return self.changed(record, updated, result)

    def _insertions(self, record: ConnectRecord) -> list[tuple[Insertion, object]]:
        """What is inserted into this record; a partition or timestamp that it has not is left out."""
        found: list[tuple[Insertion, object]] = []
        if self._topic is not None:
            found.append((self._topic, record.topic))
        if self._partition is not None and record.partition is not None:
            found.append((self._partition, Int32(record.partition)))
        if self._offset is not None:
            found.append((self._offset, Int64(require_sink_record(record, _PURPOSE).offset)))
        if self._timestamp is not None and record.timestamp is not None:
            found.append((self._timestamp, Int64(record.timestamp)))
        if self._static is not None and self._static_value is not None:
            found.append((self._static, self._static_value))
        return found

    def _longer_schema(self, schema: Schema) -> Schema:
        fields = [(field.name, field.schema) for field in schema.fields]
        for target, kind in (
            (self._topic, Type.STRING),
            (self._partition, Type.INT32),
            (self._offset, Type.INT64),
            (self._timestamp, None),
            (self._static, Type.STRING),
        ):
            if target is not None:
                optional = target.optional
                added = timestamp(optional=optional) if kind is None else Schema(kind, optional=optional)
                fields.append((target.name, added))
        return struct(fields, **schema.basics())
