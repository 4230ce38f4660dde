"""Types of CQL for schemas of Connect, and values as the driver takes them for a type.

Invariant: pure; what a column cannot hold is a DataException that names types, never the value.
"""

import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from ipaddress import ip_address
from uuid import UUID

from moldau.connect.connectors.jdbc.values import is_nested, json_text
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema
from moldau.connect.data.types import EPOCH, Instant, Type, type_without_schema
from moldau.connect.errors import DataException

_BY_NAME = {DECIMAL: "decimal", DATE: "date", TIME: "time", TIMESTAMP: "timestamp"}
_BY_TYPE = {
    Type.INT8: "tinyint",
    Type.INT16: "smallint",
    Type.INT32: "int",
    Type.INT64: "bigint",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "text",
    Type.BYTES: "blob",
}
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64, "varint": 0}
_NANOS_PER_MILLI = 1_000_000


def type_of(schema: Schema | None, value: object) -> str:
    """The type of a new column; things of one kind are lists and maps, others are JSON in a text."""
    if schema is None:
        kind = type_without_schema(value)
        return "text" if kind is None else _BY_TYPE.get(kind, "text")
    named = _BY_NAME.get(schema.name or "")
    if named is not None:
        return named
    if schema.type is Type.ARRAY and schema.values is not None:
        return f"list<{_inner(schema.values)}>"
    if schema.type is Type.MAP and schema.keys is not None and schema.values is not None:
        return f"map<{_inner(schema.keys)}, {_inner(schema.values)}>"
    return _BY_TYPE.get(schema.type, "text")


def _inner(schema: Schema) -> str:
    found = type_of(schema, None)
    return f"frozen<{found}>" if "<" in found else found


def written(kind: str, value: object) -> object:
    """``value`` for a column of the type ``kind``, as CQL writes it."""
    if value is None:
        return None
    kind = kind.strip().lower()
    nested = re.fullmatch(r"(frozen|list|set|map|tuple)<(.*)>", kind)
    found = _SINGLE.get(kind)
    if found is None and nested is None:
        raise DataException(f"Columns of the type {kind} cannot be written")
    try:
        if nested is not None:
            return _collection(nested[1], nested[2], value)
        assert found is not None
        return found(kind, value)
    except (ValueError, OverflowError, InvalidOperation, TypeError):
        raise _misfit(kind, value) from None


def _misfit(kind: str, value: object) -> DataException:
    return DataException(f"A value of type {type(value).__name__} does not fit a column of type {kind}")


def _collection(outer: str, inner: str, value: object) -> object:
    if outer == "frozen":
        return written(inner, value)
    if outer == "map":
        keys, values = split_types(inner)
        if isinstance(value, dict) and None not in value and None not in value.values():
            return {written(keys, key): written(values, item) for key, item in value.items()}
    elif isinstance(value, list | tuple):
        if outer == "tuple":
            kinds = split_types(inner)
            if len(kinds) == len(value):
                return tuple(written(each, item) for each, item in zip(kinds, value, strict=True))
        elif None not in value:  # the driver would make an empty text of it
            items = [written(inner, item) for item in value]
            return items if outer == "list" else set(items)
    raise _misfit(f"{outer}<{inner}>", value)


def split_types(text: str) -> list[str]:
    """``text, frozen<map<int, text>>`` as two."""
    found, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            found.append(text[start:place].strip())
            start = place + 1
    return [*found, text[start:].strip()]


# --- single values --------------------------------------------------------------------------------------


def _whole(kind: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        bits = _BITS[kind]
        if not bits or -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            return int(value)
    raise _misfit(kind, value)


def _float(kind: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = float(value)
        if kind == "float":
            struct.pack("<f", found)  # raises OverflowError for what is too large
        return found
    raise _misfit(kind, value)


def _decimal(kind: str, value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise _misfit(kind, value)
    found = Decimal(str(value))
    if not found.is_finite():
        raise _misfit(kind, value)
    return found


def _boolean(kind: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise _misfit(kind, value)


def _text(kind: str, value: object) -> str:
    if is_nested(value):
        return json_text(value)
    if isinstance(value, str) and (kind != "ascii" or value.isascii()):
        return value
    raise _misfit(kind, value)


def _blob(kind: str, value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise _misfit(kind, value)


def _uuid(kind: str, value: object) -> UUID:
    if isinstance(value, str):
        found = UUID(value)
        if kind == "uuid" or found.version == 1:
            return found
    raise _misfit(kind, value)


def _inet(kind: str, value: object) -> str:
    if isinstance(value, str):
        return str(ip_address(value))
    raise _misfit(kind, value)


def _timestamp(kind: str, value: object) -> datetime | int:
    if isinstance(value, Instant):
        return value.epoch_ms
    if isinstance(value, str):
        found = datetime.fromisoformat(value)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return _whole("bigint", value)


def _date(kind: str, value: object) -> date:
    if isinstance(value, Instant):
        return value.datetime().date()
    if isinstance(value, str):
        return date.fromisoformat(value)
    raise _misfit(kind, value)


def _time(kind: str, value: object) -> int:
    """Nanoseconds of the day."""
    if isinstance(value, Instant) and 0 <= value.epoch_ms < 86_400_000:
        return value.epoch_ms * _NANOS_PER_MILLI
    if isinstance(value, str):
        found = datetime.combine(EPOCH.date(), time.fromisoformat(value).replace(tzinfo=None), UTC) - EPOCH
        return (found.seconds * 1_000_000 + found.microseconds) * 1000
    raise _misfit(kind, value)


_SINGLE: dict[str, Callable[[str, object], object]] = {
    **dict.fromkeys(_BITS, _whole),
    "float": _float,
    "double": _float,
    "decimal": _decimal,
    "boolean": _boolean,
    "text": _text,
    "varchar": _text,
    "ascii": _text,
    "blob": _blob,
    "uuid": _uuid,
    "timeuuid": _uuid,
    "inet": _inet,
    "timestamp": _timestamp,
    "date": _date,
    "time": _time,
}
