import pytest

from moldau.client.producer.partitioner import murmur2, partition_of


def signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


@pytest.mark.parametrize(
    ("key", "hash_"),
    [
        # What the Java client's Utils.murmur2 gives.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 275646681),
    ],
)
def test_murmur2_is_the_java_clients(key: bytes, hash_: int) -> None:
    assert signed(murmur2(key)) == hash_


def test_the_sign_bit_is_dropped_before_the_modulo() -> None:
    assert partition_of(b"21", 7) == (-973932308 & 0x7FFFFFFF) % 7


def test_every_key_has_a_place() -> None:
    places = {partition_of(str(n).encode(), 12) for n in range(500)}
    assert places == set(range(12))
