"""The pytest plugin: the fixture ``moldau_broker``.

One broker serves a whole test session (each worker process of xdist has its own) and is reset
before every test that asks for it, which takes milliseconds.

Law: loading the plugin costs nothing; the broker is imported when a test first asks for it.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from moldau.testing.broker import Broker, Value


@pytest.fixture(scope="session")
def moldau_settings() -> "Mapping[str, Value]":
    """Settings of the session's broker; override it in a ``conftest.py`` to give your own."""
    return {}


@pytest.fixture(scope="session")
def moldau_session_broker(moldau_settings: "Mapping[str, Value]") -> "Iterator[Broker]":
    """The broker behind ``moldau_broker``; ask for it where a test wants to keep what others left."""
    from moldau.testing.broker import Broker

    with Broker(moldau_settings) as broker:
        yield broker


@pytest.fixture
def moldau_broker(moldau_session_broker: "Broker") -> "Broker":
    """A real broker, memory-backed and empty, at ``moldau_broker.bootstrap_servers``."""
    moldau_session_broker.reset()
    return moldau_session_broker
