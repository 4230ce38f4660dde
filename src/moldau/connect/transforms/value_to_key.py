"""ValueToKey: some fields of the value become the key."""

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.config.validators import DistinctValues
from moldau.connect.data.schema import Schema, Struct, struct
from moldau.connect.errors import DataException
from moldau.connect.transforms.base import (
    REPLACE_NULL,
    R,
    SchemaCache,
    Transformation,
    require_map,
    require_struct,
)

_PURPOSE = "copying fields from value to key"


class ValueToKey(Transformation):
    config = ConfigDef(
        ConfigKey(
            "fields",
            ConfigType.LIST,
            importance=Importance.HIGH,
            doc="The fields of the value that make the key.",
            validator=DistinctValues(),
        ),
        REPLACE_NULL,
    )

    def configure(self, settings: Settings) -> None:
        self._fields: list[str] = settings["fields"]
        self._replace_null: bool = settings["replace.null.with.default"]
        self._schemas = SchemaCache(self._key_schema)

    def apply(self, record: R) -> R:
        if record.value_schema is None:
            fields = require_map(record.value, _PURPOSE)
            return record.replaced(key_schema=None, key={name: fields.get(name) for name in self._fields})
        source = require_struct(record.value, _PURPOSE)
        schema = self._schemas.of(source.schema)
        key = Struct(schema)
        for name in self._fields:
            key.take(name, source, name, self._replace_null)
        return record.replaced(key_schema=schema, key=key)

    def _key_schema(self, schema: Schema) -> Schema:
        chosen: list[tuple[str, Schema]] = []
        for name in self._fields:
            field = schema.field(name)
            if field is None:
                raise DataException(f"Field does not exist: {name}")
            chosen.append((name, field.schema))
        return struct(chosen)
