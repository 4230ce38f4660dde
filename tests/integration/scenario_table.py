"""The table of scenarios: what every client must be able to do, written once and run with each of them.

A scenario is a function of a client and the name of a topic that nobody else uses. It leaves closing to the
client.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from tests.integration.client_contract import Client

Scenario = Callable[[Any, str], None]
_F = TypeVar("_F", bound=Scenario)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_TABLE: dict[str, tuple[Scenario, frozenset[str]]] = {}


def scenario(function: _F) -> _F:
    """Puts a function into the table under its own name."""
    return needing()(function)


def needing(*calls: str) -> Callable[[_F], _F]:
    """The same for one that only clients with these calls can run."""

    def add(function: _F) -> _F:
        assert function.__name__ not in _TABLE, function.__name__
        _TABLE[function.__name__] = function, frozenset(calls)
        return function

    return add


def scenarios_for(client: type[Client]) -> list[Any]:
    """Every scenario that the client's library has the calls for."""
    from tests.integration import scenarios_admin, scenarios_reading, scenarios_records

    assert scenarios_admin
    assert scenarios_reading
    assert scenarios_records
    return [
        pytest.param(function, id=name)
        for name, (function, calls) in _TABLE.items()
        if not calls & client.lacks
    ]


def codecs_for(client: type[Client]) -> list[Any]:
    """All five; skipped where the client's own package for one is not installed."""
    here = {"none", *client.codecs}
    reason = f"{client.__name__} has no package for it here"
    return [
        pytest.param(codec, marks=() if codec in here else pytest.mark.skip(reason=f"{codec}: {reason}"))
        for codec in CODECS
    ]
