"""Values of Connect as the bytes of cells and row keys.

As text, which people and most tools read, or as HBase's own class ``Bytes`` writes them, which programs in
Java read.

Invariant: pure; a value that has no such form is a DataException that names its type, never the value.
"""

import struct
from decimal import Decimal

from moldau.connect.connectors.jdbc.values import is_nested, json_text
from moldau.connect.data.schema import DATE, TIME, Schema
from moldau.connect.data.text import ISO_DATE, ISO_TIME, ISO_TIMESTAMP, java_text
from moldau.connect.data.types import Instant, Type, type_without_schema
from moldau.connect.errors import DataException

TEXT, BINARY = "text", "binary"
_PACKED = {
    Type.INT8: ">b",
    Type.INT16: ">h",
    Type.INT32: ">i",
    Type.INT64: ">q",
    Type.FLOAT32: ">f",
    Type.FLOAT64: ">d",
}


def as_text(schema: Schema | None, value: object) -> bytes:
    """Bytes as they are, dates and times in ISO 8601, lists and what is nested as JSON."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Instant):
        name = None if schema is None else schema.name
        form = {DATE: ISO_DATE, TIME: ISO_TIME}.get(name or "", ISO_TIMESTAMP)
        return form.format(value.epoch_ms).encode()
    if isinstance(value, Decimal):
        return format(value, "f").encode()
    if isinstance(value, str | int | float) or is_nested(value):
        return _encoded(json_text(value) if is_nested(value) else java_text(value))
    raise DataException(f"A value of type {type(value).__name__} cannot be written as text")


def as_binary(schema: Schema | None, value: object) -> bytes:
    """As ``Bytes.toBytes`` of HBase: numbers with the highest byte first, in the width of their type."""
    if isinstance(value, bool):
        return b"\xff" if value else b"\x00"
    if isinstance(value, Instant):
        return struct.pack(">q", value.epoch_ms)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, int | float):
        kind = type_without_schema(value) if schema is None else schema.type
        try:
            return struct.pack(_PACKED[kind or Type.INT64], value)
        except (struct.error, KeyError, OverflowError):
            raise DataException(f"A number of type {type(value).__name__} does not fit its type") from None
    return as_text(schema, value)


def _decimal(value: Decimal) -> bytes:
    """The scale in four bytes, then the digits as one number of as many bytes as it takes."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise DataException("A decimal that is no number cannot be written")
    whole = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    magnitude = whole if whole >= 0 else ~whole
    size = magnitude.bit_length() // 8 + 1
    return struct.pack(">i", -exponent) + whole.to_bytes(size, "big", signed=True)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise DataException("A text with half of a pair of letters cannot be written in UTF-8") from None


ENCODINGS = {TEXT: as_text, BINARY: as_binary}
