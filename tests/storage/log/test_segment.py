"""The largest timestamp of a segment by a few reads: right, or not at all."""

from collections.abc import Callable
from typing import Any

import pytest

from moldau.storage.files import MemoryFiles
from moldau.storage.log.log import LogConfig
from moldau.storage.log.segment import Segment, read_largest_timestamp

NOW = 1_700_000_000_000
MakeBatch = Callable[..., memoryview]


def sealed(make_node: Any, make_batch: MakeBatch, times: list[int], interval: int) -> Segment:
    node = make_node(MemoryFiles(), ["/data"])
    log = node.log(LogConfig(index_interval_bytes=interval))
    for time in times:
        log.append(make_batch(timestamp=NOW + time), 0, NOW)
    log.roll(NOW)
    node.restart()
    return node.log().segments.to_list()[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("interval", [0, 100, 4096])
@pytest.mark.parametrize("times", [[5], [1, 2, 3], [9, 1, 1, 1], [1, 9, 1, 8], [0] * 40, list(range(200))])
def test_the_largest(make_node: Any, make_batch: MakeBatch, times: list[int], interval: int) -> None:
    segment = sealed(make_node, make_batch, times, interval)
    largest = max(times)
    assert read_largest_timestamp(segment) == (NOW + largest, times.index(largest))
    assert not segment.is_loaded


def test_flips_anywhere_in_an_index(make_node: Any, make_batch: MakeBatch) -> None:
    segment = sealed(make_node, make_batch, [1, 9, 3, 4, 8, 2, 2, 2], 100)
    files = segment.files
    for suffix in (".timeindex", ".index"):
        path = segment.path(suffix)
        data = files.read_whole(path)
        for at in range(len(data)):
            for bit in range(8):
                changed = bytearray(data)
                changed[at] ^= 1 << bit
                files.write_atomically(path, bytes(changed))
                assert read_largest_timestamp(segment) in (None, (NOW + 9, 1))
        for size in range(len(data)):
            files.write_atomically(path, data[:size])
            assert read_largest_timestamp(segment) in (None, (NOW + 9, 1))
        files.remove(path)
        assert read_largest_timestamp(segment) is None
        files.write_atomically(path, data)
