"""Random seeds of the simulated cluster until their share of the time is used up, and every mutant of it.

make soak SECONDS=600
MOLDAU_SOAK_SECONDS=60 .venv/bin/pytest tests/soak/test_cluster_simulation_soak.py --timeout 0
"""

import os
import random
import time
from collections import Counter
from typing import Any

import pytest

from tests.cluster_simulation.cluster_mutants import MUTANTS
from tests.cluster_simulation.cluster_run import InvariantBroken, simulate
from tests.cluster_simulation.trouble import HANGING, OPERATED, TOPICS, Odds

SECONDS = float(os.environ["MOLDAU_SOAK_SECONDS"])
#: The part of the soak's time that belongs to this simulation.
SHARE = 0.3
#: Simulated seconds of trouble in each run.
TROUBLE_SECONDS = (6.0, 10.0, 20.0, 60.0)
MOST_FAILURES = 5
RUNS_OF_A_MUTANT = 40


def test_no_invariant_is_broken() -> None:
    given = os.environ.get("MOLDAU_SOAK_SEED")
    dice = random.Random(int(given) if given is not None else time.time_ns())
    until = time.monotonic() + SECONDS * SHARE
    counts: Counter[str] = Counter()
    failures: list[str] = []
    while time.monotonic() < until and len(failures) < MOST_FAILURES:
        try:
            odds = dice.choice((Odds(), OPERATED, TOPICS, HANGING))
            run = simulate(dice.randrange(1 << 31), dice.choice(TROUBLE_SECONDS), odds)
            counts.update(run.invariants.checks)
        except InvariantBroken as error:
            failures.append(str(error))
        counts["runs"] += 1
    print(f"cluster simulation: {dict(counts)}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant[0].__name__)
def test_the_simulation_notices_when(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, odds = mutant
    patch(monkeypatch)
    for seed in range(RUNS_OF_A_MUTANT):
        try:
            simulate(seed, 8.0, odds)
        except InvariantBroken:
            return
    pytest.fail(f"{patch.__name__} was not noticed")
