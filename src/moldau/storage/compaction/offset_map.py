"""The last offset of every key in the part of a log that is being compacted, in bounded memory.

Invariant: two keys are never taken for one. While there are few keys they are kept as they are; once they
take half of the memory they are replaced by their 128-bit hashes, as in Kafka, 24 bytes a key. Putting the
same key again replaces its offset; offsets come in ascending order.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

#: What a key costs in a dictionary beside its own bytes: the objects of key and offset, and the entry.
_EXACT_BYTES = 140
#: What a hashed key costs: 24 bytes, the spare room of a growing bucket, and a share of the bucket itself.
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
        #: Nothing beyond it was looked at when the map was built.
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
        """Each key with its offset; the later one counts where a key comes twice."""
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
        """What finds the last offset of a key, or None; good until the next ``put``."""
        return self._exact.get if self._hashed is None else self._hashed.get

    def has_none_of(self, keys: Iterable[bytes]) -> bool:
        if self._hashed is None:
            return self._exact.keys().isdisjoint(keys)
        get = self._hashed.get
        return all(get(key) is None for key in keys)

    def last_offsets(self) -> list[int] | None:
        """The offsets of all keys in ascending order; None where that would take too much memory."""
        return sorted(self._exact.values()) if self._hashed is None else None


class HashedKeys:
    """A table of buckets, each a run of hashes with their offsets that is searched at the speed of C."""

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
    """Where the entry of a hash begins; -1 if there is none."""
    at = bucket.find(digest)
    while at % _ENTRY.size and at >= 0:  # the same bytes across two entries
        at = bucket.find(digest, at + 1)
    return at
