from pathlib import Path

import pytest

from moldau.cli.reports.log_charts import (
    bars,
    facts,
    hole_rows,
    partition_json,
    partition_row,
    plot,
    producer_rows,
)
from moldau.inspection.contents import HoleKind, PartitionView, ProducerView, SegmentView, SizesOverTime
from moldau.inspection.history import Hole

NOW = 1_700_000_000_000


def view(**changes: object) -> PartitionView:
    sizes = SizesOverTime()
    sizes.add(NOW, 4000)
    sizes.add(NOW + 3000, 1000)
    segment = SegmentView(0, 5000, True, batches=3, records=10, next_offset=10, min_timestamp=NOW)
    segment.batches_by_codec.update({"zstd": 2, "none": 1})
    made = PartitionView(
        *("orders-0", "/data/orders-0", bytes(16), [segment], [], [], [(0, 0), (1, 5)], 2, 1, 4, sizes),
        *(["x.deleted"], 0, 10, 10),
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_bars() -> None:
    lines = bars(view().sizes)
    assert lines[0] == f"2023-11-14 22:13:20  {'█' * 40}  3.9 KiB"
    assert lines[3].split() == ["2023-11-14", "22:13:23", "█" * 10, "1000", "B"]
    assert [line.split()[-2] for line in lines[1:3]] == ["0", "0"]
    assert bars(SizesOverTime()) == []
    little = SizesOverTime()
    little.add(0, 1)
    little.add(86_400_000 * 300, 10**6)
    assert bars(little)[0].split() == ["1970-01-01", "▏", "1", "B"]


def test_rows() -> None:
    row = partition_row(view())
    assert row[:6] == ["orders-0", "0–10", "10", 1, "4.9 KiB", "zstd, none"]
    assert row[-1] == "1 leftover(s)"
    told = facts(view())
    assert "leader epochs: 0 from 0, 1 from 5" in told
    assert "transactions: 2 committed, 1 aborted, 0 open" in told
    assert "compaction has taken records out of 4 batches" in told
    damaged = view()
    damaged.segments[0].sample.unreadable_batches = 3
    assert "3 of the sampled batches cannot be read" in facts(damaged)
    holes = [
        (Hole(5, 6, 0, False), HoleKind.COMPACTION),
        (Hole(8, 9, 0, True), HoleKind.MISSING_SEGMENT),
    ]
    assert [row[2] for row in hole_rows(view(holes=holes), 5)] == ["missing segment", "compaction"]
    producers = [
        ProducerView(1, 0, 1, 1, 0, 9, NOW, -1),
        ProducerView(2, 0, 1, 1, 0, 3, NOW, 3),
    ]
    assert [row[0] for row in producer_rows(view(producers=producers), 5)] == [2, 1]


def test_json() -> None:
    found = partition_json(view())
    assert (found["start_offset"], found["end_offset"], found["records"]) == (0, 10, 10)
    assert found["segments"][0]["codecs"]["zstd"] == {"batches": 2, "bytes": 0}
    assert found["sizes_over_time"][0] == {"from_ms": NOW, "width_ms": 1000, "bytes": 4000}


def test_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    wide = view(name="wide-0")
    wide.sizes.add(0, 10)
    plot([view(), wide, *(view(name=f"t-{n}") for n in range(15))], str(tmp_path / "sizes.png"))
    assert (tmp_path / "sizes.png").read_bytes().startswith(b"\x89PNG")
    plot([], str(tmp_path / "nothing.png"))
