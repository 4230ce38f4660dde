from pathlib import Path

import pytest

from moldau.base.names import TopicPartition
from moldau.inspection.layout import NothingToRead, directories_out_of_use, find_target, read_partition
from moldau.storage.file_names import offset_of

ZEROS = "0" * 20


def test_a_data_directory(data_directory: Path) -> None:
    (data_directory / "notes.txt").write_text("x")
    (data_directory / f"gone-0.{'a' * 32}-delete").mkdir()
    (data_directory / f"old-0.{'a' * 32}-stray").mkdir()
    (data_directory / "__cluster_metadata-0").mkdir()
    target = find_target(data_directory)
    (partition,) = target.partitions
    assert target.root == target.path == data_directory
    assert partition.topic_partition == TopicPartition("orders", 0)
    assert partition.segments[0].next_base_offset == partition.segments[1].base_offset
    assert partition.segments[-1].is_last
    assert target.size == partition.size == sum(segment.size for segment in partition.segments)
    assert [name.rsplit("-")[-1] for name, _ in directories_out_of_use(data_directory)] == ["delete", "stray"]


def test_a_partition_and_a_file(data_directory: Path, tmp_path: Path) -> None:
    target = find_target(data_directory / "orders-0")
    assert target.root == data_directory
    assert len(target.partitions) == 1
    one = find_target(target.partitions[0].segments[1].path(".index"))
    (segment,) = one.partitions[0].segments
    assert segment.base_offset == target.partitions[0].segments[1].base_offset
    (data_directory / "orders-0").rename(tmp_path / "elsewhere")
    alone = find_target(tmp_path / "elsewhere")
    assert alone.root is None
    assert alone.partitions[0].topic_partition is None


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.log").write_bytes(b"")
    for name in ("missing", "empty", "file.log"):
        with pytest.raises(NothingToRead):
            find_target(tmp_path / name)


def test_what_is_out_of_use(tmp_path: Path) -> None:
    for name in (
        f"{ZEROS}.log",
        f"{ZEROS}.log.deleted",
        f"{ZEROS}.log.cleaned",
        f"{ZEROS}.log.swap",
        f"{ZEROS}.log.77.damaged",
        f"{ZEROS}.log.stray",
        "partition.metadata.tmp",
        f"{9:020d}.index",
        "README",
    ):
        (tmp_path / name).write_bytes(b"")
    partition = read_partition(tmp_path)
    assert len(list(partition.leftovers())) == 6
    assert partition.orphans() == [f"{9:020d}.index"]
    assert partition.unknown() == ["README"]
    assert offset_of("README") is None
