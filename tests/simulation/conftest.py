"""Makes the virtual world beside these tests importable."""

import sys
from pathlib import Path

import pytest

from moldau.broker.apis import produce
from moldau.broker.bounds.turns import Turn

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)


@pytest.fixture(autouse=True)
def _turns_without_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long work takes on this machine must not decide what happens in the virtual world."""
    monkeypatch.setattr(produce, "Turn", lambda: Turn(now=lambda: 0.0))
