"""Values of Connect as bytes of cells."""

from decimal import Decimal

import pytest

from moldau.connect.connectors.hbase.values import as_binary, as_text
from moldau.connect.data.schema import Schema, Struct, date, struct, time, timestamp
from moldau.connect.data.types import Float32, Instant, Int8, Int16, Int32, Type
from moldau.connect.errors import DataException


@pytest.mark.parametrize(
    ("schema", "value", "wanted"),
    [
        (None, "größer", "größer".encode()),
        (None, b"\x00\xff", b"\x00\xff"),
        (None, True, b"true"),
        (None, -5, b"-5"),
        (None, 1.5, b"1.5"),
        (None, Decimal("1E+3"), b"1000"),
        (None, Decimal("12.30"), b"12.30"),
        (date(), Instant(86_400_000), b"1970-01-02"),
        (time(), Instant(1500), b"00:00:01.500Z"),
        (timestamp(), Instant(1_700_000_000_123), b"2023-11-14T22:13:20.123Z"),
        (None, [1, None, "ü"], '[1,null,"ü"]'.encode()),
        (None, Struct(struct({"a": Schema(Type.STRING)}), {"a": "b"}), b'{"a":"b"}'),
    ],
)
def test_text(schema: Schema | None, value: object, wanted: bytes) -> None:
    assert as_text(schema, value) == wanted


@pytest.mark.parametrize(
    ("schema", "value", "wanted"),
    [
        # What HBase's Bytes.toBytes gives for the same values in Java.
        (None, True, b"\xff"),
        (None, False, b"\x00"),
        (None, Int8(-1), b"\xff"),
        (None, Int16(1), b"\x00\x01"),
        (None, Int32(1), b"\x00\x00\x00\x01"),
        (None, 1, b"\x00\x00\x00\x00\x00\x00\x00\x01"),
        (Schema(Type.INT16), 258, b"\x01\x02"),
        (None, Float32(1.5), b"\x3f\xc0\x00\x00"),
        (None, 1.5, b"\x3f\xf8\x00\x00\x00\x00\x00\x00"),
        (None, Decimal("12.30"), b"\x00\x00\x00\x02\x04\xce"),
        (None, Decimal("-1.28"), b"\x00\x00\x00\x02\x80"),
        (None, Decimal("1.28"), b"\x00\x00\x00\x02\x00\x80"),
        (timestamp(), Instant(1), b"\x00\x00\x00\x00\x00\x00\x00\x01"),
        (None, "a", b"a"),
    ],
)
def test_binary(schema: Schema | None, value: object, wanted: bytes) -> None:
    assert as_binary(schema, value) == wanted


def test_what_cannot_be_written() -> None:
    for value in ("\ud800", object()):
        with pytest.raises(DataException):
            as_text(None, value)
    for value in (1 << 70, Decimal("NaN")):
        with pytest.raises(DataException) as caught:
            as_binary(None, value)
        assert str(1 << 70) not in str(caught.value)
