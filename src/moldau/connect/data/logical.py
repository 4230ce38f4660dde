"""The logical types: decimals, dates, times and timestamps, between their values and what carries them.

Invariant: what a logical value cannot carry is refused with Connect's words, never rounded.
"""

from decimal import Decimal

from moldau.connect.data.numbers import parse_integer, scale_of, unscaled, with_scale
from moldau.connect.data.schema import DATE, TIME, TIMESTAMP, Schema
from moldau.connect.data.types import MILLIS_PER_DAY, Instant, Int32
from moldau.connect.errors import DataException, NullPointerException, NumberFormatException


def decimal_scale(schema: Schema) -> int:
    if schema.parameters is None:
        raise NullPointerException(
            'Cannot invoke "java.util.Map.get(Object)" because the return value of '
            '"org.apache.kafka.connect.data.Schema.parameters()" is null'
        )
    text = schema.parameters.get("scale")
    if text is None:
        raise DataException("Invalid Decimal schema: scale parameter not found.")
    try:
        return parse_integer(text, Int32)
    except NumberFormatException as error:
        raise DataException("Invalid scale parameter found in Decimal schema: ") from error


def decimal_to_bytes(schema: Schema, value: Decimal) -> bytes:
    """The unscaled number, big-endian, in as few bytes as it needs."""
    wanted, found = decimal_scale(schema), scale_of(value)
    if wanted != found:
        raise DataException(
            "Decimal value has mismatching scale for given Decimal schema. "
            f"Schema has scale {wanted}, value has scale {found}."
        )
    number = unscaled(value)
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def decimal_from_bytes(schema: Schema, raw: bytes) -> Decimal:
    if not raw:
        raise NumberFormatException("Zero length BigInteger")
    return with_scale(int.from_bytes(raw, "big", signed=True), decimal_scale(schema))


def date_to_days(schema: Schema, value: Instant) -> int:
    _expect(schema, DATE, "Date")
    if value.epoch_ms % MILLIS_PER_DAY:
        raise DataException("Kafka Connect Date type should not have any time fields set to non-zero values.")
    return value.epoch_ms // MILLIS_PER_DAY


def date_from_days(schema: Schema, days: int) -> Instant:
    _expect(schema, DATE, "Date")
    return Instant(days * MILLIS_PER_DAY)


def time_to_millis(schema: Schema, value: Instant) -> int:
    _expect(schema, TIME, "Time")
    if not 0 <= value.epoch_ms <= MILLIS_PER_DAY:
        raise DataException("Kafka Connect Time type should not have any date fields set to non-zero values.")
    return value.epoch_ms


def time_from_millis(schema: Schema, millis: int) -> Instant:
    _expect(schema, TIME, "Time")
    if not 0 <= millis <= MILLIS_PER_DAY:
        raise DataException(
            "Time values must use number of milliseconds greater than 0 and less than 86400000"
        )
    return Instant(millis)


def timestamp_to_millis(schema: Schema, value: Instant) -> int:
    _expect(schema, TIMESTAMP, "Timestamp")
    return value.epoch_ms


def timestamp_from_millis(schema: Schema, millis: int) -> Instant:
    _expect(schema, TIMESTAMP, "Timestamp")
    return Instant(millis)


def _expect(schema: Schema, name: str, kind: str) -> None:
    if schema.name != name:
        raise DataException(f"Requested conversion of {kind} object but the schema does not match.")
