"""What the directory of a real Kafka says of its cluster."""

import shutil
from pathlib import Path

import pytest

from moldau.cluster.records import ResourceType
from moldau.importing.metadata import ImportFailed, read_kraft_cluster, read_metadata


def test_the_metadata_log_of_kafka(kafka_directory: Path) -> None:
    metadata = read_metadata(kafka_directory)
    assert metadata is not None
    assert metadata.origin == "__cluster_metadata-0"
    partitions = {name: sorted(topic.leader_epochs) for name, topic in metadata.topics.items()}
    assert partitions == {
        "orders": [0, 1, 2],
        "payments": [0],
        "clicks": [0],
        "__consumer_offsets": [0, 1, 2],
        "__transaction_state": [0, 1],
    }
    assert metadata.configs[ResourceType.TOPIC, "orders"]["retention.ms"] == "-1"
    assert metadata.configs[ResourceType.TOPIC, "clicks"]["cleanup.policy"] == "compact"
    assert metadata.configs[ResourceType.BROKER, ""] == {"min.insync.replicas": "1"}
    assert metadata.left_out == {"SCRAM credentials": 1}
    assert metadata.next_producer_id == 1000


def test_with_and_without_snapshots_it_is_the_same(kafka_directory: Path) -> None:
    directory = kafka_directory / "__cluster_metadata-0"
    with_snapshots = read_kraft_cluster(directory)
    snapshots = sorted(directory.glob("*.checkpoint"))
    assert len(snapshots) > 3
    for snapshot in reversed(snapshots):
        snapshot.unlink()
        assert read_kraft_cluster(directory) == with_snapshots


def test_a_damaged_metadata_log(kafka_directory: Path) -> None:
    for path in (kafka_directory / "__cluster_metadata-0").glob("*.log"):
        data = bytearray(path.read_bytes())
        data[-5] ^= 1
        path.write_bytes(data)
    with pytest.raises(ImportFailed, match="Move the directory away"):
        read_metadata(kafka_directory)
    shutil.rmtree(kafka_directory / "__cluster_metadata-0")
    assert read_metadata(kafka_directory) is None


def test_a_damaged_database_of_ours(tmp_path: Path) -> None:
    (tmp_path / "metadata.sqlite").write_bytes(b"this is no database" * 100)
    with pytest.raises(ImportFailed, match=str(tmp_path)):
        read_metadata(tmp_path)
