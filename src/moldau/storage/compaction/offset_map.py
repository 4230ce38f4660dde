"""The last offset of every key in the dirty part of a log, in bounded memory.

While there are few keys, they are kept themselves; once they use half of the memory, they are replaced by
their 128-bit hashes, as in Kafka. Offsets come in ascending order; a later offset of a key replaces the
earlier one.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

#: Memory of a key in a dictionary without its own bytes: the objects of key and offset, and the entry.
_EXACT_BYTES = 140
#: Memory of a hashed key: 24 bytes, the spare space of a growing bucket, and a share of the bucket object.
_HASHED_BYTES = 40
_HASH_SIZE = 16
_ENTRY = struct.Struct(">16sq")
_OFFSET = struct.Struct(">q")
_KEYS_IN_A_BUCKET = 12


class OffsetMap:
    __slots__ = (
        "_exact",
        "_hashed",
        "_key_bytes",
        "_keys_seen",
        "_most",
        "_most_exact_bytes",
        "latest_offset",
    )

    def __init__(self, memory_bytes: int, load_factor: float = 0.9) -> None:
        #: The last offset that was read when the map was built.
        self.latest_offset = -1
        self._exact: dict[bytes, int] = {}
        self._hashed: HashedKeys | None = None
        self._most = max(1, int(memory_bytes * load_factor) // _HASHED_BYTES)
        self._most_exact_bytes = int(memory_bytes * load_factor) // 2
        self._keys_seen = 0
        self._key_bytes = 0

    def __len__(self) -> int:
        return len(self._exact) if self._hashed is None else len(self._hashed)

    def has_capacity_for(self, count: int) -> bool:
        return len(self) + count <= self._most

    def put(self, keys: Sequence[bytes], offsets: Iterable[int]) -> None:
        """Puts each key with its offset; a later offset replaces an earlier one."""
        if self._hashed is not None:
            self._hashed.put(keys, offsets)
            return
        self._exact.update(zip(keys, offsets, strict=True))
        self._keys_seen += len(keys)
        self._key_bytes += sum(map(len, keys))
        mean_size = self._key_bytes // max(1, self._keys_seen)
        if len(self._exact) * (_EXACT_BYTES + mean_size) > self._most_exact_bytes:
            self._hash_all()

    def _hash_all(self) -> None:
        self._hashed = hashed = HashedKeys(self._most)
        exact = self._exact
        while exact:
            key, offset = exact.popitem()
            hashed.put((key,), (offset,))
        self._exact = {}

    @property
    def get(self) -> Callable[[bytes], int | None]:
        """A function from a key to its last offset, or None; valid until the next ``put``."""
        return self._exact.get if self._hashed is None else self._hashed.get

    def has_none_of(self, keys: Iterable[bytes]) -> bool:
        if self._hashed is None:
            return self._exact.keys().isdisjoint(keys)
        get = self._hashed.get
        return all(get(key) is None for key in keys)

    def last_offsets(self) -> list[int] | None:
        """The offsets of all keys, ascending; None when keys are hashed, to save memory."""
        return sorted(self._exact.values()) if self._hashed is None else None


class HashedKeys:
    """A hash table whose buckets are byte strings of hashes and offsets, searched by ``bytearray.find``."""

    __slots__ = ("_buckets", "_mask", "_size")

    def __init__(self, most: int) -> None:
        count = 1 << max(0, (most // _KEYS_IN_A_BUCKET - 1).bit_length())
        self._buckets = [bytearray() for _ in range(count)]
        self._mask = count - 1
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, keys: Iterable[bytes], offsets: Iterable[int]) -> None:
        for key, offset in zip(keys, offsets, strict=True):
            digest = blake2b(key, digest_size=_HASH_SIZE).digest()
            bucket = self._buckets[int.from_bytes(digest[:4], "little") & self._mask]
            at = _search(bucket, digest)
            if at < 0:
                bucket += _ENTRY.pack(digest, offset)
                self._size += 1
            else:
                _OFFSET.pack_into(bucket, at + _HASH_SIZE, offset)

    def get(self, key: bytes) -> int | None:
        digest = blake2b(key, digest_size=_HASH_SIZE).digest()
        bucket = self._buckets[int.from_bytes(digest[:4], "little") & self._mask]
        at = _search(bucket, digest)
        if at < 0:
            return None
        offset: int = _OFFSET.unpack_from(bucket, at + _HASH_SIZE)[0]
        return offset


def _search(bucket: bytearray, digest: bytes) -> int:
    """The position of the entry of a hash; -1 if there is none."""
    at = bucket.find(digest)
    while at % _ENTRY.size and at >= 0:  # a match across two entries
        at = bucket.find(digest, at + 1)
    return at
