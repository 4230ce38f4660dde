"""Digits of floats where Java 17 has more of them than it needs, or others than the nearest."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.data.numbers import float_text
from moldau.connect.data.types import Float32, Float64


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0xE9000000, "-9.6714065E24"),
        (0x00800000, "1.17549435E-38"),
        (0x00000001, "1.4E-45"),
        (0x5F000000, "9.223372E18"),
    ],
)
def test_single_floats(bits: int, text: str) -> None:
    assert float_text(Float32(struct.unpack(">f", struct.pack(">I", bits))[0])) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (2.0**-44, "5.6843418860808015E-14"),
        (2e-3, "0.002"),
        (1e23, "9.999999999999999E22"),
        (2.0**63, "9.223372036854776E18"),
    ],
)
def test_doubles(number: float, text: str) -> None:
    assert float_text(Float64(number)) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_digits_are_read_back(number: float) -> None:
    assert float(float_text(number)) == number
