"""Makes the test runtime beside these tests importable, and hands one out."""

import pytest

from tests.coordinators.transactions.transaction_coordinator import Coordinator


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()
