"""ReplaceField: fields are left out or get another name."""

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.config.validators import Checked, DistinctValues
from moldau.connect.data.schema import Schema, Struct, struct
from moldau.connect.errors import ConfigException
from moldau.connect.transforms.base import (
    REPLACE_NULL,
    R,
    SchemaCache,
    SidedTransformation,
    field_name,
    java_split,
    require_map,
    require_struct,
)
from moldau.connect.transforms.hash_order import in_hash_order

_PURPOSE = "field replacement"


def parse_renames(mappings: list[str]) -> dict[str, str]:
    renames: dict[str, str] = {}
    for mapping in mappings:
        parts = java_split(mapping, ":")
        if len(parts) != 2:
            raise ConfigException.of("renames", mappings, f"Invalid rename mapping: {mapping}")
        renames[parts[0]] = parts[1]
    return renames


def _check_renames(name: str, value: object) -> None:
    parse_renames(value if isinstance(value, list) else [])


class ReplaceField(SidedTransformation):
    config = ConfigDef(
        ConfigKey(
            "exclude",
            ConfigType.LIST,
            [],
            Importance.MEDIUM,
            "Fields to leave out, even if they are among those to include.",
            DistinctValues(empty=True),
        ),
        ConfigKey(
            "include",
            ConfigType.LIST,
            [],
            Importance.MEDIUM,
            "Fields to keep; all of them if none is named.",
            DistinctValues(empty=True),
        ),
        ConfigKey(
            "renames",
            ConfigType.LIST,
            [],
            Importance.MEDIUM,
            "Old and new names of fields, such as id:number.",
            Checked(_check_renames, "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"),
        ),
        REPLACE_NULL,
    )

    def configure(self, settings: Settings) -> None:
        self._exclude = frozenset(settings["exclude"])
        self._include = frozenset(settings["include"])
        self._renames = parse_renames(settings["renames"])
        self._originals = {self._renames[old]: old for old in in_hash_order(self._renames) if old is not None}
        self._replace_null: bool = settings["replace.null.with.default"]
        self._schemas = SchemaCache(self._replaced_schema)

    def _keeps(self, name: object) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def apply(self, record: R) -> R:
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is None:
            fields = require_map(value, _PURPOSE)
            named = ((field_name(key), item) for key, item in fields.items())
            kept = {
                name if name is None else self._renames.get(name, name): item
                for name, item in named
                if self._keeps(name)
            }
            return self.changed(record, None, kept)
        source = require_struct(value, _PURPOSE)
        updated = self._schemas.of(source.schema)
        result = Struct(updated)
        for field in updated.fields:
            original = self._originals.get(field.name, field.name)
            result.take(field.name, source, original, self._replace_null)
        return self.changed(record, updated, result)

    def _replaced_schema(self, schema: Schema) -> Schema:
        kept = [
            (self._renames.get(field.name, field.name), field.schema)
            for field in schema.fields
            if self._keeps(field.name)
        ]
        return struct(kept, **schema.basics())
