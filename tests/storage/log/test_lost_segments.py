"""Segments that are gone from the middle of a log, or have changed places: named, and never served as if
nothing were.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.storage.files import Files
from moldau.storage.log.log import Log, LogConfig
from moldau.storage.log.lost_segments import orphaned_indexes

NOW = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


@pytest.fixture
def filled(node: Any, make_batch: Callable[..., memoryview]) -> Any:
    """A log of five segments or more, stopped in order."""
    log = node.log(SMALL)
    while len(log.segments) < 5:
        log.append(make_batch(), 0, NOW)
    node.log_end_offset = log.log_end_offset
    node.bases = [segment.base_offset for segment in log.segments]
    node.logs.close()
    return node


def names_of(files: Files, directory: str, base_offset: int) -> list[str]:
    return [name for name in files.list_directory(directory) if name.startswith(f"{base_offset:020d}")]


def failure(node: Any) -> str:
    node.start()
    (reason,) = node.logs.failed.values()
    return str(reason)


@pytest.fixture(params=["the log file", "all but the snapshot"])
def gone(request: pytest.FixtureRequest, filled: Any, directory: str) -> str:
    """The third segment, or its log file, is not there; returns what is left of it."""
    partition = f"{directory}/orders-0"
    names = names_of(filled.files, partition, filled.bases[2])
    removed = [name for name in names if name.endswith(".log") or request.param != "the log file"]
    for name in removed:
        if not name.endswith(".snapshot"):
            filled.files.remove(f"{partition}/{name}")
    return ", ".join(names_of(filled.files, partition, filled.bases[2]))


def test_a_segment_that_is_gone(filled: Any, gone: str, directory: str) -> None:
    for _ in range(2):
        reason = failure(filled)
        assert "is gone, though" in reason
        assert "moldau.accept.lost.files=true" in reason
        assert ", ".join(names_of(filled.files, f"{directory}/orders-0", filled.bases[2])) == gone
        filled.logs.close()


def test_a_hole_that_is_accepted(filled: Any, gone: str, caplog: pytest.LogCaptureFixture) -> None:
    from moldau.storage.directory.logs import Logs

    logs = Logs(
        filled.files,
        filled.directories,
        1,
        None,
        filled.clock,
        config_of=lambda topic: SMALL,
        accept_lost_files=True,
    )
    logs.open()
    (log,) = logs
    assert log.log_end_offset == filled.log_end_offset
    piece = log.read(filled.bases[2], 1000, log.log_end_offset, at_least_one=True)
    assert piece is not None
    assert piece.read()[:8] == filled.bases[3].to_bytes(8, "big")
    assert "the log is served without it" in caplog.text
    logs.close()
    filled.start()
    assert not filled.logs.failed, "it was accepted"
    check_of(filled.logs)
    assert f"offsets {filled.bases[2]} to {filled.bases[3] - 1} are in no segment" in caplog.text


def check_of(logs: Any) -> Log:
    (log,) = logs
    check = logs.sealed_check(log)
    check.run()
    check.report(log)
    assert isinstance(log, Log)
    return log


def test_nothing_is_found_where_nothing_is_missing(filled: Any, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        filled.start()
        assert not filled.logs.failed
        assert check_of(filled.logs).offline is None
        filled.logs.close()
    assert "ERROR" not in caplog.text


def test_a_snapshot_of_the_last_stop_is_not_suspicious(
    filled: Any, make_batch: Callable[..., memoryview]
) -> None:
    """It stands in the middle of a segment once more was appended."""
    for _ in range(3):
        filled.start()
        log = filled.log()
        log.append(make_batch(), 0, NOW)
        filled.logs.close()
    filled.start()
    log = filled.log()
    for _ in range(30):
        log.append(make_batch(), 0, NOW)
    filled.logs.close()
    filled.start()
    assert not filled.logs.failed


@pytest.mark.parametrize("what", [(".log",), (".log", ".index", ".timeindex")])
def test_segments_that_changed_places(
    filled: Any, directory: str, what: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    partition, files = f"{directory}/orders-0", filled.files
    first, second = filled.bases[1], filled.bases[2]
    for suffix in what:
        one, other = f"{partition}/{first:020d}{suffix}", f"{partition}/{second:020d}{suffix}"
        files.rename(one, f"{partition}/aside")
        files.rename(other, one)
        files.rename(f"{partition}/aside", other)
    filled.start()
    (log,) = filled.logs
    for offset in (first, first + 1, second):
        with pytest.raises(KafkaError) as caught:
            log.read(offset, 1000, log.log_end_offset, at_least_one=True)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert log.read(0, 1000, log.log_end_offset, at_least_one=True) is not None
    assert check_of(filled.logs).offline is not None
    assert f"it begins with offset {second}, which belongs into another segment" in caplog.text
    assert f"moldau log verify {partition}" in caplog.text


def test_a_segment_that_reaches_into_the_next(filled: Any, directory: str) -> None:
    partition, files = f"{directory}/orders-0", filled.files
    one, other = (f"{partition}/{base:020d}.log" for base in filled.bases[1:3])
    files.open(one).append(files.read_whole(other))
    filled.start()
    assert "the next segment begins at" in str(check_of(filled.logs).offline)


def test_indexes_that_a_deletion_left(filled: Any, directory: str, caplog: pytest.LogCaptureFixture) -> None:
    partition, files = f"{directory}/orders-0", filled.files
    files.remove(f"{partition}/{0:020d}.log")
    filled.start()
    assert not filled.logs.failed
    assert not files.exists(f"{partition}/{0:020d}.index")
    assert "belongs to no segment and is removed" in caplog.text


def test_orphans(tmp_path: Path) -> None:
    names = [f"{1:020d}.log", f"{1:020d}.index", f"{2:020d}.index", "other.index"]
    assert orphaned_indexes(names) == [f"{2:020d}.index"]


@pytest.mark.parametrize("junk", [b"\x00" * 30, b"\x00" * 3000, b"no batch at all " * 40, "a batch again"])
def test_junk_behind_the_last_batch_after_a_clean_stop(
    filled: Any, directory: str, junk: bytes | str, caplog: pytest.LogCaptureFixture, read_all: Any
) -> None:
    """It is cut off, as after a kill: the stop has noted where the log ends."""
    partition, files = f"{directory}/orders-0", filled.files
    path = f"{partition}/{filled.bases[-1]:020d}.log"
    content = files.read_whole(path)
    files.open(path).append(content if isinstance(junk, str) else junk)
    filled.start()
    assert not filled.logs.failed
    log = filled.log()
    assert log.log_end_offset == filled.log_end_offset
    assert len(read_all(log)) == filled.log_end_offset
    assert files.read_whole(path) == content
    assert "bytes dropped" in caplog.text


def test_damage_before_the_end_is_not_cut(filled: Any, directory: str) -> None:
    partition, files = f"{directory}/orders-0", filled.files
    path = f"{partition}/{filled.bases[-1]:020d}.log"
    content = files.read_whole(path)
    files.open(path).truncate(len(content) - 3)
    assert "moldau log verify" in failure(filled)
    assert files.read_whole(path) == content[:-3]
