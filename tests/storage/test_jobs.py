"""Work on files that runs elsewhere: what it leaves, and what it says when the disk refuses."""

import logging

import pytest

from moldau.storage.jobs import FileRemovalJob, RemovalJob
from moldau.storage.memory_files import MemoryFiles


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory("/data")
    files.make_directory("/data/t-0")
    for name in ("a", "b"):
        files.create(f"/data/t-0/{name}").append(b"x")
    return files


def test_a_partition_is_removed_with_all_that_is_in_it(files: MemoryFiles) -> None:
    RemovalJob(files, "/data/t-0").run()
    assert files.list_directory("/data") == []


def test_what_cannot_be_removed_is_told_and_left(
    files: MemoryFiles, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        RemovalJob(files, "/data/none").run()
    assert "/data/none cannot be removed" in caplog.text


def test_files_that_are_gone_already_are_no_trouble(
    files: MemoryFiles, caplog: pytest.LogCaptureFixture
) -> None:
    FileRemovalJob(files, ["/data/t-0/none", "/data/t-0/a"]).run()
    assert files.list_directory("/data/t-0") == ["b"]
    assert not caplog.records
