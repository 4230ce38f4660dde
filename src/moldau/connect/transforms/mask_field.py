"""MaskField: the values of fields give way to an empty value of their type, or to a text that is given."""

from collections.abc import Callable
from decimal import Decimal

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.config.validators import DistinctValues, NonEmptyString
from moldau.connect.data.numbers import parse_decimal, to_integer
from moldau.connect.data.schema import Schema, Struct
from moldau.connect.data.types import (
    BigInteger,
    Float32,
    Float64,
    Instant,
    Int8,
    Int16,
    Int32,
    Int64,
    Sized,
    Type,
    java_class,
)
from moldau.connect.data.values import convert
from moldau.connect.errors import DataException, NumberFormatException
from moldau.connect.transforms.base import (
    REPLACE_NULL,
    R,
    SidedTransformation,
    require_map,
    require_struct,
)
from moldau.connect.transforms.hash_order import in_hash_order

_PURPOSE = "mask fields"

_EMPTY: dict[type, object] = {
    bool: False,
    Int8: Int8(0),
    Int16: Int16(0),
    Int32: Int32(0),
    Int64: Int64(0),
    int: 0,
    Float32: Float32(0.0),
    Float64: Float64(0.0),
    float: 0.0,
    BigInteger: BigInteger(0),
    Decimal: Decimal(0),
    Instant: Instant(0),
    str: "",
}


def _big_integer(text: str) -> BigInteger:
    if not text.lstrip("+-").isdecimal() or len(text) > 4000:
        raise NumberFormatException(f'For input string: "{text}"')
    return BigInteger(text)


def _number(kind: Type) -> Callable[[str], object]:
    schema = Schema(kind, optional=True)
    return lambda text: convert(schema, None, text)


_REPLACED: dict[type, Callable[[str], object]] = {
    Int8: _number(Type.INT8),
    Int16: _number(Type.INT16),
    Int32: _number(Type.INT32),
    Int64: _number(Type.INT64),
    int: _number(Type.INT64),
    Float32: _number(Type.FLOAT32),
    Float64: _number(Type.FLOAT64),
    float: _number(Type.FLOAT64),
    str: str,
    Decimal: parse_decimal,
    BigInteger: _big_integer,
}


class MaskField(SidedTransformation):
    config = ConfigDef(
        ConfigKey(
            "fields",
            ConfigType.LIST,
            importance=Importance.HIGH,
            doc="The names of the fields to mask.",
            validator=DistinctValues(),
        ),
        ConfigKey(
            "replacement",
            ConfigType.STRING,
            None,
            Importance.LOW,
            "What stands in all of the fields instead of an empty value; for numbers and texts only.",
            NonEmptyString(),
        ),
        REPLACE_NULL,
    )

    def configure(self, settings: Settings) -> None:
        self._masked: list[str] = settings["fields"]
        self._replacement: str | None = settings["replacement"]
        self._replace_null: bool = settings["replace.null.with.default"]

    def apply(self, record: R) -> R:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            fields = require_map(value, _PURPOSE)
            masked = {name: self._mask(fields.get(name)) for name in in_hash_order(self._masked)}
            return self.changed(record, None, {**fields, **masked})
        source = require_struct(value, _PURPOSE)
        result = Struct(source.schema)
        for field in source.schema.fields:
            item = source.read(field.name, self._replace_null)
            result.put(field.name, self._mask(item) if field.name in self._masked else item)
        return self.changed(record, schema, result)

    def _mask(self, value: object) -> object:
        if value is None:
            return None
        return _empty(value) if self._replacement is None else self._replaced(value, self._replacement)

    def _replaced(self, value: object, replacement: str) -> object:
        made = _REPLACED.get(type(value))
        if made is None:
            raise DataException(
                f"Cannot mask value of type class {java_class(value)} with custom replacement."
            )
        if not self.like_kafka:
            _require_room(value, replacement)
        try:
            return made(replacement)
        except NumberFormatException as error:
            raise DataException(
                f"Unable to convert {replacement} (class java.lang.String) to number"
            ) from error


def _require_room(value: object, replacement: str) -> None:
    """Refuses a replacement that would lose bits in the type of ``value``."""
    if not isinstance(value, Sized):
        return
    try:
        whole = to_integer(parse_decimal(replacement))
    except NumberFormatException:
        return
    if whole is None or not type(value).holds(whole):
        raise DataException(f"Value ({replacement}) was out of range for requested data type")


def _empty(value: object) -> object:
    found = _EMPTY.get(type(value))
    if found is not None:
        return found
    if isinstance(value, list | tuple):
        return []
    if isinstance(value, dict):
        return {}
    raise DataException(f"Cannot mask value of type: class {java_class(value)}")
