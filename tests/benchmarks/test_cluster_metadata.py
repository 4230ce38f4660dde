"""The small reader of Metadata answers, against our own encoder; and the document of a run."""

import struct
from pathlib import Path
from typing import Any

import pytest

from benchmarks.clusters.metadata import PartitionView, parse
from moldau.protocol.codec import encode
from moldau.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def test_an_answer() -> None:
    partitions = [
        MetadataResponsePartition(
            partition_index=number, leader_id=leader, replica_nodes=[1, 2, 3], isr_nodes=isr
        )
        for number, leader, isr in ((0, 2, [2, 3]), (1, -1, []))
    ]
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=1, host="a", port=9092, rack=None),
            MetadataResponseBroker(node_id=2, host="bb", port=9093, rack="r"),
        ],
        controller_id=1,
        topics=[MetadataResponseTopic(name="t", partitions=partitions)],
    )
    view = parse(struct.pack(">i", 1) + bytes(encode(response, 1)))
    assert view.brokers == {1: 9092, 2: 9093}
    assert view.topics == {"t": {0: PartitionView(2, (1, 2, 3), (2, 3)), 1: PartitionView(-1, (1, 2, 3), ())}}
    assert view.led_by(2, "t") == [0]
    assert not view.is_whole(2)


def test_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A floor that is missed gets a place for a note; an answer of nothing at all has no ratio."""
    pytest.importorskip("matplotlib")
    from benchmarks import cluster

    monkeypatch.setattr(cluster, "DOCS", tmp_path)
    samples: dict[str, Any] = {
        "cluster-start": {"kafka": [10.0], "moldau": [9.0]},
        "shutdown-errors": {"kafka": [0], "moldau": [0]},
    }
    run = {"date": "2026-01-01 00:00", "minutes": 1, "figures": 2, "load average before": "0.1"}
    cluster._write_document(
        {"quick": False, "machine": {"processor": "X"}, "samples": samples, "runs": [run]}
    )
    text = (tmp_path / "benchmarks-cluster.md").read_text()
    assert "| start of three brokers to the first write (s) | 10 | 9 | 0.90× | ≤ 0.15 |" in text
    assert (
        "| errors at a producer meanwhile (records) | 0 | 0 |  | ≤ 0 records (own) |  | floor met |" in text
    )
    assert "### start of three brokers to the first write: 0.90× (floor 0.15; below the floor)" in text
    assert (tmp_path / "benchmarks-cluster.png").exists()
    assert "## cluster-start" in (tmp_path / "benchmarks-cluster-notes.md").read_text()
