"""One entry of ``log.dirs``: names of directories, and checkpoints of which the latest decision counts."""

import pytest

from moldau.base.names import TopicPartition
from moldau.storage.directory.log_directory import (
    DELETE_SUFFIX,
    LogDirectory,
    new_id,
    parse_directory_name,
    renamed,
)
from moldau.storage.memory_files import MemoryFiles

PARTITION = TopicPartition("orders", 3)
CHECKPOINT = "recovery-point-offset-checkpoint"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-3", PARTITION),
        ("my-orders-0", TopicPartition("my-orders", 0)),
        ("orders", None),
        ("-3", None),
        ("bad name-0", None),
        ("__cluster_metadata-0", None),
        (f"orders-3.{'0' * 32}{DELETE_SUFFIX}", None),
    ],
)
def test_names_of_directories(name: str, expected: TopicPartition | None) -> None:
    assert parse_directory_name(name) == expected


def test_a_directory_out_of_use_keeps_a_name_that_a_disk_takes() -> None:
    unique = "0" * 32
    assert renamed(PARTITION, unique, DELETE_SUFFIX) == f"orders-3.{unique}-delete"
    long = renamed(TopicPartition("t" * 249, 10), unique, DELETE_SUFFIX)
    assert len(long) == 255
    assert long.endswith(f"-10.{unique}-delete")
    assert parse_directory_name(long) is None


def test_ids_never_begin_with_a_dash() -> None:
    files = MemoryFiles()
    assert not any(new_id(files).startswith("-") for _ in range(200))


def test_the_checkpoint_that_was_decided_later_wins() -> None:
    files = MemoryFiles()
    files.make_directory("/data")
    directory = LogDirectory(files, "/data")
    early, late = directory.next_checkpoint(), directory.next_checkpoint()
    directory.write_checkpoint(CHECKPOINT, {PARTITION: 9}, late)
    directory.write_checkpoint(CHECKPOINT, {PARTITION: 5}, early)
    found = LogDirectory(files, "/data")
    found.read_checkpoints()
    assert found.recovery_points == {PARTITION: 9}


def test_a_checkpoint_that_was_changed_by_somebody_else_is_ignored() -> None:
    files = MemoryFiles()
    files.make_directory("/data")
    directory = LogDirectory(files, "/data")
    directory.write_checkpoint(CHECKPOINT, {PARTITION: 9}, directory.next_checkpoint())
    files.write_atomically(f"/data/{CHECKPOINT}", b"0\n1\norders 3 7\n")
    found = LogDirectory(files, "/data")
    found.read_checkpoints()
    assert found.recovery_points == {}
