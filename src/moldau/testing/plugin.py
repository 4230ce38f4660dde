"""The pytest plugin: the fixture ``moldau_broker``.

One broker serves a whole test session (each worker process of xdist has its own) and is reset
before every test that asks for it, which takes milliseconds.

Invariant: loading the plugin costs nothing; the broker is imported when a test first asks for it.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from moldau.testing.broker import Broker, Value


def _keep_out_of_rewriting() -> None:
    """pytest rewrites the modules of every package that brings a plugin, to explain their asserts.

    A broker loads some of its modules in a thread of its own while the test goes on, and CPython 3.11 fails
    when two threads rewrite at once. There is nothing in them to explain, and they load faster as they are.
    """
    for finder in sys.meta_path:
        marked = getattr(finder, "_must_rewrite", None)
        if isinstance(marked, set):
            marked -= {name for name in marked if name.partition(".")[0] == "moldau"}
            getattr(finder, "_marked_for_rewrite_cache", {}).clear()


_keep_out_of_rewriting()


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
