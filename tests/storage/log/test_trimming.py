"""The old end of a log: what need not be kept goes, segment by segment, and never what is not committed."""

from typing import Any

import pytest

from moldau.storage.log import trimming
from moldau.storage.log.config import LogConfig
from tests.storage.storage_fixtures import NOW, batch

SMALL = LogConfig(segment_bytes=150, retention_ms=1000, file_delete_delay_ms=5000)
LATER = NOW + 60_000


@pytest.fixture
def log(node: Any) -> Any:
    """Six segments of one record each."""
    log = node.log(SMALL)
    for _ in range(6):
        log.append(batch(size=60, timestamp=NOW), 0, NOW)
    assert len(log.segments) == 6
    return log


def test_what_is_too_old_goes(log: Any) -> None:
    assert not trimming.expire_segments(log, log.log_end_offset, NOW)
    assert log.log_start_offset == 0
    trimming.expire_segments(log, log.log_end_offset, LATER)
    assert log.log_start_offset == 6
    assert trimming.has_old_segments(log)
    assert trimming.delete_old_segments(log, LATER) == 6
    assert not trimming.has_old_segments(log)


def test_only_so_many_at_a_time(log: Any) -> None:
    assert trimming.expire_segments(log, log.log_end_offset, LATER, most=2), "there may be more"
    assert log.log_start_offset == 2


def test_what_is_not_committed_stays(log: Any) -> None:
    trimming.expire_segments(log, 3, LATER)
    assert log.log_start_offset == 3


def test_files_are_renamed_first_and_removed_later(log: Any, node: Any) -> None:
    trimming.expire_segments(log, 2, LATER)
    job = trimming.begin_drop(log)
    assert job is not None
    job.run()
    trimming.finish_drop(log, job, LATER)
    names = node.files.list_directory(log.directory)
    assert "00000000000000000000.log" not in names
    assert "00000000000000000000.log.deleted" in names
    node.logs.step(LATER + SMALL.file_delete_delay_ms + 1)
    assert "00000000000000000000.log.deleted" not in node.files.list_directory(log.directory)
