"""Random seeds of the simulation until its share of the time is used up; what it finds comes with a command.

    make soak SECONDS=600
    MOLDAU_SOAK_SECONDS=60 MOLDAU_SOAK_SEED=7 .venv/bin/pytest tests/soak/test_simulation_soak.py --timeout 0

The runs are longer than those of `make test`, and every mutant is tried, not only those that are found soon.
"""

import os
import random
import time
from collections import Counter

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.simulated_run import command, simulate

SECONDS = float(os.environ["MOLDAU_SOAK_SECONDS"])
#: The part of the soak's time that belongs to the simulation.
SHARE = 0.3
#: Simulated seconds of trouble in each run.
TROUBLE_SECONDS = (15.0, 40.0, 40.0, 120.0)
#: So many seeds that fail are enough to look at.
MOST_FAILURES = 5


def test_no_invariant_is_broken() -> None:
    given = os.environ.get("MOLDAU_SOAK_SEED")
    dice = random.Random(int(given) if given is not None else time.time_ns())
    until = time.monotonic() + SECONDS * SHARE
    counts: Counter[str] = Counter()
    failures: list[str] = []
    while time.monotonic() < until and len(failures) < MOST_FAILURES:
        seed, seconds = dice.randrange(1 << 31), dice.choice(TROUBLE_SECONDS)
        try:
            counts.update(simulate(seed, seconds).checkers.counts)
        except Exception as error:
            failures.append(f"{type(error).__name__}: {str(error)[:500]}\n    {command(seed, seconds)}")
        counts["runs"] += 1
    print(f"simulation: {dict(counts)}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant[0].__name__)
def test_the_simulation_notices_when(mutant: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, faults, kinds = mutant
    patch(monkeypatch)
    for seed in range(40):
        try:
            simulate(seed, 40.0, faults=faults, kinds=kinds)
        except AssertionError:
            return
    pytest.fail(f"{patch.__name__} was not noticed")
