"""CRC-32C, by the known answers."""

import pytest

from moldau.protocol.checksum import crc32c


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
    ],
)
def test_known_answers(data: bytes, expected: int) -> None:
    for buffer in (data, bytearray(data), memoryview(data)):
        assert crc32c(buffer) == expected


def test_it_goes_on_where_it_ended() -> None:
    assert crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")
