"""What a look into a directory tells of segments, producers, holes and times."""

from pathlib import Path
from typing import Any

import pytest

from moldau.inspection.contents import HoleKind, PartitionView, SizesOverTime, inspect, read_offsets
from moldau.inspection.layout import find_target
from moldau.protocol.records import Record, encode_batch

NOW = 1_700_000_000_000


def view_of(path: Path, **options: Any) -> PartitionView:
    target = find_target(path)
    (partition,) = target.partitions
    return inspect(partition, read_offsets(None if target.root is None else str(target.root)), **options)


def test_everything_of_a_partition(data_directory: Path) -> None:
    seen: list[int] = []
    view = view_of(data_directory, progress=seen.append)
    assert (view.start_offset, view.end_offset) == (0, 47)
    assert (view.records, view.batches, view.control_batches) == (44, 47, 3)
    assert (view.commits, view.aborts) == (2, 1)
    assert view.time_range == (NOW, NOW + 39 * 60_000)
    assert view.leader_epochs == [(0, 0), (1, 25)]
    assert (view.recovery_point, view.high_watermark, view.log_start_offset) == (47, 47, None)
    assert view.topic_id == bytes(range(16))
    assert view.codecs == {"none": 47}
    assert view.holes == []
    assert view.faults == []
    assert sum(seen) == view.size
    producers = {each.producer_id: each for each in view.producers}
    assert producers[0].batches == 14
    assert producers[7].open_transaction == 46
    assert [each.producer_id for each in view.open_transactions] == [7]
    assert len(view.segments) > 3
    assert all(segment.base_offset < segment.next_offset for segment in view.segments)


def test_samples_tell_of_compression_and_tombstones(tmp_path: Path) -> None:
    records = [Record(i, NOW, None if i == 1 else b"k", None if i < 5 else b"v" * 100, ()) for i in range(10)]
    from moldau.protocol.compression import Compression

    (tmp_path / f"{0:020d}.log").write_bytes(encode_batch(records, compression=Compression.ZSTD))
    view = view_of(tmp_path)
    sample = view.sample
    assert (sample.records, sample.tombstones, sample.without_key) == (10, 5, 1)
    assert sample.ratio is not None
    assert sample.ratio > 3
    assert view_of(tmp_path, sampled_batches=0).sample.batches == 0


def write(directory: Path, base_offset: int, *offsets: tuple[int, int]) -> None:
    """A segment with batches from the first to the last offset of each pair, one record each at the ends."""
    data = bytearray()
    for first, last in offsets:
        records = [Record(first, NOW, b"k", b"v", ())]
        if last > first:
            records.append(Record(last, NOW, b"k", b"v", ()))
        data += encode_batch(records, base_offset=first, last_offset_delta=last - first)
    (directory / f"{base_offset:020d}.log").write_bytes(data)


def kinds(view: PartitionView) -> list[tuple[int, int, HoleKind]]:
    return [(hole.first, hole.last, kind) for hole, kind in view.holes]


def test_a_missing_segment_is_no_compaction(tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    path.mkdir()
    write(path, 0, (0, 1), (2, 3))
    write(path, 10, (10, 11))
    assert kinds(view_of(path)) == [(4, 9, HoleKind.MISSING_SEGMENT)]
    assert view_of(path).faults == ["1 missing segment(s)", "2 bad index(es)"]
    # The cleaner has been there.
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 10\n")
    (tmp_path / "meta.properties").write_text("")
    assert kinds(view_of(path)) == [(4, 9, HoleKind.COMPACTION)]
    # But the index of a segment that it had not made is still there.
    (path / f"{6:020d}.index").write_bytes(b"")
    assert kinds(view_of(path)) == [(4, 9, HoleKind.MISSING_SEGMENT)]


def test_compaction_leaves_holes_inside(tmp_path: Path) -> None:
    write(tmp_path, 0, (0, 4), (9, 9))
    write(tmp_path, 20, (22, 23))
    view = view_of(tmp_path)
    assert kinds(view) == [
        (5, 8, HoleKind.COMPACTION),
        (10, 19, HoleKind.COMPACTION),
        (20, 21, HoleKind.COMPACTION),
    ]
    assert view.thinned_batches == 1
    (tmp_path / f"{0:020d}.log.77.damaged").write_bytes(b"")
    assert kinds(view_of(tmp_path))[0] == (5, 8, HoleKind.REPAIR)


def test_damage_is_named_and_passed(data_directory: Path) -> None:
    path = sorted((data_directory / "orders-0").glob("*.log"))[1]
    data = bytearray(path.read_bytes())
    data[16] = 9
    path.write_bytes(data)
    path.with_suffix(".index").write_bytes(b"abc")
    (data_directory / "orders-0" / "partition.metadata").write_text("?")
    view = view_of(data_directory)
    assert view.end_offset == 47
    assert view.holes == []
    assert view.topic_id is None
    assert view.faults == ["1 damaged place(s)", "1 bad index(es)"]
    assert len(view.segments[1].damage) == 1


class TestSizesOverTime:
    def test_buckets_become_wider(self) -> None:
        sizes = SizesOverTime()
        for at in range(5000):
            sizes.add(NOW + at * 1000, 3)
        assert sizes.width_ms == 10_000
        rows = sizes.rows(24)
        assert sum(size for _, size in rows) == 15_000
        assert 1 < len(rows) <= 24
        assert sizes.width_ms == 600_000

    def test_empty_buckets_are_shown(self) -> None:
        sizes = SizesOverTime()
        sizes.add(1_000, 1)
        sizes.add(4_000, 2)
        assert sizes.rows(10) == [(1000, 1), (2000, 0), (3000, 0), (4000, 2)]
        assert SizesOverTime().rows(10) == []

    @pytest.mark.parametrize("wide_first", [True, False])
    def test_merging(self, wide_first: bool) -> None:
        wide, narrow = SizesOverTime(), SizesOverTime()
        wide.add(0, 1)
        wide.add(10**12, 2)
        wide.rows(10)
        narrow.add(5_000, 4)
        first, second = (wide, narrow) if wide_first else (narrow, wide)
        first.merge(second)
        assert sum(size for _, size in first.rows(1000)) == 7

    def test_times_beyond_the_calendar(self) -> None:
        sizes = SizesOverTime()
        sizes.add(0, 1)
        sizes.add((1 << 63) - 1, 1)
        assert len(sizes.rows(24)) <= 24
