"""ExtractField: one field takes the place of the whole key or value."""

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.errors import IllegalArgumentException
from moldau.connect.transforms.base import (
    REPLACE_NULL,
    R,
    SidedTransformation,
    require_map,
    require_struct,
)
from moldau.connect.transforms.field_paths import SYNTAX_VERSION, FieldPath

_PURPOSE = "field extraction"


class ExtractField(SidedTransformation):
    config = ConfigDef(
        ConfigKey(
            "field", ConfigType.STRING, importance=Importance.MEDIUM, doc="The name of the field to extract."
        ),
        REPLACE_NULL,
        SYNTAX_VERSION,
    )

    def configure(self, settings: Settings) -> None:
        self._written: str = settings["field"]
        self._path = FieldPath(self._written, settings["field.syntax.version"])
        self._replace_null: bool = settings["replace.null.with.default"]

    def apply(self, record: R) -> R:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            if value is None:
                return self.changed(record, None, None)
            return self.changed(record, None, self._path.value_in_map(require_map(value, _PURPOSE)))
        struct = None if value is None else require_struct(value, _PURPOSE)
        field = self._path.field_in(schema)
        if field is None:
            raise IllegalArgumentException(f"Unknown field: {self._written}")
        if struct is None:
            return self.changed(record, field.schema, None)
        return self.changed(record, field.schema, self._path.value_in_struct(struct, self._replace_null))
