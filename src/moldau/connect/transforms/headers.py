"""Transforms of headers: DropHeaders removes some, InsertHeader adds one, HeaderFrom makes them of fields."""

from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.config.validators import DistinctValues, NonEmptyList, NonNull, OneOf
from moldau.connect.data.parsing import parse
from moldau.connect.data.schema import Schema, Struct, struct
from moldau.connect.errors import ConfigException, DataException, NullPointerException
from moldau.connect.records import Header
from moldau.connect.transforms.base import (
    REPLACE_NULL,
    R,
    SchemaCache,
    SidedTransformation,
    Transformation,
    require_map,
    require_struct,
)


class DropHeaders(Transformation):
    config = ConfigDef(
        ConfigKey(
            "headers",
            ConfigType.LIST,
            importance=Importance.HIGH,
            doc="The names of the headers to remove.",
            validator=DistinctValues(),
        )
    )

    def configure(self, settings: Settings) -> None:
        self.dropped = frozenset(settings["headers"])

    def apply(self, record: R) -> R:
        return record.with_headers(header for header in record.headers if header.key not in self.dropped)


class InsertHeader(Transformation):
    config = ConfigDef(
        ConfigKey(
            "header",
            ConfigType.STRING,
            importance=Importance.HIGH,
            doc="The name of the header.",
            validator=NonNull(),
        ),
        ConfigKey(
            "value.literal",
            ConfigType.STRING,
            importance=Importance.HIGH,
            doc="The value of the header on every record. Numbers, booleans, dates, lists and maps are "
            "recognised; anything else is a text.",
            validator=NonNull(),
        ),
    )

    def configure(self, settings: Settings) -> None:
        literal = parse(settings["value.literal"], whole=not self.like_kafka)
        self.header = Header.of(settings["header"], literal)

    def apply(self, record: R) -> R:
        return record.with_headers((*record.headers, self.header))


class HeaderFrom(SidedTransformation):
    config = ConfigDef(
        ConfigKey(
            "fields",
            ConfigType.LIST,
            importance=Importance.HIGH,
            doc="The fields whose values become headers.",
            validator=NonEmptyList(),
        ),
        ConfigKey(
            "headers",
            ConfigType.LIST,
            importance=Importance.HIGH,
            doc="The names of the headers, in the order of the fields.",
            validator=NonEmptyList(),
        ),
        ConfigKey(
            "operation",
            ConfigType.STRING,
            importance=Importance.HIGH,
            doc="move takes the fields out of the key or value, copy leaves them there.",
            validator=OneOf("move", "copy"),
        ),
        REPLACE_NULL,
    )

    def configure(self, settings: Settings) -> None:
        self._fields: list[str] = settings["fields"]
        self._headers: list[str] = settings["headers"]
        if len(self._fields) != len(self._headers):
            raise ConfigException(
                "'fields' config must have the same number of elements as 'headers' config."
            )
        self._operation: str = settings["operation"]
        self._replace_null: bool = settings["replace.null.with.default"]
        self._schemas = SchemaCache(self._without_fields)

    def apply(self, record: R) -> R:
        schema, value = self.schema_of(record), self.value_of(record)
        purpose = f"header {self._operation}"
        if schema is None:
            return self._apply_map(record, require_map(value, purpose))
        return self._apply_struct(record, schema, require_struct(value, purpose))

    def _apply_map(self, record: R, value: dict[Any, object]) -> R:
        added = [
            Header(name, None, value.get(field))
            for field, name in zip(self._fields, self._headers, strict=True)
        ]
        if self._operation == "move":
            value = {name: item for name, item in value.items() if name not in self._fields}
        return self.changed(record, None, value, headers=(*record.headers, *added))

    def _apply_struct(self, record: R, schema: Schema, value: Struct) -> R:
        updated_schema, updated = schema, value
        if self._operation == "move":
            updated_schema = self._schemas.of(schema)
            updated = Struct(updated_schema)
            for field in updated_schema.fields:
                updated.take(field.name, value, field.name, self._replace_null)
        added = [
            Header(name, self._field_schema(schema, field), value.read(field, self._replace_null))
            for field, name in zip(self._fields, self._headers, strict=True)
        ]
        return self.changed(record, updated_schema, updated, headers=(*record.headers, *added))

    def _field_schema(self, schema: Schema, name: str) -> Schema:
        field = schema.field(name)
        if field is not None:
            return field.schema
        if not self.like_kafka:
            raise DataException(f"Field does not exist: {name}")
        raise NullPointerException(
            'Cannot invoke "org.apache.kafka.connect.data.Field.schema()" because the return value of '
            '"org.apache.kafka.connect.data.Schema.field(String)" is null'
        )

    def _without_fields(self, schema: Schema) -> Schema:
        kept = [(field.name, field.schema) for field in schema.fields if field.name not in self._fields]
        return struct(kept, **schema.basics())
