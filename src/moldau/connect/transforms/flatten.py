"""Flatten: nested fields move to the top, under names that tell where they were."""

from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.data.schema import Schema, Struct, struct
from moldau.connect.data.text import java_text
from moldau.connect.data.types import Type, java_class, type_without_schema
from moldau.connect.errors import DataException
from moldau.connect.transforms.base import (
    R,
    SchemaCache,
    SidedTransformation,
    field_name,
    require_map,
    require_struct,
)

_PURPOSE = "flattening"


class Flatten(SidedTransformation):
    config = ConfigDef(
        ConfigKey(
            "delimiter",
            ConfigType.STRING,
            ".",
            Importance.MEDIUM,
            "What stands between the names of the levels in the name of a flattened field.",
        )
    )

    def configure(self, settings: Settings) -> None:
        self._delimiter: str = settings["delimiter"]
        self._schemas = SchemaCache(self._flat_schema)

    def apply(self, record: R) -> R:
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is None:
            flat: dict[Any, object] = {}
            self._flatten_map(require_map(value, _PURPOSE), "", flat)
            return self.changed(record, None, flat)
        source = require_struct(value, _PURPOSE)
        updated = self._schemas.of(source.schema)
        result = Struct(updated)
        self._flatten_struct(source, "", result)
        return self.changed(record, updated, result)

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _name_of_key(self, prefix: str | None, key: object) -> str | None:
        name = field_name(key)
        return self._name(prefix, java_text(name)) if prefix else name

    def _flatten_map(self, fields: dict[Any, object], prefix: str | None, flat: dict[Any, object]) -> None:
        for key, value in fields.items():
            name = self._name_of_key(prefix, key)
            kind = None if value is None else type_without_schema(value)
            if value is None:
                flat[name] = None
            elif kind is None:
                raise DataException(
                    f"Flatten transformation was passed a value of type class {java_class(value)} which is "
                    "not supported by Connect's data API"
                )
            elif kind is Type.MAP:
                self._flatten_map(require_map(value, _PURPOSE), name, flat)
            elif kind is Type.STRUCT:
                raise DataException(
                    f"Flatten transformation does not support class {java_class(value)} for record without "
                    f"schemas (for field {name})."
                )
            else:
                flat[name] = value

    def _flat_schema(self, schema: Schema) -> Schema:
        fields: list[tuple[str, Schema]] = []
        default = schema.default if isinstance(schema.default, Struct) else None
        self._flat_fields(schema, "", schema.optional, default, fields)
        return struct(fields, **schema.basics())

    def _flat_fields(
        self,
        schema: Schema,
        prefix: str,
        optional: bool,
        default: Struct | None,
        fields: list[tuple[str, Schema]],
    ) -> None:
        """Fields below an optional struct are optional, and take their defaults from its default."""
        for field in schema.fields:
            name = self._name(prefix, field.name)
            inner = field.schema
            inner_optional = optional or inner.optional
            inner_default = inner.default
            if inner_default is None and default is not None:
                inner_default = default.get(field.name)
            if inner.type is Type.STRUCT:
                below = inner_default if isinstance(inner_default, Struct) else None
                self._flat_fields(inner, name, inner_optional, below, fields)
            elif inner.type is Type.MAP:
                raise DataException(
                    f"Flatten transformation does not support {inner.type.name} for record with schemas "
                    f"(for field {name})."
                )
            else:
                items = inner.values if inner.type is Type.ARRAY else None
                options = inner.basics()
                flat = Schema(
                    inner.type, optional=inner_optional, default=inner_default, values=items, **options
                )
                fields.append((name, flat))

    def _flatten_struct(self, source: Struct, prefix: str, result: Struct) -> None:
        for field in source.schema.fields:
            name = self._name(prefix, field.name)
            if field.schema.type is not Type.STRUCT:
                result.put(name, source.get(field.name))
                continue
            inner = source.get_without_default(field.name)
            if isinstance(inner, Struct):
                self._flatten_struct(inner, name, result)
