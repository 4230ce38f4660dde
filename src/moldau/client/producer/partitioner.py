"""Which partition a record goes to, as Kafka's Java client decides it.

A record with a key goes to ``murmur2(key)`` modulo the number of partitions, so that every client puts
a key in the same place. Records without a key fill one batch of a partition and then go on to the next.

Pure: the same key and count give the same partition, for ever.
"""

import struct
from functools import lru_cache

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_words = struct.Struct("<I").iter_unpack


@lru_cache(
    maxsize=65_536
)  # keys come back, and a hash of ten bytes in Python costs as much as the rest of a send
def murmur2(data: bytes) -> int:
    """The 32-bit hash that Kafka calls murmur2, as an unsigned number."""
    size = len(data)
    h = _SEED ^ size
    rest = size & 3
    for (k,) in _words(data[: size - rest]):
        k = k * _M & _MASK
        h = (h * _M ^ (k ^ k >> 24) * _M) & _MASK
    if rest:
        h = (h ^ int.from_bytes(data[-rest:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of(key: bytes, partition_count: int) -> int:
    """The partition of a key; the sign bit of the hash is dropped first, as in the Java client."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
