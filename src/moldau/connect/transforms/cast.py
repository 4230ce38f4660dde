"""Cast: fields, or a whole key or value, get another type.

In Kafka's mode numbers that do not fit lose their high bits and any text but ``true`` is false; the strict
mode refuses both.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.config.validators import Checked
from moldau.connect.data import logical
from moldau.connect.data.numbers import (
    narrow,
    parse_double,
    parse_float,
    parse_integer,
    to_double,
    to_integer,
)
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Struct
from moldau.connect.data.text import base64_text, iso_format_for, java_text
from moldau.connect.data.types import (
    INTEGERS,
    Float32,
    Float64,
    Instant,
    Int64,
    Type,
    is_number,
    java_class,
    type_without_schema,
)
from moldau.connect.errors import (
    ArrayIndexOutOfBoundsException,
    ClassCastException,
    ConfigException,
    DataException,
    NumberFormatException,
)
from moldau.connect.transforms.base import (
    REPLACE_NULL,
    R,
    SchemaCache,
    SidedTransformation,
    java_split,
    require_map,
    require_struct,
)
from moldau.connect.transforms.hash_order import in_hash_order

_PURPOSE = "cast types"
_OUT = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING)
_IN = (*_OUT, Type.BYTES)

#: The name under which the type of a whole value is kept.
_WHOLE = None


def parse_casts(mappings: list[str]) -> dict[str | None, Type]:
    """Types by fields of texts such as ``id:string``; one type alone is for the whole value."""
    casts: dict[str | None, Type] = {}
    for mapping in mappings:
        parts = java_split(mapping, ":")
        if len(parts) > 2:
            raise ConfigException.of("renames", mappings, f"Invalid rename mapping: {mapping}")
        if len(parts) == 1:
            casts[_WHOLE] = _output_type(parts[0])
        elif not parts:
            raise ArrayIndexOutOfBoundsException("Index 1 out of bounds for length 0")
        else:
            casts[parts[0].strip()] = _output_type(parts[1])
    if _WHOLE in casts and len(mappings) > 1:
        raise ConfigException(
            "Cast transformations that specify a type to cast the entire value to may only specify "
            "a single cast in their spec"
        )
    return casts


def _output_type(text: str) -> Type:
    name = text.strip().upper()
    if name not in Type.__members__:
        reason = f"No enum constant org.apache.kafka.connect.data.Schema.Type.{name}"
        raise ConfigException.of(
            f"Invalid type found in casting spec: {text.strip()}",
            f"java.lang.IllegalArgumentException: {reason}",
        )
    if Type[name] not in _OUT:
        raise ConfigException(
            f"Cast transformation does not support casting to {name}; supported types are {_names(_OUT)}"
        )
    return Type[name]


def _names(types: tuple[Type, ...]) -> str:
    return f"[{', '.join(kind.name for kind in types)}]"


def _check_spec(name: str, value: object) -> None:
    if not isinstance(value, list) or not value:
        raise ConfigException("Must specify at least one field to cast.")
    parse_casts(value)


class Cast(SidedTransformation):
    config = ConfigDef(
        ConfigKey(
            "spec",
            ConfigType.LIST,
            importance=Importance.HIGH,
            doc="Fields with the type each of them gets, such as id:string,amount:float64, or one type for "
            "the whole key or value. Types are int8, int16, int32, int64, float32, float64, boolean and "
            "string; bytes become only text.",
            validator=Checked(
                _check_spec, "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"
            ),
        ),
        REPLACE_NULL,
    )

    def configure(self, settings: Settings) -> None:
        self._casts = parse_casts(settings["spec"])
        self._whole = self._casts.get(_WHOLE)
        self._replace_null: bool = settings["replace.null.with.default"]
        self._schemas = SchemaCache(self._cast_schema)

    def apply(self, record: R) -> R:
        value, schema = self.value_of(record), self.schema_of(record)
        if value is None:
            return record
        if schema is None:
            return self.changed(record, None, self._without_schema(value))
        updated = self._schemas.of(schema)
        if self._whole is not None:
            return self.changed(record, updated, self._cast(schema, value, self._whole))
        return self.changed(record, updated, self._cast_fields(require_struct(value, _PURPOSE), updated))

    def _cast_fields(self, source: Struct, updated: Schema) -> Struct:
        result = Struct(updated)
        for field in source.schema.fields:
            item = source.read(field.name, self._replace_null)
            target = self._casts.get(field.name)
            result.put(field.name, item if target is None else self._cast(field.schema, item, target))
        return result

    def _without_schema(self, value: object) -> object:
        if self._whole is not None:
            return self._cast(None, value, self._whole)
        fields = require_map(value, _PURPOSE)
        casts = {
            name: self._cast(None, fields.get(name), self._casts[name]) for name in in_hash_order(self._casts)
        }
        return {**fields, **casts}

    def _cast_schema(self, schema: Schema) -> Schema:
        options: dict[str, Any] = {**schema.basics(), "optional": schema.optional}
        if self._whole is not None:
            if not self.like_kafka and schema.name in (DECIMAL, DATE, TIME, TIMESTAMP):
                options = {"doc": schema.doc, "optional": schema.optional}  # it is none of these any more
            return Schema(self._whole, default=self._cast(schema, schema.default, self._whole), **options)
        fields = [(field.name, self._cast_field(field.name, field.schema)) for field in schema.fields]
        plain = Schema(Type.STRUCT, fields=fields, **options)
        if not isinstance(schema.default, Struct):
            return plain
        if self.like_kafka:
            self._cast(schema, schema.default, Type.STRUCT)  # which Apache's refuses
        return Schema(Type.STRUCT, fields=fields, default=self._cast_fields(schema.default, plain), **options)

    def _cast_field(self, name: str, schema: Schema) -> Schema:
        target = self._casts.get(name)
        if target is None:
            return schema
        return Schema(target, optional=schema.optional, default=self._cast(schema, schema.default, target))

    def _cast(self, schema: Schema | None, value: object, target: Type) -> object:
        if value is None:
            return None
        kind = type_without_schema(value) if schema is None else schema.type
        if kind is None:
            raise DataException(
                f"Cast transformation was passed a value of type class {java_class(value)} which is not "
                "supported by Connect's data API"
            )
        if kind not in _IN:
            raise DataException(
                f"Cast transformation does not support casting from {kind.name}; "
                f"supported types are {_names(_IN)}"
            )
        if schema is not None and target is not Type.STRING:
            value = _without_logical_type(schema, value)
        try:
            return self._to(target, value)
        except NumberFormatException as error:
            raise _out_of_range(value) from error

    def _to(self, target: Type, value: object) -> object:
        if target is Type.STRING:
            return _text(value)
        if isinstance(value, bool):
            return value if target is Type.BOOLEAN else _NUMBERS[target](int(value))
        if is_number(value):
            return self._number(target, value)
        if isinstance(value, str):
            return self._parsed(target, value)
        raise DataException(f"Unexpected type in Cast transformation: class {java_class(value)}")

    def _number(self, target: Type, value: object) -> object:
        if target is Type.BOOLEAN:
            return narrow(value, Int64) != 0
        width = INTEGERS.get(target)
        if width is None:
            number = value if isinstance(value, float) else to_double(value)
            return Float64(number) if target is Type.FLOAT64 else _single(value)
        if not self.like_kafka:
            whole = to_integer(value)
            if whole is None or not width.holds(whole):
                raise _out_of_range(value)
        return narrow(value, width)

    def _parsed(self, target: Type, text: str) -> object:
        width = INTEGERS.get(target)
        if width is not None:
            return parse_integer(text, width)
        if target is Type.FLOAT32:
            return parse_float(text)
        if target is Type.FLOAT64:
            return Float64(parse_double(text))
        if not self.like_kafka and text.lower() not in ("true", "false"):
            raise _out_of_range(text)
        return text.lower() == "true"


_NUMBERS: Mapping[Type, Callable[[int], object]] = {**INTEGERS, Type.FLOAT32: Float32, Type.FLOAT64: Float64}


def _single(value: object) -> Float32:
    assert isinstance(value, int | float | Decimal)
    return Float32(value)


def _out_of_range(value: object) -> DataException:
    return DataException(f"Value ({java_text(value)}) was out of range for requested data type")


def _text(value: object) -> str:
    if isinstance(value, Instant):
        return iso_format_for(value).format(value.epoch_ms)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64_text(value)
    return java_text(value)


def _without_logical_type(schema: Schema, value: object) -> object:
    """The number that carries a date, time or timestamp; other values as they are."""
    if schema.name not in (DATE, TIME, TIMESTAMP):
        return value
    if not isinstance(value, Instant):
        raise ClassCastException(
            f"class {java_class(value)} cannot be cast to class java.util.Date ({java_class(value)} and "
            "java.util.Date are in module java.base of loader 'bootstrap')"
        )
    if schema.name == DATE:
        return logical.date_to_days(schema, value)
    return logical.time_to_millis(schema, value) if schema.name == TIME else value.epoch_ms
