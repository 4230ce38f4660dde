"""Types of MySQL and MariaDB as Debezium describes them, and values of their drivers as values of records.

A column is described once, by the catalogue for snapshots and by the binary log for the stream: both give the
same schema and the same values.

Invariant: pure; a value that is none of its type is a DataException.
"""

import datetime
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from moldau.connect.data.schema import Schema, Struct, decimal, struct
from moldau.connect.data.types import EPOCH, Float32, Float64, Type
from moldau.connect.errors import DataException

Read = Callable[[Any], object]

_WHOLE = {
    ("tinyint", False): Type.INT16,
    ("tinyint", True): Type.INT16,
    ("smallint", False): Type.INT16,
    ("smallint", True): Type.INT32,
    ("mediumint", False): Type.INT32,
    ("mediumint", True): Type.INT32,
    ("int", False): Type.INT32,
    ("int", True): Type.INT64,
    ("bigint", False): Type.INT64,
}
_GEOMETRY = {"wkb": Schema(Type.BYTES), "srid": Schema(Type.INT32, optional=True)}
_MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class MySqlColumn:
    """``kind`` is the type's name without its length; ``text`` and ``binary`` stand for all texts and bytes.

    ``size`` is the precision of decimals, the digits of a second's fraction, the bits of BIT, the length of
    BINARY.
    """

    name: str
    kind: str
    optional: bool = True
    unsigned: bool = False
    size: int = 0
    scale: int = 0
    labels: tuple[str, ...] = ()
    key: bool = False


@dataclass(frozen=True, slots=True)
class MySqlRules:
    """``decimals`` is precise, double or string; ``big_unsigned`` is long or precise."""

    decimals: str = "precise"
    big_unsigned: str = "long"

    def column(self, column: MySqlColumn) -> tuple[Schema, Read]:
        kind, optional = column.kind, column.optional and not column.key
        if kind == "bigint" and column.unsigned:
            if self.big_unsigned == "precise":
                return decimal(0, optional=optional), Decimal
            return Schema(Type.INT64, optional=optional), _long
        if (kind, column.unsigned) in _WHOLE:
            return Schema(_WHOLE[kind, column.unsigned], optional=optional), int
        if kind == "decimal":
            return self._decimal(column, optional)
        return _other(column, optional)

    def _decimal(self, column: MySqlColumn, optional: bool) -> tuple[Schema, Read]:
        if self.decimals == "double":
            return Schema(Type.FLOAT64, optional=optional), lambda value: Float64(float(value))
        if self.decimals == "string":
            return Schema(Type.STRING, optional=optional), lambda value: str(_scaled(value, column.scale))
        plain = decimal(column.scale, optional=optional)
        parameters = {"scale": str(column.scale), "connect.decimal.precision": str(column.size)}
        made = Schema(plain.type, optional=optional, name=plain.name, version=1, parameters=parameters)
        return made, lambda value: _scaled(value, column.scale)


def zero_of(column: MySqlColumn) -> object:
    """What stands for a value that cannot be shown in a column that has no NULL: MySQL's zero dates."""
    if column.kind in ("enum", "set"):
        return ""
    return "1970-01-01T00:00:00Z" if column.kind == "timestamp" else 0


