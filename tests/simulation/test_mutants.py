"""The simulation notices when the coordinators break a promise: bugs that were made on purpose."""

import pytest

from tests.simulation.faults import Faults
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.simulated_run import simulate

pytestmark = pytest.mark.slow

#: Each mutant must be found by one of so many runs.
RUNS = 12
#: Those that are found at once stand for the others in every test run; `make soak` takes them all.
QUICK = {
    "answers_before_the_commit",
    "anybody_may_commit_offsets",
    "old_epochs_may_end_transactions",
    "aborted_offsets_count",
    "aborted_records_are_not_named",
    "a_partition_is_given_before_it_is_free",
}


@pytest.mark.parametrize(
    ("mutant", "faults", "kinds"),
    [pytest.param(*each, id=each[0].__name__) for each in MUTANTS if each[0].__name__ in QUICK],
)
def test_the_simulation_notices_when(
    mutant: Mutant, faults: Faults, kinds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    for seed in range(RUNS):
        try:
            simulate(seed, 20.0, faults=faults, kinds=kinds)
        except AssertionError:
            return
    pytest.fail(f"{mutant.__name__} was not noticed in {RUNS} runs")
