"""The log of a service is bounded, and a full disk is noted and survived."""

import os
from pathlib import Path

import pytest

from moldau.cli.up import log_file
from moldau.cli.up.log_file import LogFile


def test_lines_are_there_at_once(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "a.log")
    log.write(b"one\n")
    assert log.path.read_bytes() == b"one\n"
    assert log.problem is None
    log.close()
    log.close()


def test_a_full_log_is_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "MAX_LOG_BYTES", 6)
    log = LogFile(tmp_path / "a.log")
    for line in (b"one\n", b"two\n", b"three\n", b"four\n"):
        log.write(line)
    log.close()
    assert (tmp_path / "a.log.1").read_bytes() == b"three\n"
    assert log.path.read_bytes() == b"four\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has a device that is always full")
def test_a_full_disk() -> None:
    log = LogFile(Path("/dev/full"))
    log.write(b"one\n")
    assert log.problem == "No space left on device"
    log.close()


def test_a_file_that_cannot_be_made_is_tried_again(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "there" / "a.log")
    assert log.problem == "No such file or directory"
    log.write(b"one\n")
    assert log.problem == "No such file or directory"
    (tmp_path / "there").mkdir()
    log.write(b"two\n")
    assert log.problem is None
    assert log.path.read_bytes() == b"two\n"
    log.close()