def _other(column: MySqlColumn, optional: bool) -> tuple[Schema, Read]:
    kind = column.kind
    if kind == "float":
        return Schema(Type.FLOAT32, optional=optional), lambda value: Float32(float(value))
    if kind == "double":
        return Schema(Type.FLOAT64, optional=optional), lambda value: Float64(float(value))
    if kind == "binary":
        size = column.size  # the log leaves out the zeros at the end of BINARY(n)
        return Schema(Type.BYTES, optional=optional), lambda value: _bytes(value).ljust(size, b"\0")
    if kind == "bit":
        if column.size == 1:
            return Schema(Type.BOOLEAN, optional=optional), lambda value: _bits(value) != 0
        length = (column.size + 7) // 8
        made = _named(Type.BYTES, "io.debezium.data.Bits", optional, {"length": str(column.size)})
        return made, lambda value: _bits(value).to_bytes(length, "little")
    if kind == "geometry":
        shape = struct(_GEOMETRY, name="io.debezium.data.geometry.Geometry", version=1, optional=optional)
        return shape, lambda value: _geometry(shape, _bytes(value))
    if kind in ("enum", "set"):
        name = "io.debezium.data.Enum" if kind == "enum" else "io.debezium.data.EnumSet"
        made = _named(Type.STRING, name, optional, {"allowed": ",".join(column.labels)})
        return made, lambda value: _labels(value, column.labels)
    if kind == "json":
        return _named(Type.STRING, "io.debezium.data.Json", optional), _json
    if kind in _TIMES:
        type_, name, read = _TIMES[kind]
        if kind == "datetime" and column.size > 3:
            name, read = "io.debezium.time.MicroTimestamp", _timestamp_us
        return _named(type_, name, optional), read
    return Schema(Type.STRING, optional=optional), _text


def _named(type_: Type, name: str, optional: bool, parameters: Mapping[str, str] | None = None) -> Schema:
    return Schema(type_, optional=optional, name=name, version=1, parameters=parameters)


def _long(value: Any) -> int:
    if value >= 1 << 63:
        raise DataException(
            f"{value} does not fit into 64 bits with a sign. Next: bigint.unsigned.handling.mode=precise"
        )
    return int(value)


def _scaled(value: Any, scale: int) -> Decimal:
    return Decimal(value).quantize(Decimal(1).scaleb(-scale))


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else bytes(value).decode("utf-8", "replace")


def _bits(value: Any) -> int:
    """The log's reader gives digits, queries give bytes."""
    return int(value, 2) if isinstance(value, str) else int.from_bytes(bytes(value), "big")


def _geometry(schema: Schema, raw: bytes) -> Struct:
    srid = int.from_bytes(raw[:4], "little")
    return Struct(schema, {"srid": srid or None, "wkb": raw[4:]})


def _labels(value: Any, labels: tuple[str, ...]) -> str:
    if isinstance(value, set | frozenset):
        return ",".join(label for label in labels if label in value)
    return _text(value)


def _json(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(_decoded(value), ensure_ascii=False, separators=(",", ":"))


def _decoded(value: Any) -> Any:
    """The log's reader leaves texts in JSON as bytes."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, dict):
        return {_decoded(key): _decoded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_decoded(item) for item in value]
    return str(value) if isinstance(value, Decimal | datetime.date | datetime.timedelta) else value


def _moment(value: Any) -> datetime.datetime:
    if not isinstance(value, datetime.datetime):
        raise DataException(f"{value} is no time")
    return value.replace(tzinfo=datetime.UTC)


def _days(value: Any) -> int:
    if not isinstance(value, datetime.date):
        raise DataException(f"{value} is no date")
    return value.toordinal() - EPOCH.toordinal()


def _timestamp_us(value: Any) -> int:
    return (_moment(value) - EPOCH) // _MICROSECOND


def _timestamp_ms(value: Any) -> int:
    return _timestamp_us(value) // 1000


def _zoned(value: Any) -> str:
    when = _moment(value)
    fraction = f".{when.microsecond:06d}".rstrip("0") if when.microsecond else ""
    return f"{when:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _time_us(value: Any) -> int:
    if not isinstance(value, datetime.timedelta):
        raise DataException(f"{value} is no time of a day")
    return value // _MICROSECOND


_TIMES: dict[str, tuple[Type, str, Read]] = {
    "year": (Type.INT32, "io.debezium.time.Year", int),
    "date": (Type.INT32, "io.debezium.time.Date", _days),
    "time": (Type.INT64, "io.debezium.time.MicroTime", _time_us),
    "datetime": (Type.INT64, "io.debezium.time.Timestamp", _timestamp_ms),
    "timestamp": (Type.STRING, "io.debezium.time.ZonedTimestamp", _zoned),
}
