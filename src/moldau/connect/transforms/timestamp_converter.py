"""TimestampConverter: texts, numbers since 1970, and Connect's Date, Time and Timestamp become each other."""

from collections.abc import Callable

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.config.validators import OneOf
from moldau.connect.data.dates import DateFormat
from moldau.connect.data.schema import DATE, TIME, TIMESTAMP, Schema, Struct, date, struct, time, timestamp
from moldau.connect.data.types import MILLIS_PER_DAY, Instant, Int64, Type, java_class
from moldau.connect.errors import (
    ConfigException,
    ConnectException,
    DataException,
    IllegalArgumentException,
    NullPointerException,
    ParseException,
)
from moldau.connect.transforms.base import (
    REPLACE_NULL,
    R,
    SchemaCache,
    SidedTransformation,
    require_map,
    require_struct,
)

_PURPOSE = "converting timestamp formats"
_SCHEMAS: dict[str, Callable[[bool], Schema]] = {
    "string": lambda optional: Schema(Type.STRING, optional=optional),
    "unix": lambda optional: Schema(Type.INT64, optional=optional),
    "Date": lambda optional: date(optional=optional),
    "Time": lambda optional: time(optional=optional),
    "Timestamp": lambda optional: timestamp(optional=optional),
}
_LOGICAL = {TIMESTAMP: "Timestamp", DATE: "Date", TIME: "Time"}
#: How many of a unit make a millisecond, or how many milliseconds make one of it.
_FINER = {"microseconds": 1_000, "nanoseconds": 1_000_000}
_COARSER = {"seconds": 1_000, "milliseconds": 1}


