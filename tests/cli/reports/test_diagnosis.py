import socket
from pathlib import Path

import pytest

from moldau.cli.reports.diagnosis import (
    check_crc_speed,
    check_disk,
    check_event_loop,
    check_library,
    check_open_files,
    check_port,
    check_python,
    examine_installation,
)
from moldau.reports.findings import Severity


def test_pythons() -> None:
    assert check_python((3, 13, 1), "cpython").severity is Severity.OK
    old = check_python((3, 10, 9), "cpython")
    assert old.severity is Severity.PROBLEM
    assert "3.11" in old.next_step
    assert check_python((3, 12, 0), "pypy").severity is Severity.WARNING


def test_libraries() -> None:
    assert check_library("crc32c", "checksums").severity is Severity.OK
    missing = check_library("no_such_library", "nothing")
    assert missing.severity is Severity.PROBLEM
    assert missing.next_step == "pip install --force-reinstall no_such_library"


def test_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_event_loop().severity is Severity.OK
    monkeypatch.setitem(__import__("sys").modules, "uvloop", None)
    assert check_event_loop().next_step == "pip install uvloop"


def test_checksums_that_are_slow() -> None:
    slow = iter([0.0, 10.0])
    finding = check_crc_speed(lambda: next(slow))
    assert finding.severity is Severity.WARNING
    fast = iter([0.0, 0.001])
    assert check_crc_speed(lambda: next(fast)).severity is Severity.OK


def test_limits() -> None:
    assert check_open_files(1024, 524288).severity is Severity.OK
    low = check_open_files(1024, 1024)
    assert low.severity is Severity.WARNING
    assert low.text.startswith("no more than 448 clients at once")
    assert "hard limit" in low.next_step
    assert check_open_files(65536, 65536).severity is Severity.OK
    assert check_open_files(-1, -1).severity is Severity.OK


def test_disks() -> None:
    assert check_disk(Path("/d"), 10 << 30).severity is Severity.OK
    assert check_disk(Path("/d"), 500 << 20).severity is Severity.WARNING
    assert check_disk(Path("/d"), 5 << 20).severity is Severity.PROBLEM


def test_ports() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        busy = check_port("127.0.0.1", port)
        assert busy.severity is Severity.WARNING
        assert str(port) in busy.next_step
    assert check_port("127.0.0.1", 0).severity is Severity.OK


def test_this_installation_is_in_order(tmp_path: Path) -> None:
    ticks = iter([0.0, 0.001])
    findings = list(examine_installation(lambda: next(ticks), tmp_path / "not" / "yet"))
    assert {f.severity for f in findings} <= {Severity.OK, Severity.WARNING}
    assert [f.subject for f in findings][:2] == ["python", "crc32c"]
