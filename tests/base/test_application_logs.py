"""Six files, each with its own lines, rolled by size; as text and as JSON."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.base.application_logs import LOG_FILES, ApplicationLogs


@pytest.fixture(autouse=True)
def loud() -> Iterator[None]:
    """Whatever level other tests have left: the loggers of these tests say what they are told."""
    named = ("moldau.node", "moldau.cluster.controller", "moldau.state", "moldau.request")
    loggers = [
        logging.getLogger(name) for name in (*named, "moldau.storage.cleaner", "kafka.authorizer.logger")
    ]
    before = [(logger, logger.level, logger.disabled) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.INFO)
        logger.disabled = False
    yield
    for logger, level, disabled in before:
        logger.setLevel(level)
        logger.disabled = disabled


def test_each_line_is_in_its_file(tmp_path: Path) -> None:
    logs = ApplicationLogs(tmp_path / "logs", 100_000, 2)
    names = ("moldau.node", "moldau.cluster.controller", "moldau.state", "moldau.request")
    for name in (*names, "moldau.storage.cleaner", "kafka.authorizer.logger"):
        logging.getLogger(name).info("said by %s", name)
    logging.getLogger("moldau.node").info("two\nlines")
    logs.close()
    logging.getLogger("moldau.node").info("after the end")
    found = {each.name: (tmp_path / "logs" / each.name).read_text().splitlines() for each in LOG_FILES}
    assert [len(lines) for lines in found.values()] == [3, 1, 1, 1, 1, 1]
    assert found["server.log"][0].endswith("INFO said by moldau.node (moldau.node)")
    assert found["server.log"][2].startswith("    lines")
    assert "said by moldau.state" in found["state-change.log"][0]


def test_files_are_rolled_and_old_ones_go(tmp_path: Path) -> None:
    logs = ApplicationLogs(tmp_path, 2000, 2)
    for number in range(200):
        logging.getLogger("moldau.node").info("line %d with some more text in it", number)
    logs.close()
    files = sorted(each.name for each in tmp_path.glob("server.log*"))
    assert files == ["server.log", "server.log.1", "server.log.2"]
    assert all(each.stat().st_size <= 2000 for each in tmp_path.glob("server.log*"))
    assert "line 199" in (tmp_path / "server.log").read_text()


def test_json_lines(tmp_path: Path) -> None:
    logs = ApplicationLogs(tmp_path, 100_000, 1, as_json=True)
    try:
        raise ValueError("an error")
    except ValueError:
        logging.getLogger("moldau.node").exception('with "quotes"\nand lines')
    logs.close()
    (line,) = (tmp_path / "server.log").read_text().splitlines()
    entry = json.loads(line)
    assert (entry["level"], entry["logger"], entry["message"]) == (
        "ERROR",
        "moldau.node",
        'with "quotes"\nand lines',
    )
    assert "ValueError: an error" in entry["exception"]
