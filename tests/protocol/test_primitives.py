"""Variable-length numbers and tagged fields, whole and broken."""

import pytest

from moldau.protocol.primitives import (
    MalformedMessage,
    read_unsigned_varint,
    skip_tagged_fields,
    write_unsigned_varint,
)

NUMBERS = {
    0: "00",
    127: "7f",
    128: "8001",
    300: "ac02",
    16_383: "ff7f",
    16_384: "808001",
    2**31 - 1: "ffffffff07",
    2**32 - 1: "ffffffff0f",
}


@pytest.mark.parametrize("number", NUMBERS)
def test_there_and_back(number: int) -> None:
    out = bytearray(b"before")
    write_unsigned_varint(number, out)
    assert out[6:].hex() == NUMBERS[number]
    assert read_unsigned_varint(out, 6) == (number, len(out))


@pytest.mark.parametrize("text", ["ffffffff10", "808080808001", "ffffffffff"])
def test_numbers_that_are_too_large(text: str) -> None:
    with pytest.raises(MalformedMessage):
        read_unsigned_varint(bytes.fromhex(text) + bytes(5), 0)


def test_tagged_fields_are_skipped_whatever_they_hold() -> None:
    assert skip_tagged_fields(b"\0rest", 0) == 1
    two = b"\x02" + b"\x05\x03abc" + b"\x80\x01\x00"
    assert skip_tagged_fields(two + b"rest", 0) == len(two)


def test_a_tagged_field_that_is_cut() -> None:
    with pytest.raises(MalformedMessage, match="cut"):
        skip_tagged_fields(b"\x01\x05\x7fabc", 0)
