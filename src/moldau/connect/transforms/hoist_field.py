"""HoistField: a whole key or value becomes the one field of a struct or map."""

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.data.schema import Schema, Struct, struct
from moldau.connect.transforms.base import R, SchemaCache, SidedTransformation


class HoistField(SidedTransformation):
    config = ConfigDef(
        ConfigKey(
            "field",
            ConfigType.STRING,
            importance=Importance.MEDIUM,
            doc="The name of the one field of the struct or map that is made.",
        )
    )

    def configure(self, settings: Settings) -> None:
        self._field: str = settings["field"]
        self._schemas = SchemaCache(self._hoisted)

    def _hoisted(self, schema: Schema) -> Schema:
        return struct({self._field: schema})

    def apply(self, record: R) -> R:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            return self.changed(record, None, {self._field: value})
        updated = self._schemas.of(schema)
        return self.changed(record, updated, Struct(updated).put(self._field, value))
