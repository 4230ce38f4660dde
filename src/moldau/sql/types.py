"""SQL's types, how they are written, and how values become values of a type.

Invariant: a type is a value; two types are equal when they are written the same.
"""

import base64
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from moldau.sql.errors import SqlError


@dataclass(frozen=True, slots=True)
class SqlType:
    #: BOOLEAN, INTEGER, BIGINT, DOUBLE, DECIMAL, STRING, BYTES, TIMESTAMP, DATE, TIME, ARRAY, MAP, STRUCT or
    #: NULL.
    name: str
    #: Of an array its items, of a map its keys and values, of a struct its fields.
    parts: tuple["SqlType", ...] = ()
    fields: tuple[str, ...] = ()
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        match self.name:
            case "DECIMAL":
                return f"DECIMAL({self.precision}, {self.scale})"
            case "ARRAY" | "MAP":
                return f"{self.name}<{', '.join(map(str, self.parts))}>"
            case "STRUCT":
                inner = (f"{name} {part}" for name, part in zip(self.fields, self.parts, strict=True))
                return f"STRUCT<{', '.join(inner)}>"
            case "STRING":
                return "VARCHAR(STRING)"
        return self.name

    @property
    def is_number(self) -> bool:
        return self.name in _NUMBERS

    def field(self, name: str) -> "SqlType | None":
        return self.parts[self.fields.index(name)] if name in self.fields else None


