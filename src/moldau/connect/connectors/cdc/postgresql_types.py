"""Types of PostgreSQL as Debezium describes them, and their texts as values.

Values come as texts, from snapshots and from the stream alike, so that both give the same records.

Invariant: pure; a text that is none of its type is a DataException.
"""

import datetime
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from moldau.connect.data.numbers import unscaled
from moldau.connect.data.schema import Schema, Struct, array, decimal, struct
from moldau.connect.data.types import EPOCH, Float32, Float64, Type
from moldau.connect.errors import DataException

Read = Callable[[str], object]
#: Stands where a value is that an update did not touch and that is not sent.
UNAVAILABLE = "__debezium_unavailable_value"

_WHOLE = {21: Type.INT16, 23: Type.INT32, 20: Type.INT64, 26: Type.INT64}
_BOOL, _FLOAT4, _FLOAT8, _BYTEA, _NUMERIC, _BIT = 16, 700, 701, 17, 1700, 1560
_DATE, _TIME, _TIMESTAMP, _TIMESTAMPTZ, _INTERVAL, _TIMETZ = 1082, 1083, 1114, 1184, 1186, 1266
_NAMED_TEXTS = {
    114: "io.debezium.data.Json",
    3802: "io.debezium.data.Json",
    2950: "io.debezium.data.Uuid",
    142: "io.debezium.data.Xml",
}
_DAYS_PER_MONTH = 365.25 / 12
_INFINITE_US = {"infinity": 9_223_372_036_825_200_000, "-infinity": -9_223_372_036_832_400_000}
VARIABLE_DECIMAL = struct(
    {"scale": Schema(Type.INT32), "value": Schema(Type.BYTES)},
    name="io.debezium.data.VariableScaleDecimal",
    version=1,
    doc="Variable scaled decimal",
)


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """What the catalogue says of a type that is not built in."""

    kind: str = "b"
    element: int = 0
    base: int = 0
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeRules:
    """``decimals`` is precise, double or string."""

    decimals: str = "precise"
    known: Mapping[int, TypeInfo] = field(default_factory=dict)

    def column(self, oid: int, modifier: int, optional: bool) -> tuple[Schema, Read]:
        info = self.known.get(oid)
        if info is not None:
            if info.base:
                return self.column(info.base, modifier, optional)
            if info.labels:
                allowed = {"allowed": ",".join(info.labels)}
                return _text("io.debezium.data.Enum", optional, allowed), str
            if info.element:
                item, read = self.column(info.element, modifier, True)
                return array(item, optional=optional), lambda text: _array(text, read)
        if oid == _NUMERIC:
            return self._decimal(modifier, optional)
        return _built_in(oid, modifier, optional)

    def _decimal(self, modifier: int, optional: bool) -> tuple[Schema, Read]:
        if self.decimals == "double":
            return Schema(Type.FLOAT64, optional=optional), lambda text: Float64(float(text))
        if self.decimals == "string":
            return Schema(Type.STRING, optional=optional), str
        if modifier < 4:
            schema = struct(
                [(each.name, each.schema) for each in VARIABLE_DECIMAL.fields],
                optional=optional,
                **VARIABLE_DECIMAL.basics(),
            )
            return schema, lambda text: _variable(schema, text)
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
        plain = decimal(scale, optional=optional)
        parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
        made = Schema(plain.type, optional=optional, name=plain.name, version=1, parameters=parameters)
        return made, lambda text: _finite(text).quantize(Decimal(1).scaleb(-scale))


def _built_in(oid: int, modifier: int, optional: bool) -> tuple[Schema, Read]:
    if oid in _WHOLE:
        return Schema(_WHOLE[oid], optional=optional), int
    if oid == _BOOL or (oid == _BIT and modifier == 1):
        return Schema(Type.BOOLEAN, optional=optional), lambda text: text in ("t", "1")
    if oid == _FLOAT4:
        return Schema(Type.FLOAT32, optional=optional), lambda text: Float32(float(text))
    if oid == _FLOAT8:
        return Schema(Type.FLOAT64, optional=optional), lambda text: Float64(float(text))
    if oid == _BYTEA:
        return Schema(Type.BYTES, optional=optional), _bytes
    named: dict[int, tuple[Type, str, Read]] = {
        _DATE: (Type.INT32, "io.debezium.time.Date", _days),
        _TIME: (Type.INT64, "io.debezium.time.MicroTime", _time_us),
        _TIMESTAMP: (Type.INT64, "io.debezium.time.MicroTimestamp", _timestamp_us),
        _TIMESTAMPTZ: (Type.STRING, "io.debezium.time.ZonedTimestamp", _zoned),
        _TIMETZ: (Type.STRING, "io.debezium.time.ZonedTime", _zoned_time),
        _INTERVAL: (Type.INT64, "io.debezium.time.MicroDuration", _duration_us),
    }
    if oid in named:
        kind, name, read = named[oid]
        return Schema(kind, optional=optional, name=name, version=1), read
    return _text(_NAMED_TEXTS.get(oid), optional), str


