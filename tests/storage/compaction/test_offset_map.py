"""The map of compaction: exact while it is small, bounded when it is not, and never wrong."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.storage.compaction.offset_map import HashedKeys, OffsetMap

keys = st.lists(st.binary(max_size=4), max_size=300)


@pytest.mark.slow
@given(keys, st.sampled_from([0, 300, 3000, 1 << 20]), st.integers(1, 40))
def test_as_a_dictionary(sequence: list[bytes], memory: int, step: int) -> None:
    found = OffsetMap(memory)
    expected: dict[bytes, int] = {}
    for start in range(0, len(sequence), step):
        part = sequence[start : start + step]
        found.put(part, range(start, start + len(part)))
        expected.update(zip(part, range(start, start + len(part)), strict=True))
    assert len(found) == len(expected)
    assert {key: found.get(key) for key in expected} == expected
    assert found.get(b"not there") is None
    assert found.has_none_of([b"not there", b"neither"])
    assert found.has_none_of([b"not there", *sequence[:1]]) is (not sequence)
    offsets = found.last_offsets()
    assert offsets is None or offsets == sorted(expected.values())


def test_memory_decides() -> None:
    found = OffsetMap(100_000, load_factor=0.5)
    assert found.has_capacity_for(1000)
    assert not found.has_capacity_for(2000)
    found.put([b"%d" % number for number in range(100)], range(100))
    assert found.last_offsets() is not None
    found.put([b"%d" % number for number in range(100, 1000)], range(100, 1000))
    assert found.last_offsets() is None, "there were too many keys to keep them as they are"
    assert [found.get(b"%d" % number) for number in range(1000)] == list(range(1000))
    assert not found.has_capacity_for(1000)


def test_long_keys_count() -> None:
    found = OffsetMap(1_000_000)
    found.put([b"k" * 10_000 + b"%d" % number for number in range(50)], range(50))
    assert found.last_offsets() is None


def test_hashes_across_entries() -> None:
    """The bytes of a hash may stand between two entries by chance; they are no entry."""
    table = HashedKeys(10)
    numbers = random.Random(3)
    for number in range(3000):
        table.put((b"%d" % number,), (numbers.getrandbits(62),))
    assert len(table) == 3000
    bucket = table._buckets[0]
    digest = bytes(bucket[24 + 5 : 24 + 21])
    from moldau.storage.compaction.offset_map import _search

    assert _search(bucket, digest) == -1
    assert _search(bucket, bytes(bucket[48:64])) == 48
