"""Kafka's names for the files of a partition."""

from moldau.storage.file_names import LOG_SUFFIX, file_name, snapshot_offsets, snapshot_path


def test_names_have_twenty_digits() -> None:
    assert file_name(0, LOG_SUFFIX) == "00000000000000000000.log"
    assert file_name(1_234_567_890_123, ".index") == "00000001234567890123.index"
    assert sorted([file_name(10, LOG_SUFFIX), file_name(9, LOG_SUFFIX)])[0] == file_name(9, LOG_SUFFIX)


def test_snapshots_are_found_among_other_files() -> None:
    path = snapshot_path("/data/t-0", 42)
    assert path == "/data/t-0/00000000000000000042.snapshot"
    names = [path.rpartition("/")[2], "00000000000000000042.log", "x.snapshot", "partition.metadata"]
    assert snapshot_offsets(names) == [42]