class TimestampConverter(SidedTransformation):
    config = ConfigDef(
        ConfigKey(
            "field",
            ConfigType.STRING,
            "",
            Importance.HIGH,
            "The field that has the time; empty if the whole key or value is one.",
        ),
        ConfigKey(
            "target.type",
            ConfigType.STRING,
            importance=Importance.HIGH,
            doc="What the time becomes: string, unix, Date, Time or Timestamp.",
            validator=OneOf("string", "unix", "Date", "Time", "Timestamp"),
        ),
        ConfigKey(
            "format",
            ConfigType.STRING,
            "",
            Importance.MEDIUM,
            "How texts are written and read, as a pattern of Java's SimpleDateFormat.",
        ),
        ConfigKey(
            "unix.precision",
            ConfigType.STRING,
            "milliseconds",
            Importance.LOW,
            "The unit of numbers: seconds, milliseconds, microseconds or nanoseconds. What is finer than a "
            "millisecond is lost.",
            OneOf("nanoseconds", "microseconds", "milliseconds", "seconds"),
        ),
        REPLACE_NULL,
    )

    def configure(self, settings: Settings) -> None:
        self._field: str = settings["field"]
        self._target: str = settings["target.type"]
        self._precision: str = settings["unix.precision"]
        self._replace_null: bool = settings["replace.null.with.default"]
        pattern: str = settings["format"] or ""
        self._format: DateFormat | None = None
        if not pattern.strip():
            if self._target == "string":
                raise ConfigException(
                    "TimestampConverter requires format option to be specified when using string timestamps"
                )
        else:
            try:
                self._format = DateFormat(pattern)
            except IllegalArgumentException as error:
                raise ConfigException.of(
                    "TimestampConverter requires a SimpleDateFormat-compatible pattern for string "
                    f"timestamps: {pattern}",
                    f"{error.java_class}: {error.message}",
                ) from None
        self._schemas = SchemaCache(self._converted_schema)

    def apply(self, record: R) -> R:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            return self.changed(record, None, self._without_schema(value))
        if not self._field:
            updated = _SCHEMAS[self._target](schema.optional)
            return self.changed(record, updated, self._convert(value, _kind_by_schema(schema)))
        source = None if value is None else require_struct(value, _PURPOSE)
        updated = self._schemas.of(schema)
        return self.changed(record, updated, None if source is None else self._convert_field(source, updated))

    def _without_schema(self, value: object) -> object:
        if value is None or not self._field:
            return self._convert(value, None)
        fields = require_map(value, _PURPOSE)
        return {**fields, self._field: self._convert(fields.get(self._field), None)}

    def _convert_field(self, source: Struct, updated: Schema) -> Struct:
        result = Struct(updated)
        for field in source.schema.fields:
            item = source.read(field.name, self._replace_null)
            if field.name == self._field:
                item = self._convert(item, _kind_by_schema(field.schema))
            result.put(field.name, item)
        return result

    def _converted_schema(self, schema: Schema) -> Schema:
        def converted(name: str, inner: Schema) -> Schema:
            return _SCHEMAS[self._target](inner.optional) if name == self._field else inner

        fields = [(field.name, converted(field.name, field.schema)) for field in schema.fields]
        options = {**schema.basics(), "optional": schema.optional}
        plain = struct(fields, **options)
        if not isinstance(schema.default, Struct):
            return plain
        return struct(fields, **options, default=self._convert_field(schema.default, plain))

    def _convert(self, value: object, kind: str | None) -> object:
        if value is None:
            return None
        moment = self._read(value, _kind_by_value(value) if kind is None else kind)
        match self._target:
            case "string":
                assert self._format is not None
                return self._format.format(moment)
            case "unix":
                return self._from_millis(moment)
            case "Date":
                day = moment - moment % MILLIS_PER_DAY
                return Instant(int(Int64.wrapped(day)) if self.like_kafka else self._within_long(day))
            case "Time":
                return Instant(moment % MILLIS_PER_DAY)
            case _:
                return Instant(moment)

    def _read(self, value: object, kind: str) -> int:
        """Milliseconds since 1970 of a value of some kind."""
        if kind == "string":
            return self._read_text(value)
        if kind == "unix":
            if not isinstance(value, int) or java_class(value) != "java.lang.Long":
                raise DataException(
                    f"Expected Unix timestamp to be a Long, but found class {java_class(value)}"
                )
            return self._to_millis(int(value))
        if not isinstance(value, Instant):
            raise DataException(
                f"Expected {kind} to be a java.util.Date, but found class {java_class(value)}"
            )
        return value.epoch_ms

    def _read_text(self, value: object) -> int:
        if not isinstance(value, str):
            raise DataException(
                f"Expected string timestamp to be a String, but found class {java_class(value)}"
            )
        if self._format is None:
            if not self.like_kafka:
                raise DataException("TimestampConverter needs a format to read the timestamp of a text")
            raise NullPointerException(
                'Cannot invoke "java.text.SimpleDateFormat.parse(String)" because "config.format" is null'
            )
        try:
            return self._format.parse(value)
        except ParseException as error:
            raise DataException(
                f"Could not parse timestamp: value ({value}) does not match pattern ({self._format.pattern})"
            ) from error

    def _to_millis(self, number: int) -> int:
        if self._precision in _FINER:
            return _towards_zero(number, _FINER[self._precision])
        return self._within_long(number * _COARSER[self._precision])

    def _from_millis(self, millis: int) -> Int64:
        if self._precision in _FINER:
            return Int64(self._within_long(millis * _FINER[self._precision]))
        return Int64(_towards_zero(millis, _COARSER[self._precision]))

    def _within_long(self, number: int) -> int:
        """Java's units stop at the bounds of a long."""
        if Int64.holds(number):
            return number
        if not self.like_kafka:
            raise DataException(f"Value ({number}) was out of range for requested data type")
        return (1 << 63) - 1 if number > 0 else -(1 << 63)


def _towards_zero(number: int, divisor: int) -> int:
    return number // divisor if number >= 0 else -(-number // divisor)


def _kind_by_schema(schema: Schema) -> str:
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.type is Type.STRING:
        return "string"
    if schema.type is Type.INT64:
        return "unix"
    raise ConnectException(f"Schema {schema} does not correspond to a known timestamp type format")


def _kind_by_value(value: object) -> str:
    if isinstance(value, Instant):
        return "Timestamp"
    if java_class(value) == "java.lang.Long":
        return "unix"
    if isinstance(value, str):
        return "string"
    raise DataException(
        f"TimestampConverter does not support class {java_class(value)} objects as timestamps"
    )