BOOLEAN, INTEGER, BIGINT, DOUBLE, STRING = map(SqlType, ("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "STRING"))
BYTES, TIMESTAMP, DATE, TIME, NULL = map(SqlType, ("BYTES", "TIMESTAMP", "DATE", "TIME", "NULL"))
#: How many digits a DECIMAL may have.
_MOST_DIGITS = 38
#: Computes with as many digits as two of the longest decimals have together.
DECIMALS = Context(prec=2 * _MOST_DIGITS + 2, rounding=ROUND_HALF_UP)
#: From the narrowest to the widest.
_NUMBERS = ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE")

_PLAIN = {
    "BOOLEAN": BOOLEAN,
    "INT": INTEGER,
    "INTEGER": INTEGER,
    "BIGINT": BIGINT,
    "DOUBLE": DOUBLE,
    "VARCHAR": STRING,
    "STRING": STRING,
    "TEXT": STRING,
    "VARBINARY": BYTES,
    "BINARY": BYTES,
    "BYTES": BYTES,
    "TIMESTAMP": TIMESTAMP,
    "DATE": DATE,
    "TIME": TIME,
}


def array_of(item: SqlType) -> SqlType:
    return SqlType("ARRAY", (item,))


def map_of(value: SqlType, key: SqlType = STRING) -> SqlType:
    return SqlType("MAP", (key, value))


def decimal(precision: int, scale: int) -> SqlType:
    precision = min(precision, _MOST_DIGITS)
    return SqlType("DECIMAL", precision=precision, scale=min(scale, precision))


def type_of(written: exp.DataType) -> SqlType:
    """A type as it stands in a statement."""
    name = written.this.value if hasattr(written.this, "value") else str(written.this)
    if name == "USER-DEFINED":  # a word that sqlglot does not know as a type, such as BYTES
        name = str(written.args.get("kind"))
    inner = written.expressions
    match name.upper():
        case "DECIMAL":
            return _written_decimal([str(each.this) for each in inner])
        case "ARRAY" | "LIST":
            if len(inner) != 1:
                raise SqlError("ARRAY needs the type of its items, as in ARRAY<STRING>.")
            return array_of(type_of(inner[0]))
        case "MAP":
            if len(inner) != 2:
                raise SqlError("MAP needs the types of keys and values, as in MAP<STRING, INT>.")
            return map_of(type_of(inner[1]), type_of(inner[0]))
        case "STRUCT":
            from moldau.sql.dialect import name_of

            if not inner or not all(isinstance(each.args.get("kind"), exp.DataType) for each in inner):
                raise SqlError("STRUCT needs names and types of its fields, as in STRUCT<a INT, b STRING>.")
            return SqlType(
                "STRUCT",
                tuple(type_of(each.args["kind"]) for each in inner),
                tuple(name_of(each.this) for each in inner),
            )
        case other:
            if other not in _PLAIN:
                known = ", ".join(sorted({*_PLAIN, "DECIMAL", "ARRAY", "MAP", "STRUCT"}))
                raise SqlError(f"{other} is not a type here; there are {known}.")
            return _PLAIN[other]


def _written_decimal(numbers: list[str]) -> SqlType:
    if not 1 <= len(numbers) <= 2 or not all(each.isdecimal() and len(each) <= 2 for each in numbers):
        raise SqlError("DECIMAL needs a precision and a scale, as in DECIMAL(10, 2).")
    precision, scale = int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 0
    if not 1 <= precision <= _MOST_DIGITS or scale > precision:
        raise SqlError(
            f"DECIMAL({precision}, {scale}): the precision is from 1 to {_MOST_DIGITS} and no less than the"
            " scale."
        )
    return decimal(precision, scale)


def wider(one: SqlType, other: SqlType) -> SqlType:
    """The type that holds values of both."""
    if one == other or other == NULL:
        return one
    if one == NULL:
        return other
    if one.is_number and other.is_number:
        if one.name == other.name == "DECIMAL":
            scale = max(one.scale, other.scale)
            return decimal(max(one.precision - one.scale, other.precision - other.scale) + scale, scale)
        return max(one, other, key=lambda each: _NUMBERS.index(each.name))
    raise SqlError(f"{one} and {other} have no type in common; CAST one of them.")


# --- values ---------------------------------------------------------------------------------------


def caster(target: SqlType) -> Callable[[Any], Any]:
    """A function that makes any value one of this type; ValueError where it cannot."""
    if target.name == "ARRAY":
        item = caster(target.parts[0])
        return lambda value: None if value is None else [item(each) for each in value]
    if target.name == "MAP":
        key, each_value = caster(target.parts[0]), caster(target.parts[1])
        return lambda value: None if value is None else {key(k): each_value(v) for k, v in value.items()}
    if target.name == "STRUCT":
        fields = [(name, caster(part)) for name, part in zip(target.fields, target.parts, strict=True)]
        return lambda value: None if value is None else _struct(value, fields)
    if target.name == "DECIMAL":
        quantum = Decimal(1).scaleb(-target.scale)
        return lambda value: None if value is None else DECIMALS.quantize(Decimal(str(value)), quantum)
    convert = _CONVERTERS.get(target.name, lambda value: value)

    def cast(value: Any) -> Any:
        if value is None:
            return None
        try:
            return convert(value)
        except (TypeError, InvalidOperation, OverflowError) as error:
            raise ValueError(f"{value!r} is no {target}") from error

    return cast


def _struct(value: Any, fields: list[tuple[str, Callable[[Any], Any]]]) -> dict[str, Any]:
    by_name = {name.upper(): each for name, each in value.items()}
    return {
        name: convert(value[name] if name in value else by_name.get(name.upper())) for name, convert in fields
    }


def bounded(kind: SqlType) -> Callable[[Any], Any]:
    """Gives NULL for a number that the type cannot hold, which whoever reads it would not understand."""
    if kind.name == "DECIMAL":
        quantum = Decimal(1).scaleb(-kind.scale)
        most = Decimal(10) ** (kind.precision - kind.scale)

        def rounded(value: Any) -> Decimal | None:
            if value is None or not abs(value) < most:
                return None
            found = DECIMALS.quantize(Decimal(value), quantum)
            return found if abs(found) < most else None

        return rounded
    limit = {"INTEGER": 1 << 31, "BIGINT": 1 << 63}.get(kind.name)
    if limit is None:
        return lambda value: value
    return lambda value: value if value is not None and -limit <= value < limit else None


def _integer(bits: int) -> Callable[[Any], int]:
    limit = 1 << (bits - 1)

    def convert(value: Any) -> int:
        number = int(value) if not isinstance(value, str) else int(value.strip())
        if not -limit <= number < limit:
            raise ValueError(f"{value!r} does not fit {bits} bits")
        return number

    return convert


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        folded = value.strip().lower()
        if folded not in ("true", "false", "t", "f", "yes", "no", "y", "n"):
            raise ValueError(f"{value!r} is neither true nor false")
        return folded[0] in "ty"
    return bool(value)


def _string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}"
    if isinstance(value, date | time):
        return value.isoformat()
    return value if isinstance(value, str) else str(value)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else base64.b64decode(value, validate=True)


def _timestamp(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value / 1000, UTC)
    parsed = datetime.fromisoformat(str(value))
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


def _date(value: Any) -> date:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    if isinstance(value, int):  # days, as Avro has them
        return date.fromordinal(date(1970, 1, 1).toordinal() + value)
    return date.fromisoformat(str(value)[:10])


def _time(value: Any) -> time:
    if isinstance(value, datetime):
        return value.time()
    if isinstance(value, time):
        return value
    if isinstance(value, int):  # milliseconds of the day
        return (datetime(1970, 1, 1) + (datetime.fromtimestamp(value / 1000, UTC) - _EPOCH)).time()
    return time.fromisoformat(str(value))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "BOOLEAN": _boolean,
    "INTEGER": _integer(32),
    "BIGINT": _integer(64),
    "DOUBLE": float,
    "STRING": _string,
    "BYTES": _bytes,
    "TIMESTAMP": _timestamp,
    "DATE": _date,
    "TIME": _time,
}


def to_json(value: Any) -> Any:
    """A value as JSON has it; numbers that it lacks are texts, as Java's Jackson writes them."""
    if isinstance(value, dict):
        return {str(key): to_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    if isinstance(value, Decimal):
        number = float(value)
        # More digits than a number of JSON keeps are a text; both are read as the same decimal.
        return number if Decimal(repr(number)) == value else str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime):
        return round((value - _EPOCH).total_seconds() * 1000)
    if isinstance(value, bytes | date | time):
        return _string(value)
    return value
