"""Real clients over real sockets: what the tests of this room share."""

import itertools
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

_numbers = itertools.count()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of its own for each test, so that no client meets what another one left."""
    return f"{request.node.name.partition('[')[0]}.{next(_numbers)}"
