"""Levels of loggers: what follows a name, and what counts as a change."""

import logging
from collections.abc import Iterator

import pytest

from moldau.base.clock import SystemClock
from moldau.connect.worker.loggers import Loggers
from moldau.connect.worker.state import StateRecord, level_of, levelled


@pytest.fixture
def loggers() -> Iterator[Loggers]:
    """Levels of all loggers are as before after the test."""
    found = Loggers(SystemClock())
    root, before = logging.getLogger(), logging.getLogger().level
    levels = {name: logging.getLogger(name).level for name in found.names()}
    yield found
    root.setLevel(before)
    for name in found.names():
        logging.getLogger(name).setLevel(levels.get(name, logging.NOTSET))


def test_those_below_a_name_follow_it_and_only_changes_are_named(loggers: Loggers) -> None:
    logging.getLogger("levels.file.source")
    assert loggers.set_level("levels.file", "DEBUG") == ["levels.file", "levels.file.source"]
    assert loggers.set_level("levels.file", "DEBUG") == []
    assert loggers.set_level("levels.file.source", "OFF") == ["levels.file.source"]
    assert loggers.set_level("levels.file", "DEBUG") == ["levels.file.source"]
    node = loggers.node("levels.file.source")
    assert node["level"] == "DEBUG"
    assert isinstance(node["last_modified"], int)


def test_the_root_is_above_all_others(loggers: Loggers) -> None:
    loggers.set_level("root", "INFO")
    logging.getLogger("levels.a").setLevel(logging.ERROR)
    assert loggers.set_level("root", "INFO") == ["levels.a"]
    assert "root" in loggers.set_level("root", "ALL")
    assert loggers.node("root")["level"] == "ALL"


def test_a_level_for_all_workers_is_a_record_of_kafka(loggers: Loggers) -> None:
    record = levelled("a.b", "WARN")
    assert record.encoded() == (b"logger-cluster-a.b", b'{"level":"WARN"}')
    assert level_of(record) == ("a.b", "WARN")
    assert level_of(StateRecord("connector-x", {"level": "WARN"})) is None
    assert level_of(StateRecord("logger-cluster-a.b", None)) is None
    loggers.learn_level("levels.b", "LOUD")
    assert not loggers.knows("levels.b")
    loggers.learn_level("levels.b", "ERROR")
    assert loggers.node("levels.b")["level"] == "ERROR"
