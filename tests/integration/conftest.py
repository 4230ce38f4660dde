"""Real clients over real sockets: what the tests of this folder share."""

import itertools
from pathlib import Path

import pytest

HERE = Path(__file__).parent
_numbers = itertools.count()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of its own for each test, so that no client meets what another one left."""
    return f"{request.node.name.partition('[')[0]}.{next(_numbers)}"
