"""A few hundred random lives that end with a crash; ``make soak`` has ten thousand."""

import random

import pytest

from tests.storage.crash_lives import CUTS, crash, operations_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("cut", CUTS)
def test_random_lives(cut: str) -> None:
    for number in range(80):
        seed = f"{cut}/{number}"
        crash(seed, random.Random(seed).randrange(operations_of(seed)), cut)


@pytest.mark.parametrize("cut", CUTS)
def test_every_operation_of_one_life(cut: str) -> None:
    for crash_at in range(operations_of("whole")):
        crash("whole", crash_at, cut)
