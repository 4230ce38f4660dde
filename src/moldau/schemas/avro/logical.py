"""Avro's logical types: on which types each may be, and what it means; a row of ``LOGICAL_TYPES`` each.

Pure. Serializers take Python's values from here, generated classes the names of Python's types, and Spark's
columns follow from ``meaning`` and ``per_second``. A value that is not of the Python type passes as it is, so
that plain numbers and texts may be written as well.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any, Literal, TypeAlias
from uuid import UUID

#: A date and time in UTC, or one of no time zone (local).
Meaning: TypeAlias = Literal["date", "time", "timestamp", "local-timestamp", "uuid", "decimal"]
Convert: TypeAlias = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class LogicalType:
    name: str
    #: The types that it may be of.
    kinds: tuple[str, ...]
    meaning: Meaning
    #: The module and the name of Python's type.
    python: tuple[str, str]
    #: Parts of a second that one unit of a time is.
    per_second: int = 0

    def reader(self, properties: Mapping[str, Any], size: int = 0) -> Convert:
        """The function from the plain value to Python's."""
        return _READERS[self.meaning](self, properties, size)

    def writer(self, properties: Mapping[str, Any], size: int = 0) -> Convert:
        """The function from Python's value to the plain one; a fixed has a size."""
        return _WRITERS[self.meaning](self, properties, size)


LOGICAL_TYPES = {
    each.name: each
    for each in (
        LogicalType("date", ("int",), "date", ("datetime", "date")),
        LogicalType("time-millis", ("int",), "time", ("datetime", "time"), 1_000),
        LogicalType("time-micros", ("long",), "time", ("datetime", "time"), 1_000_000),
        LogicalType("timestamp-millis", ("long",), "timestamp", ("datetime", "datetime"), 1_000),
        LogicalType("timestamp-micros", ("long",), "timestamp", ("datetime", "datetime"), 1_000_000),
        LogicalType("local-timestamp-millis", ("long",), "local-timestamp", ("datetime", "datetime"), 1_000),
        LogicalType(
            "local-timestamp-micros", ("long",), "local-timestamp", ("datetime", "datetime"), 1_000_000
        ),
        LogicalType("uuid", ("string",), "uuid", ("uuid", "UUID")),
        LogicalType("decimal", ("bytes", "fixed"), "decimal", ("decimal", "Decimal")),
    )
}


def logical_type(kind: str, properties: Mapping[str, Any]) -> LogicalType | None:
    """The logical type that a type's attributes name, where it is known and may be of this type."""
    name = properties.get("logicalType")
    found = LOGICAL_TYPES.get(name) if isinstance(name, str) else None
    if found is None or kind not in found.kinds:
        return None
    if found.meaning == "decimal":
        precision, scale = properties.get("precision"), properties.get("scale", 0)
        if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision):
            return None
    return found


# Plain values to Python's.


def _read_date(logical: LogicalType, properties: Mapping[str, Any], size: int) -> Convert:
    return lambda days: date.fromordinal(days + _EPOCH_DAY)


def _read_time(logical: LogicalType, properties: Mapping[str, Any], size: int) -> Convert:
    per_second = logical.per_second

    def read(units: int) -> time:
        seconds, rest = divmod(units, per_second)
        minutes, second = divmod(seconds, 60)
        return time(minutes // 60, minutes % 60, second, rest * 1_000_000 // per_second)

    return read


def _read_timestamp(logical: LogicalType, properties: Mapping[str, Any], size: int) -> Convert:
    epoch = _EPOCH if logical.meaning == "timestamp" else _LOCAL_EPOCH
    per_second = logical.per_second
    # Not fromtimestamp: it goes by way of a float.
    return lambda units: epoch + timedelta(0, 0, units * 1_000_000 // per_second)


def _read_uuid(logical: LogicalType, properties: Mapping[str, Any], size: int) -> Convert:
    return UUID


def _read_decimal(logical: LogicalType, properties: Mapping[str, Any], size: int) -> Convert:
    context, exponent = Context(prec=properties["precision"]), -properties.get("scale", 0)
    return lambda data: context.create_decimal(int.from_bytes(data, "big", signed=True)).scaleb(
        exponent, context
    )


# Python's values to plain ones.


def _write_date(logical: LogicalType, properties: Mapping[str, Any], size: int) -> Convert:
    def write(value: Any) -> Any:
        if isinstance(value, str):
            value = date.fromisoformat(value)
        return value.toordinal() - _EPOCH_DAY if isinstance(value, date) else value

    return write


def _write_time(logical: LogicalType, properties: Mapping[str, Any], size: int) -> Convert:
    per_second = logical.per_second

    def write(value: Any) -> Any:
        if not isinstance(value, time):
            return value
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * per_second + value.microsecond * per_second // 1_000_000

    return write


def _write_timestamp(logical: LogicalType, properties: Mapping[str, Any], size: int) -> Convert:
    per_second = logical.per_second
    is_local = logical.meaning == "local-timestamp"

    def write(value: Any) -> Any:
        if not isinstance(value, datetime):
            return value
        if is_local:
            value = value.replace(tzinfo=UTC)
        elif value.tzinfo is None:
            value = value.astimezone(UTC)  # one without a time zone is in this machine's
        since = value - _EPOCH
        seconds = since.days * 86_400 + since.seconds
        return seconds * per_second + since.microseconds * per_second // 1_000_000

    return write


def _write_uuid(logical: LogicalType, properties: Mapping[str, Any], size: int) -> Convert:
    return lambda value: str(value) if isinstance(value, UUID) else value


def _write_decimal(logical: LogicalType, properties: Mapping[str, Any], size: int) -> Convert:
    precision, scale = properties["precision"], properties.get("scale", 0)

    def write(value: Any) -> Any:
        if not isinstance(value, Decimal):
            return value
        sign, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int):
            raise ValueError("it is no finite number")
        if len(digits) > precision:
            raise ValueError("The decimal precision is bigger than allowed by schema")
        if exponent + scale < 0:
            raise ValueError("Scale provided in schema does not match the decimal")
        number = 0
        for digit in digits:
            number = number * 10 + digit
        number *= 10 ** (exponent + scale)
        needed = size or (number.bit_length() + 8) // 8
        return (-number if sign else number).to_bytes(needed, "big", signed=True)

    return write


_Factory: TypeAlias = Callable[[LogicalType, Mapping[str, Any], int], Convert]
_READERS: dict[str, _Factory] = {
    "date": _read_date,
    "time": _read_time,
    "timestamp": _read_timestamp,
    "local-timestamp": _read_timestamp,
    "uuid": _read_uuid,
    "decimal": _read_decimal,
}
_WRITERS: dict[str, _Factory] = {
    "date": _write_date,
    "time": _write_time,
    "timestamp": _write_timestamp,
    "local-timestamp": _write_timestamp,
    "uuid": _write_uuid,
    "decimal": _write_decimal,
}
