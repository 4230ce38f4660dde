"""No checksum covers offsets: one that its neighbours contradict is damage, a gap is not."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from moldau.protocol.records import Record, read_header
from moldau.storage.files import MemoryFiles
from moldau.storage.log.log import Log, LogConfig
from moldau.storage.log.scan import Damage, scan

NOW = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)

MakeBatch = Callable[..., memoryview]
ReadAll = Callable[[Log], list[Record]]


def file_of(make_batch: MakeBatch, offsets: list[int]) -> Any:
    """A file with batches of two records at these offsets."""
    files = MemoryFiles()
    file = files.create("/x.log")
    for offset in offsets:
        batch = make_batch(2)
        struct.pack_into(">q", batch, 0, offset)
        file.append(batch)
    return file


def offsets_of(file: Any, next_base_offset: int | None = None) -> list[int | str]:
    """The offsets that are believed, and last what is said of the first that is not."""
    return [
        found.reason if isinstance(found, Damage) else found[1].base_offset
        for found in scan(file, 0, next_base_offset)
    ]


@pytest.mark.parametrize("offsets", [[0, 2, 4], [0, 10, 12], [5, 7, 100], [0, 2, 50], [0, 7, 20, 40]])
def test_holes_are_believed(make_batch: MakeBatch, offsets: list[int]) -> None:
    assert offsets_of(file_of(make_batch, offsets)) == offsets


@pytest.mark.parametrize(
    ("offsets", "believed"),
    [([0, 2 + 256, 4, 6], [0]), ([1 << 20, 2, 4], []), ([0, 2, 5, 6, 8], [0, 2]), ([0, 90, 40, 50], [0])],
)
def test_an_offset_that_cannot_be_true(
    make_batch: MakeBatch, offsets: list[int], believed: list[int]
) -> None:
    *found, reason = offsets_of(file_of(make_batch, offsets))
    assert found == believed
    wrong, following = offsets[len(believed) : len(believed) + 2]
    assert reason == f"offset {wrong} cannot be true, as {following} follows"


def test_what_follows_must_be_whole_to_be_a_witness(make_batch: MakeBatch) -> None:
    file = file_of(make_batch, [0, 90, 4])
    data = bytearray(file.read(0, file.size))
    data[-1] ^= 1
    file.truncate(0)
    file.append(data)
    assert offsets_of(file) == [0, 90, "offset 4 after 91"]
    file.truncate(file.size - 5)
    assert offsets_of(file)[:2] == [0, 90]
    file.truncate(file.size - 60)
    assert offsets_of(file)[:2] == [0, 90]


def test_a_segment_ends_before_the_next_begins(make_batch: MakeBatch) -> None:
    file = file_of(make_batch, [0, 2, 4])
    assert offsets_of(file, 6) == [0, 2, 4]
    assert offsets_of(file, 5) == [0, 2, "offset 5 is not below 5, where the segment must end"]


def test_recovery_serves_no_batch_at_a_wrong_offset(
    make_node: Any, make_batch: MakeBatch, read_all: ReadAll
) -> None:
    """Of sealed segments and of the last; what is behind it is cut or put aside, as with other damage."""
    files = MemoryFiles()
    log = make_node(files, ["/data"]).log(SMALL)
    for at in range(12):
        log.append(make_batch(2, timestamp=NOW + at), 0, NOW)
    segments = [info.path for info in log.segments_info()]
    assert len(segments) > 2
    places = [(path, place) for path in segments for place in places_of(files.read_whole(path))]
    assert len(places) == 12
    for path, (position, true) in places[:-1]:  # nothing contradicts the last batch of all
        disk = files.after_kill()
        file = disk.open(path)
        data = bytearray(file.read(0, file.size))
        struct.pack_into(">q", data, position, true + 4096)
        file.truncate(0)
        file.append(data)
        again = make_node(disk, ["/data"]).log()
        assert again.log_end_offset == true
        assert [record.offset for record in read_all(again)] == list(range(true))


def places_of(data: bytes) -> list[tuple[int, int]]:
    """Position and offset of each batch."""
    found, position = [], 0
    while position < len(data):
        header = read_header(data, position)
        found.append((position, header.base_offset))
        position += header.size
    return found
