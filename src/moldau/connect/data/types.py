"""The types of Connect's values, and Python's values that carry them.

A value without a schema has only itself to say what it is, so numbers come in Connect's widths: ``Int8``,
``Int16``, ``Int32``, ``Int64``, ``Float32``, ``Float64``. A plain ``int`` or ``float`` is taken for any width
that it fits where there is a schema, and for the widest where there is none. ``bytes`` and ``memoryview`` are
bytes, ``Decimal`` is a decimal with its scale, and ``Instant`` is what Connect's dates, times and timestamps
share.
"""

import datetime
import math
import struct
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import ClassVar

from moldau.connect.errors import DataException

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLIS_PER_DAY = 86_400_000


class Type(Enum):
    """The kinds of schemas, in Connect's order."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


class Sized(int):
    """An integer of so many bits."""

    bits: ClassVar[int]
    __slots__ = ()

    def __new__(cls, value: int = 0) -> "Sized":
        number = int(value)
        if not cls.holds(number):
            raise OverflowError(f"{number} does not fit into {cls.bits} bits")
        return super().__new__(cls, number)

    @classmethod
    def holds(cls, number: int) -> bool:
        return -(1 << (cls.bits - 1)) <= number < 1 << (cls.bits - 1)

    @classmethod
    def wrapped(cls, number: int) -> "Sized":
        """The low bits of ``number``, as a cast in Java takes them."""
        half = 1 << (cls.bits - 1)
        return int.__new__(cls, ((number + half) & ((1 << cls.bits) - 1)) - half)


class Int8(Sized):
    bits = 8
    __slots__ = ()


class Int16(Sized):
    bits = 16
    __slots__ = ()


class Int32(Sized):
    bits = 32
    __slots__ = ()


class Int64(Sized):
    bits = 64
    __slots__ = ()


class BigInteger(int):
    """An integer without bounds; no schema has it, but a map without a schema may."""

    __slots__ = ()


class Float64(float):
    __slots__ = ()


class Float32(float):
    """A number with 24 bits of precision; others are rounded when one is made of them."""

    __slots__ = ()

    def __new__(cls, value: float | int | Decimal = 0.0) -> "Float32":
        return super().__new__(cls, nearest_float32(value))


def nearest_float32(number: float | int | Decimal) -> float:
    """The nearest number that 32 bits hold, rounded once only."""
    try:
        double = float(number)
    except OverflowError:
        double = float("inf") if number > 0 else float("-inf")
    if math.isfinite(double) and double != 0 and double != number:
        above = double > number if double > 0 else double < number
        double = _rounded_to_odd(double, above)
    try:
        packed: float = struct.unpack(">f", struct.pack(">f", double))[0]
    except OverflowError:
        return float("inf") if double > 0 else float("-inf")
    return packed


def _rounded_to_odd(double: float, above: bool) -> float:
    """A neighbour that tells a second rounding on which side of ``double`` the exact number lies."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", double))
    odd: float = struct.unpack(">d", struct.pack(">Q", (bits - above) | 1))[0]
    return odd


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A moment in milliseconds since 1970 in UTC: a Date, Time or Timestamp of Connect."""

    epoch_ms: int

    @classmethod
    def of(cls, when: datetime.datetime | datetime.date | datetime.time) -> "Instant":
        """The moment of Python's types; without a zone they are taken for UTC."""
        if isinstance(when, datetime.time):
            when = datetime.datetime.combine(EPOCH.date(), when)
        elif not isinstance(when, datetime.datetime):
            when = datetime.datetime.combine(when, datetime.time())
        if when.tzinfo is None:
            when = when.replace(tzinfo=datetime.UTC)
        return cls((when - EPOCH) // datetime.timedelta(milliseconds=1))

    def datetime(self) -> datetime.datetime:
        """The moment as Python has it, in UTC; DataException for one that is in no year from 1 to 9999."""
        try:
            return EPOCH + datetime.timedelta(milliseconds=self.epoch_ms)
        except OverflowError as error:
            raise DataException(f"{self.epoch_ms} ms since 1970 is in no year from 1 to 9999") from error


#: The class that a value of these types has, by the type of its schema.
EXACT: dict[Type, type] = {
    Type.INT8: Int8,
    Type.INT16: Int16,
    Type.INT32: Int32,
    Type.INT64: Int64,
    Type.FLOAT32: Float32,
    Type.FLOAT64: Float64,
}
INTEGERS: dict[Type, type[Sized]] = {
    Type.INT8: Int8,
    Type.INT16: Int16,
    Type.INT32: Int32,
    Type.INT64: Int64,
}

_JAVA_CLASSES: dict[type, str] = {
    bool: "java.lang.Boolean",
    Int8: "java.lang.Byte",
    Int16: "java.lang.Short",
    Int32: "java.lang.Integer",
    Int64: "java.lang.Long",
    int: "java.lang.Long",
    BigInteger: "java.math.BigInteger",
    Float32: "java.lang.Float",
    Float64: "java.lang.Double",
    float: "java.lang.Double",
    str: "java.lang.String",
    bytes: "[B",
    bytearray: "[B",
    memoryview: "java.nio.HeapByteBuffer",
    list: "java.util.ArrayList",
    tuple: "java.util.ArrayList",
    dict: "java.util.HashMap",
    Decimal: "java.math.BigDecimal",
    Instant: "java.util.Date",
}
_TYPES_WITHOUT_SCHEMA: dict[type, Type] = {
    bool: Type.BOOLEAN,
    Int8: Type.INT8,
    Int16: Type.INT16,
    Int32: Type.INT32,
    Int64: Type.INT64,
    int: Type.INT64,
    Float32: Type.FLOAT32,
    Float64: Type.FLOAT64,
    float: Type.FLOAT64,
    str: Type.STRING,
    bytes: Type.BYTES,
    bytearray: Type.BYTES,
    memoryview: Type.BYTES,
}


def java_class(value: object) -> str:
    """The Java class that messages name for a value."""
    own = getattr(value, "java_class", None)
    if isinstance(own, str):
        return own
    known = _JAVA_CLASSES.get(type(value))
    return known if known is not None else f"{type(value).__module__}.{type(value).__qualname__}"


def type_without_schema(value: object) -> Type | None:
    """The type of a value that no schema describes, or None for one that only a schema could explain."""
    known = _TYPES_WITHOUT_SCHEMA.get(type(value))
    if known is not None:
        return known
    if isinstance(value, dict):
        return Type.MAP
    if isinstance(value, list | tuple):
        return Type.ARRAY
    return Type.STRUCT if java_class(value) == "org.apache.kafka.connect.data.Struct" else None


def is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
