"""Numbers as Java reads, narrows and prints them.

Invariant: pure; nothing here depends on the platform's own float formatting beyond Python's shortest
``repr``.
"""

import math
import re
from decimal import Decimal

from moldau.connect.data.java_digits import java_digits
from moldau.connect.data.types import Float32, Int32, Int64, Sized
from moldau.connect.errors import NumberFormatException

_INTEGER = re.compile(r"[+-]?\d+", re.UNICODE)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,10})?", re.UNICODE)
_FLOAT = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)"
    r"[pP][+-]?\d+)[fFdD]?)",
    re.ASCII,
)
#: What Java's trim takes away: everything up to the space.
_TRIMMED = "".join(map(chr, range(33)))
_LARGEST_INT = (1 << 31) - 1


def trim(text: str) -> str:
    return text.strip(_TRIMMED)


def parse_integer(text: str, width: type[Sized]) -> Sized:
    """A whole number in decimal, with nothing around it, within the bounds of ``width``."""
    if not _INTEGER.fullmatch(text) or len(text) > 4000:
        raise NumberFormatException(f'For input string: "{text}"')
    number = int(text)
    if not width.holds(number):
        if width.bits >= 32:
            raise NumberFormatException(f'For input string: "{text}"')
        raise NumberFormatException(f'Value out of range. Value:"{text}" Radix:10')
    return width(number)


def parse_decimal(text: str) -> Decimal:
    """A number with its scale, as BigDecimal reads it: no spaces, no NaN."""
    if not _DECIMAL.fullmatch(text):
        bad = next(
            (character for character in text if not (character.isdecimal() or character in "+-.eE")), ""
        )
        if bad:
            raise NumberFormatException(
                f'Character {bad} is neither a decimal digit number, decimal point, nor "e" notation '
                "exponential mark."
            )
        raise NumberFormatException(f'For input string: "{text}"')
    number = Decimal(text)
    if abs(scale_of(number)) > _LARGEST_INT:
        raise NumberFormatException("Scale out of range.")
    return number


def parse_double(text: str) -> float:
    """A number as Double.parseDouble reads it: with spaces around, hexadecimal, or with a suffix."""
    return _parse_float(text)[0]


def parse_float(text: str) -> Float32:
    double, exact = _parse_float(text)
    return Float32(double if exact is None else exact)


def _parse_float(text: str) -> tuple[float, Decimal | None]:
    trimmed = trim(text)
    if not trimmed:
        raise NumberFormatException("empty String")
    if not _FLOAT.fullmatch(trimmed):
        raise NumberFormatException(f'For input string: "{text}"')
    lowered = trimmed.lower()
    if "nan" in lowered:
        return math.nan, None
    if "inf" in lowered:
        return (-math.inf if lowered[0] == "-" else math.inf), None
    if "0x" in lowered:
        return float.fromhex(lowered.rstrip("fd") if "p" in lowered else lowered), None
    exact = Decimal(lowered.rstrip("fd"))
    return float(exact), exact


def scale_of(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return -exponent


def unscaled(number: Decimal) -> int:
    sign, digits, _ = number.as_tuple()
    value = int("".join(map(str, digits)) or "0")
    return -value if sign else value


def with_scale(value: int, scale: int) -> Decimal:
    return Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -scale))


# --- narrowing --------------------------------------------------------------------------------------


def to_integer(number: object) -> int | None:
    """The whole part of a number, or None for NaN and the infinities."""
    if isinstance(number, float):
        return int(number) if math.isfinite(number) else None
    if isinstance(number, Decimal):
        return _whole_part(number)
    assert isinstance(number, int)
    return int(number)


def _whole_part(number: Decimal) -> int:
    scale = scale_of(number)
    if scale <= -64:  # all of its low 64 bits are zero, and its digits may be too many to write down
        return 0 if number == 0 else (1 << 64 if number > 0 else -(1 << 64))
    return int(number)


def narrow(number: object, width: type[Sized]) -> Sized:
    """A cast in Java: floats stop at the bounds of int or long, whole numbers lose their high bits."""
    if isinstance(number, float):
        first = Int64 if width is Int64 else Int32
        bound = 1 << (first.bits - 1)
        if number != number:
            return width.wrapped(0)
        return width.wrapped(
            int(max(-bound, min(bound - 1, number)))
            if math.isfinite(number)
            else (bound - 1 if number > 0 else -bound)
        )
    whole = to_integer(number)
    assert whole is not None
    return width.wrapped(whole)


def to_double(number: object) -> float:
    assert isinstance(number, int | float | Decimal)
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


# --- printing ---------------------------------------------------------------------------------------


def float_text(number: float) -> str:
    """A Float or Double as Java 17 prints it: 1.0, 1.0E10, 1.4E-45, NaN."""
    if number != number:
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "-0.0" if math.copysign(1, number) < 0 else "0.0"
    digits, exponent = java_digits(number)
    sign = "-" if number < 0 else ""
    if 0 < exponent < 8:
        whole, rest = digits[:exponent].ljust(exponent, "0"), digits[exponent:]
        return f"{sign}{whole}.{rest or '0'}"
    if -3 < exponent <= 0:
        return f"{sign}0.{'0' * -exponent}{digits}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"
