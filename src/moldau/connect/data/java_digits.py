"""The decimal digits that Java 17 prints of a float: not always the fewest, and sometimes not the nearest.

Java 19 prints the fewest; what is compared with texts of older versions needs theirs. The way is that of
Steele and White: digits come out one by one until the rest is smaller than half of the distance to the next
float.

Invariant: what is printed is read back as the same float.
"""

import math
import struct
from typing import NamedTuple

from moldau.connect.data.types import Float32

_FRACTION_BITS = 52
_LARGEST_SMALL, _SMALLEST_SMALL = 62, -21


class _Parts(NamedTuple):
    """A float taken apart: its bits with the first one, the exponent, and how many bits count."""

    bits: int
    exponent: int
    significant: int


def java_digits(number: float) -> tuple[str, int]:
    """Digits, and where the point is: 0.DIGITS times ten to the exponent."""
    parts = _single_parts(number) if isinstance(number, Float32) else _double_parts(number)
    zeros = (parts.bits & -parts.bits).bit_length() - 1
    count = _FRACTION_BITS + 1 - zeros
    tiny = max(0, count - parts.exponent - 1)
    if _SMALLEST_SMALL <= parts.exponent <= _LARGEST_SMALL and tiny == 0 and count < 64:
        return _whole_digits(parts)
    return _digits_one_by_one(parts, zeros, count, tiny)


def _double_parts(number: float) -> _Parts:
    (raw,) = struct.unpack(">Q", struct.pack(">d", abs(number)))
    return _parts(raw & ((1 << 52) - 1), raw >> 52, 52, 1023)


def _single_parts(number: float) -> _Parts:
    (raw,) = struct.unpack(">I", struct.pack(">f", abs(number)))
    parts = _parts(raw & ((1 << 23) - 1), raw >> 23, 23, 127)
    return parts._replace(bits=parts.bits << (_FRACTION_BITS - 23))


def _parts(fraction: int, exponent: int, width: int, bias: int) -> _Parts:
    if exponent:
        return _Parts(fraction | 1 << width, exponent - bias, width + 1)
    shift = width + 1 - fraction.bit_length()
    return _Parts(fraction << shift, 1 - shift - bias, fraction.bit_length())


def _whole_digits(parts: _Parts) -> tuple[str, int]:
    """A whole number: digits that the float cannot tell apart are rounded away."""
    insignificant = 0
    if parts.exponent > parts.significant:
        power = parts.exponent - parts.significant - 1
        insignificant = int(power * math.log10(2)) if power > 1 else 0
    shift = parts.exponent - _FRACTION_BITS
    value = parts.bits << shift if shift >= 0 else parts.bits >> -shift
    if insignificant:
        ten = 10**insignificant
        value, rest = divmod(value, ten)
        value += rest >= ten // 2
    text = str(value)
    return text.rstrip("0"), len(text) + insignificant


def _digits_one_by_one(parts: _Parts, zeros: int, count: int, tiny: int) -> tuple[str, int]:
    exponent = _estimated_exponent(parts)
    b5, s5 = max(0, -exponent), max(0, exponent)
    b2, s2 = b5 + tiny + parts.exponent, s5 + tiny
    m2 = b2 - parts.significant
    b2 -= count - 1
    common = min(b2, s2)
    b2, s2, m2 = b2 - common, s2 - common, m2 - common
    if count == 1:  # below a power of two the next float is half as far away
        m2 -= 1
    if m2 < 0:
        b2, s2, m2 = b2 - m2, s2 - m2, 0
    rest = ((parts.bits >> zeros) * 5**b5) << b2
    scale = 5**s5 << s2
    half = 5**b5 << m2
    # Java works with 32 or 64 bits where these seem enough, and overflows now and then.
    width = _width(count + b2 + _bits_of_five(b5), s2 + 1 + _bits_of_five(s5 + 1))
    return _generated(rest, scale, half, exponent, width)


def _generated(rest: int, scale: int, half: int, exponent: int, width: int) -> tuple[str, int]:
    tens = scale * 10
    digits: list[int] = []

    def step() -> tuple[int, bool, bool]:
        nonlocal rest, half
        digit, rest = divmod(rest, scale)
        rest, half = rest * 10, half * 10
        if width and half >= 1 << (width - 1):
            return digit, True, True
        if not width:
            return digit, rest < half, rest + half >= tens
        total = rest + half
        if total >= 1 << (width - 1):  # Java's sum overflows here, and is below everything then
            total -= 1 << width
        return digit, rest < half, total > tens

    digit, low, high = step()
    if digit == 0 and not high:
        exponent -= 1
    else:
        digits.append(digit)
    if exponent < -3 or exponent >= 8:
        low = high = False
    while not low and not high:
        digit, low, high = step()
        digits.append(digit)
    difference = 2 * rest - tens
    if high and (not low or difference > 0 or (difference == 0 and digits[-1] % 2)):
        exponent += _round_up(digits)
    return "".join(map(str, digits)), exponent + 1


def _round_up(digits: list[int]) -> int:
    """One more in the last digit; 1 if that moves the point."""
    for index in range(len(digits) - 1, -1, -1):
        if digits[index] < 9:
            digits[index] += 1
            return 0
        digits[index] = 0
    digits[0] = 1
    return 1


def _estimated_exponent(parts: _Parts) -> int:
    (mantissa,) = struct.unpack(">d", struct.pack(">Q", 1023 << 52 | parts.bits & ((1 << 52) - 1)))
    estimate: float = (mantissa - 1.5) * 0.289529654 + 0.176091259 + parts.exponent * 0.301029995663981
    return math.floor(estimate)


_BITS_OF_FIVE: list[int] = [(5**power).bit_length() for power in range(27)]


def _bits_of_five(power: int) -> int:
    if power < len(_BITS_OF_FIVE):
        return _BITS_OF_FIVE[power] if power else 0
    return power * 3


def _width(rest_bits: int, scale_bits: int) -> int:
    """How many bits Java takes for its numbers; 0 for as many as are needed."""
    if rest_bits < 32 and scale_bits < 32:
        return 32
    return 64 if rest_bits < 64 and scale_bits < 64 else 0
