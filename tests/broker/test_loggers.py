"""The broker's own loggers as config resources."""

import logging
from collections.abc import Iterator

import pytest

from moldau.broker import loggers

NAME = "moldau.storage"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = logging.getLogger(NAME).level
    yield
    logging.getLogger(NAME).setLevel(before)


def test_a_level_counts_from_when_it_is_set() -> None:
    loggers.set_levels({NAME: logging.DEBUG})
    assert loggers.levels()[NAME] == logging.DEBUG
    assert logging.getLogger(f"{NAME}.log").isEnabledFor(logging.DEBUG)


def test_without_a_level_of_its_own_it_follows_the_one_above() -> None:
    loggers.set_levels({NAME: logging.DEBUG})
    loggers.set_levels({NAME: None})
    assert loggers.levels()[NAME] == logging.getLogger("moldau").getEffectiveLevel()


def test_the_root_has_a_name() -> None:
    assert loggers.levels()["root"] == logging.getLogger().getEffectiveLevel()


def test_the_log_of_requests_is_one_of_them() -> None:
    from moldau.broker.dispatch import request_log

    assert request_log.name in loggers.levels()
