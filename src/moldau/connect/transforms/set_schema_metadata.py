"""SetSchemaMetadata: the schema of a key or value gets another name or version.

Apache's does this for structs only, by accident; the strict mode does it for every schema.
"""

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.data.schema import Schema, Struct
from moldau.connect.errors import ConfigException, DataException
from moldau.connect.transforms.base import REPLACE_NULL, R, SchemaCache, SidedTransformation


class SetSchemaMetadata(SidedTransformation):
    config = ConfigDef(
        ConfigKey("schema.name", ConfigType.STRING, None, Importance.HIGH, "The name that the schema gets."),
        ConfigKey(
            "schema.version", ConfigType.INT, None, Importance.HIGH, "The version that the schema gets."
        ),
        REPLACE_NULL,
    )

    def configure(self, settings: Settings) -> None:
        self._name: str | None = settings["schema.name"]
        self._version: int | None = settings["schema.version"]
        self._replace_null: bool = settings["replace.null.with.default"]
        if self._name is None and self._version is None:
            raise ConfigException("Neither schema name nor version configured")
        self._schemas = SchemaCache(self._renamed)

    def apply(self, record: R) -> R:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            if value is None:
                return record
            raise DataException("Schema required for [updating schema metadata]")
        if self.like_kafka:
            _ = schema.fields
        updated = self._schemas.of(schema)
        if isinstance(value, Struct):
            result = Struct(updated)
            for field in updated.fields:
                result.take(field.name, value, field.name, self._replace_null)
            value = result
        return self.changed(record, updated, value)

    def _renamed(self, schema: Schema) -> Schema:
        name = schema.name if self._name is None else self._name
        return schema.described_as(name, schema.version if self._version is None else self._version)
