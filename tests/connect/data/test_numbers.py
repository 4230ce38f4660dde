"""Numbers as Java prints, reads and narrows them."""

import math
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.data.numbers import (
    float_text,
    narrow,
    parse_decimal,
    parse_double,
    parse_float,
    parse_integer,
    scale_of,
    unscaled,
    with_scale,
)
from moldau.connect.data.types import Float32, Int8, Int32, Int64, nearest_float32
from moldau.connect.errors import NumberFormatException


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.125, "1.23456789125E8"),
        (5e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-0.0, "-0.0"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (Float32(1.1), "1.1"),
        (Float32(3.4028235e38), "3.4028235E38"),
        (Float32(1.4e-45), "1.4E-45"),
        (Float32(16777216.0), "1.6777216E7"),
    ],
)
def test_floats_have_the_digits_of_java(number: float, text: str) -> None:
    assert float_text(number) == text


@pytest.mark.slow
@given(st.floats(allow_nan=False))
def test_what_is_printed_is_read_back(number: float) -> None:
    assert parse_double(float_text(number)) == number


@given(st.floats(allow_nan=False, width=32))
def test_what_is_printed_of_single_floats_is_read_back(number: float) -> None:
    assert parse_float(float_text(Float32(number))) == number


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**40), max_value=10**40))
def test_decimals_are_rounded_to_single_floats_once(number: Decimal) -> None:
    found = nearest_float32(number)
    if math.isinf(found):
        return
    below = struct.unpack(">f", struct.pack(">f", math.nextafter(found, -math.inf)))[0]
    for other in (below, -found):
        assert abs(Decimal(found) - number) <= abs(Decimal(other) - number)


def test_a_decimal_close_to_the_middle_of_two_floats() -> None:
    """Rounded to a double first, this would be a tie and go to the even neighbour below."""
    middle = Decimal(1) + Decimal(2) ** -24
    assert nearest_float32(middle) == 1.0
    assert nearest_float32(middle + Decimal(2) ** -80) == 1.0 + 2.0**-23


@pytest.mark.parametrize("text", ["", " 1", "1.5", "0x10", "1_000", "two", "+", "300"])
def test_texts_that_are_no_byte(text: str) -> None:
    with pytest.raises(NumberFormatException):
        parse_integer(text, Int8)


@pytest.mark.parametrize(
    ("text", "number"), [(" 1e3 ", 1000.0), ("0x1.8p1", 3.0), ("1.5f", 1.5), ("-Infinity", -math.inf)]
)
def test_doubles_are_read_as_java_does(text: str, number: float) -> None:
    assert parse_double(text) == number


@pytest.mark.parametrize("text", ["inf", "nan", "1_0", "", "0x10", "one"])
def test_texts_that_are_no_double(text: str) -> None:
    with pytest.raises(NumberFormatException):
        parse_double(text)


def test_casts_lose_high_bits_and_floats_stop_at_the_bounds() -> None:
    assert narrow(300, Int8) == 44
    assert narrow(-3.99, Int8) == -3
    assert narrow(1e20, Int32) == 2**31 - 1
    assert narrow(1e20, Int8) == -1  # by way of an int, as in Java
    assert narrow(-math.inf, Int64) == -(2**63)
    assert narrow(math.nan, Int64) == 0
    assert narrow(Decimal("12345678901234567890.9"), Int64) == 12345678901234567890 - 2**64
    assert narrow(Decimal("1E+1000000"), Int64) == 0


@given(st.integers(), st.integers(-50, 50))
def test_a_decimal_is_its_number_and_its_scale(number: int, scale: int) -> None:
    made = with_scale(number, scale)
    assert (unscaled(made), scale_of(made)) == (number, scale)
    assert parse_decimal(str(made)) == made
