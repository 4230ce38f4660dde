"""Values made into other types, and texts of headers read as values.

Invariant: pure; what cannot be converted is a DataException.
"""

from decimal import Decimal

from moldau.connect.data import logical
from moldau.connect.data.numbers import narrow, parse_decimal, to_double
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Struct
from moldau.connect.data.text import header_text, java_text
from moldau.connect.data.types import (
    INTEGERS,
    MILLIS_PER_DAY,
    Float32,
    Float64,
    Instant,
    Int64,
    Type,
    is_number,
    java_class,
)
from moldau.connect.errors import DataException, NumberFormatException


def convert(to: Schema, source: Schema | None, value: object) -> object:
    """``value``, which ``source`` describes if it is known, as a value of the schema ``to``."""
    if value is None:
        if to.optional:
            return None
        raise DataException("Unable to convert a null value to a schema that requires a value")
    if to.name in (DATE, TIME, TIMESTAMP):
        return _moment(to, source, value)
    width = INTEGERS.get(to.type)
    if width is not None:
        return value if type(value) is width else width.wrapped(_as_long(value, source))
    converted = _convert_other(to, source, value)
    if converted is None:
        raise DataException(f"Unable to convert {java_text(value)} (class {java_class(value)}) to {to}")
    return converted


def _convert_other(to: Schema, source: Schema | None, value: object) -> object:
    match to.type:
        case Type.STRING:
            return header_text(value)
        case Type.BOOLEAN:
            return _boolean(source, value)
        case Type.FLOAT32:
            return value if isinstance(value, Float32) else Float32(_as_double(value, source))
        case Type.FLOAT64:
            return value if isinstance(value, Float64) else Float64(_as_double(value, source))
        case Type.BYTES:
            return _bytes(to, value)
        case Type.STRUCT:
            return value if isinstance(value, Struct) else None
        case _:
            read = _read(value)
            fits = isinstance(read, list | tuple) if to.type is Type.ARRAY else isinstance(read, dict)
            return read if fits else None


def _read(value: object) -> object:
    """What a text says; other values as they are."""
    from moldau.connect.data.parsing import parse

    if not isinstance(value, str):
        return value
    parsed = parse(value)
    return None if parsed is None else parsed.value


def _boolean(source: Schema | None, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        read = _read(value)
        if isinstance(read, bool):
            return read
    return _as_long(value, source) != 0


def _bytes(to: Schema, value: object) -> object:
    if to.name == DECIMAL:
        if isinstance(value, bytes | bytearray | memoryview):
            return logical.decimal_from_bytes(to, bytes(value))
        if isinstance(value, Decimal):
            return value
        if is_number(value):
            return Decimal(java_text(Float64(to_double(value))))
        if isinstance(value, str):
            return parse_decimal(value)
        return None
    if isinstance(value, Decimal):
        return logical.decimal_to_bytes(to, value)
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def _moment(to: Schema, source: Schema | None, value: object) -> Instant:
    value = _read(value)
    name = source.name if source is not None else None
    if isinstance(value, Instant):
        if source is None or name == to.name:
            return value
        if to.name == DATE and name == TIMESTAMP:
            return Instant(value.epoch_ms - value.epoch_ms % MILLIS_PER_DAY)
        if to.name == TIME and name == TIMESTAMP:
            return Instant(value.epoch_ms % MILLIS_PER_DAY)
        if to.name == TIMESTAMP and name in (DATE, TIME):
            return value
    number = _as_long(value, source)
    if to.name == DATE:
        return logical.date_from_days(to, number)
    return logical.time_from_millis(to, number) if to.name == TIME else Instant(number)


def _as_long(value: object, source: Schema | None) -> int:
    error: NumberFormatException | None = None
    try:
        if is_number(value):
            return narrow(value, Int64)
        if isinstance(value, str):
            return narrow(parse_decimal(value), Int64)
    except NumberFormatException as raised:
        error = raised
    if source is not None and isinstance(value, Instant):
        if source.name == DATE:
            return logical.date_to_days(source, value)
        if source.name == TIME:
            return logical.time_to_millis(source, value)
        if source.name == TIMESTAMP:
            return value.epoch_ms
    target = "a number" if source is None else str(source)
    text = f"Unable to convert {java_text(value)} (class {java_class(value)}) to {target}"
    raise DataException(text) from error


def _as_double(value: object, source: Schema | None) -> float:
    if is_number(value):
        return to_double(value)
    if isinstance(value, str):
        try:
            return float(parse_decimal(value))
        except NumberFormatException:
            pass
    return float(_as_long(value, source))
