"""The metadata hash by which a consumer group detects that its topics have changed, as Kafka 4.3 computes it.

A topic is hashed by its id, name and partitions, and a group by the hashes of its topics in the order of
their names. The hash is XXH3 with 64 bits and no seed, implemented here because no dependency of the broker
has it. It runs when topics or subscriptions change, never on the data path.

Invariant: the same topics give the same hash in every release, because it is stored in the log.
"""

from collections.abc import Mapping
from struct import Struct, pack, unpack

from moldau.base.names import Uuid

_64 = (1 << 64) - 1
_32 = (1 << 32) - 1
_PRIME32_1, _PRIME32_2, _PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME64_1, _PRIME64_2, _PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_PRIME64_4, _PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_PRIME_MX1, _PRIME_MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25

#: The default secret of XXH3, from its specification.
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE = 64
_EIGHT = Struct("<8Q")


def _u64(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 8], "little")


def _u32(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 4], "little")


def _fold(left: int, right: int) -> int:
    product = left * right
    return (product & _64) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * _PRIME_MX1 & _64
    return value ^ value >> 32


def _xxh64_avalanche(value: int) -> int:
    value ^= value >> 33
    value = value * _PRIME64_2 & _64
    value ^= value >> 29
    value = value * _PRIME64_3 & _64
    return value ^ value >> 32


def _mix(data: bytes, position: int, secret: int) -> int:
    return _fold(
        _u64(data, position) ^ _u64(_SECRET, secret), _u64(data, position + 8) ^ _u64(_SECRET, secret + 8)
    )


def xxh3_64(data: bytes) -> int:
    """The hash of any bytes, as an unsigned number."""
    size = len(data)
    if size <= 16:
        return _up_to_16(data, size)
    if size <= 128:
        total = size * _PRIME64_1
        for pair in range((size - 1) // 32, -1, -1):
            total += _mix(data, 16 * pair, 32 * pair) + _mix(data, size - 16 * (pair + 1), 32 * pair + 16)
        return _avalanche(total & _64)
    if size <= 240:
        return _up_to_240(data, size)
    return _long(data, size)


def _up_to_16(data: bytes, size: int) -> int:
    if size > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((size + swapped + high + _fold(low, high)) & _64)
    if size >= 4:
        value = _u32(data, size - 4) + (_u32(data, 0) << 32)
        value ^= _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        value ^= ((value << 49 | value >> 15) ^ (value << 24 | value >> 40)) & _64
        value = value * _PRIME_MX2 & _64
        value ^= (value >> 35) + size
        value = value * _PRIME_MX2 & _64
        return value ^ value >> 28
    if size:
        value = data[size >> 1] << 24 | data[0] << 16 | size << 8 | data[-1]
        return _xxh64_avalanche(value ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _xxh64_avalanche(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _up_to_240(data: bytes, size: int) -> int:
    total = size * _PRIME64_1
    for block in range(8):
        total += _mix(data, 16 * block, 16 * block)
    total = _avalanche(total & _64)
    for block in range(8, size // 16):
        total += _mix(data, 16 * block, 16 * (block - 8) + 3)
    total += _mix(data, size - 16, 136 - 17)
    return _avalanche(total & _64)


def _accumulate(accumulators: list[int], data: bytes, position: int, secret: int) -> None:
    lanes = _EIGHT.unpack_from(data, position)
    keys = _EIGHT.unpack_from(_SECRET, secret)
    for index in range(8):
        keyed = lanes[index] ^ keys[index]
        accumulators[index ^ 1] += lanes[index]
        accumulators[index] += (keyed & _32) * (keyed >> 32)
    for index in range(8):
        accumulators[index] &= _64


def _scramble(accumulators: list[int]) -> None:
    keys = _EIGHT.unpack_from(_SECRET, len(_SECRET) - _STRIPE)
    for index in range(8):
        value = accumulators[index]
        accumulators[index] = (value ^ value >> 47 ^ keys[index]) * _PRIME32_1 & _64


def _long(data: bytes, size: int) -> int:
    accumulators = [
        _PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1,
    ]  # fmt: skip
    in_block = (len(_SECRET) - _STRIPE) // 8
    for stripe in range((size - 1) // _STRIPE):
        _accumulate(accumulators, data, stripe * _STRIPE, stripe % in_block * 8)
        if stripe % in_block == in_block - 1:
            _scramble(accumulators)
    _accumulate(accumulators, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = size * _PRIME64_1
    for pair in range(4):
        keys = _u64(_SECRET, 11 + 16 * pair), _u64(_SECRET, 19 + 16 * pair)
        total += _fold(accumulators[2 * pair] ^ keys[0], accumulators[2 * pair + 1] ^ keys[1])
    return _avalanche(total & _64)


# --- topics and groups --------------------------------------------------------------------------


def _text(value: str) -> bytes:
    data = value.encode("utf-16-le", "surrogatepass")
    return data + pack("<i", len(data) // 2)


def topic_hash(name: str, topic_id: Uuid, partitions: int) -> int:
    """Kafka also hashes the racks of the replicas where brokers have racks; no assignor uses them yet."""
    head = b"\0" + topic_id[7::-1] + topic_id[:7:-1] + _text(name)
    return xxh3_64(head + pack(f"<{partitions + 1}i", partitions, *range(partitions)))


def group_hash(topics: Mapping[str, int]) -> int:
    """The hash of topics by name and hash: a signed number, as it is stored, and 0 without topics."""
    if not topics:
        return 0
    data = b"".join(pack("<Q", topics[name]) for name in sorted(topics))
    (signed,) = unpack("<q", pack("<Q", xxh3_64(data)))
    return int(signed)