def _text(name: str | None, optional: bool, parameters: Mapping[str, str] | None = None) -> Schema:
    version = None if name is None else 1
    return Schema(Type.STRING, optional=optional, name=name, version=version, parameters=parameters)


def _finite(text: str) -> Decimal:
    found = Decimal(text)
    if not found.is_finite():
        raise DataException(f"{text} is no decimal. Next: decimal.handling.mode=double or string")
    return found


def _variable(schema: Schema, text: str) -> Struct:
    found = _finite(text)
    exponent = found.as_tuple().exponent
    assert isinstance(exponent, int)
    number = unscaled(found)
    magnitude = number if number >= 0 else ~number
    raw = number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)
    return Struct(schema, {"scale": -exponent, "value": raw})


def _bytes(text: str) -> bytes:
    if text == UNAVAILABLE:
        return text.encode()
    return bytes.fromhex(text.removeprefix("\\x"))


def _parsed(text: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        raise DataException(f"The date {text} is out of range") from None


def _days(text: str) -> int:
    if text in _INFINITE_US:
        return 2_147_483_647 if text == "infinity" else -2_147_483_648
    return (_parsed(text).replace(tzinfo=datetime.UTC) - EPOCH).days


def _timestamp_us(text: str) -> int:
    if text in _INFINITE_US:
        return _INFINITE_US[text]
    return (_parsed(text).replace(tzinfo=datetime.UTC) - EPOCH) // datetime.timedelta(microseconds=1)


def _zoned(text: str) -> str:
    if text in _INFINITE_US:
        return text
    when = _parsed(text).astimezone(datetime.UTC)
    fraction = f".{when.microsecond:06d}".rstrip("0") if when.microsecond else ""
    return f"{when:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _time_us(text: str) -> int:
    if text.startswith("24:"):
        return 86_400_000_000
    found = datetime.time.fromisoformat(text)
    return ((found.hour * 60 + found.minute) * 60 + found.second) * 1_000_000 + found.microsecond


def _zoned_time(text: str) -> str:
    found = datetime.time.fromisoformat(text)
    moment = datetime.datetime.combine(datetime.date(2000, 1, 1), found).astimezone(datetime.UTC)
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return f"{moment:%H:%M:%S}{fraction}Z"


_INTERVAL_PART = re.compile(r"([+-]?\d+) (year|mon|day)s?")
_INTERVAL_TIME = re.compile(r"([+-]?)(\d+):(\d\d):(\d\d(?:\.\d+)?)")


def _duration_us(text: str) -> int:
    days = 0.0
    for number, unit in _INTERVAL_PART.findall(text):
        days += int(number) * {"year": 12 * _DAYS_PER_MONTH, "mon": _DAYS_PER_MONTH, "day": 1.0}[unit]
    micros = round(days * 86_400_000_000)
    time = _INTERVAL_TIME.search(text)
    if time is not None:
        sign = -1 if time[1] == "-" else 1
        seconds = Decimal(time[4]) + 60 * int(time[3]) + 3600 * int(time[2])
        micros += sign * int(seconds * 1_000_000)
    return micros


# --- arrays -----------------------------------------------------------------------------------------

_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,{}"]+)|([{},])', re.DOTALL)


def _array(text: str, read: Read) -> list[object]:
    """``{1,NULL,"a b"}``; of arrays in arrays the texts are given as one list, row by row."""
    if text == UNAVAILABLE:
        return []
    body = text[text.index("{") :] if text.startswith("[") else text
    found: list[object] = []
    for match in _ITEM.finditer(body):
        if match[3] is not None:
            continue
        if match[1] is not None:
            found.append(read(re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL)))
        else:
            found.append(None if match[2] == "NULL" else read(match[2]))
    return found
