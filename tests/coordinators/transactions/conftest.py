"""Makes the test runtime beside these tests importable, and hands one out."""

import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from transaction_coordinator import Coordinator  # noqa: E402


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()
