"""Values between databases and Connect.

Invariant: what a column's type cannot hold is a DataException that names the value's type, never rounded.
"""

import datetime
import json
from decimal import Decimal
from typing import Any

from moldau.connect.data.schema import DATE, TIME, TIMESTAMP, Schema, Struct
from moldau.connect.data.types import EPOCH, Instant
from moldau.connect.errors import DataException

_MICROSECOND = datetime.timedelta(microseconds=1)


def instant(value: Any) -> Instant:
    """A date or time of a driver; a time span (MySQL's TIME) counts from midnight."""
    if isinstance(value, datetime.timedelta):
        return Instant(value // datetime.timedelta(milliseconds=1))
    if isinstance(value, datetime.date | datetime.time):
        return Instant.of(value)
    raise DataException(f"A value of type {type(value).__name__} is no date or time")


def microseconds(value: Any) -> int:
    """A timestamp of a driver as microseconds since 1970; without a zone it is taken for UTC."""
    if isinstance(value, datetime.datetime):
        when = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return (when - EPOCH) // _MICROSECOND
    if isinstance(value, datetime.date):
        return microseconds(datetime.datetime.combine(value, datetime.time()))
    raise DataException(f"A value of type {type(value).__name__} is no timestamp")


def moment(micros: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(microseconds=micros)


def scaled(scale: int) -> Any:
    """Reads decimals with exactly ``scale`` digits after the point."""
    unit = Decimal(1).scaleb(-scale)

    def read(value: Any) -> Decimal:
        found = value if isinstance(value, Decimal) else Decimal(str(value))
        if not found.is_finite():
            raise DataException("A decimal that is no number cannot be read; numeric.mapping may help")
        fitted = found.quantize(unit) if found == found.quantize(unit) else None
        if fitted is None:
            raise DataException(f"A decimal has more than {scale} digits after the point")
        return fitted

    return read


def plain(schema: Schema | None, value: object) -> object:
    """A value of Connect as drivers take it."""
    if value is None or isinstance(value, bool | str | Decimal):
        return value
    if isinstance(value, Instant):
        return _moment_of(schema, value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise DataException(
        f"{type(value).__name__} is no value for a column. Next: Flatten$Value, or ExtractField"
    )


def _moment_of(schema: Schema | None, value: Instant) -> object:
    name = TIMESTAMP if schema is None else schema.name
    when = value.datetime()
    if name == DATE:
        return when.date()
    return when.time().replace(tzinfo=None) if name == TIME else when


def json_text(value: object) -> str:
    """Lists, maps and structs as JSON, for columns of that type."""
    return json.dumps(_node(value), ensure_ascii=False, separators=(",", ":"))


def _node(value: object) -> Any:
    if isinstance(value, Struct):
        return {field.name: _node(item) for field, item in value.items()}
    if isinstance(value, dict):
        return {str(key): _node(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_node(item) for item in value]
    if isinstance(value, Instant):
        return value.datetime().isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return str(value) if isinstance(value, Decimal) else value


def is_nested(value: object) -> bool:
    return isinstance(value, list | tuple | dict | Struct)
