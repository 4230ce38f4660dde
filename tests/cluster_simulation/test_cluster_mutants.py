"""The simulation of the cluster notices bugs that were made on purpose; ``make soak`` takes all of them."""

import pytest

from tests.cluster_simulation.cluster_mutants import MUTANTS, Mutant
from tests.cluster_simulation.cluster_run import InvariantBroken, simulate
from tests.cluster_simulation.trouble import Odds

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

#: Each of these mutants must be found by one of so many runs.
RUNS = 5
SECONDS = 8.0
#: Those that are found at once stand for the others in every test run.
QUICK = {
    "the_leader_alone_commits",
    "followers_that_catch_up_do_not_count",
    "readers_see_what_is_not_committed",
    "the_leader_epoch_stays",
}


def notice(mutant: Mutant, odds: Odds, runs: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """The seed of the run that noticed it."""
    mutant(monkeypatch)
    for seed in range(runs):
        try:
            simulate(seed, SECONDS, odds)
        except InvariantBroken:
            return seed
    pytest.fail(f"{mutant.__name__} was not noticed in {runs} runs")


@pytest.mark.parametrize(
    ("mutant", "odds"),
    [pytest.param(*each, id=each[0].__name__) for each in MUTANTS if each[0].__name__ in QUICK],
)
def test_the_simulation_notices_when(mutant: Mutant, odds: Odds, monkeypatch: pytest.MonkeyPatch) -> None:
    notice(mutant, odds, RUNS, monkeypatch)
