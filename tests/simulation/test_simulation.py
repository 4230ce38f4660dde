"""Seeded runs of many virtual clients over the coordinators; the checkers are in ``checkers``.

    MOLDAU_SIMULATION_SEED=123 .venv/bin/pytest tests/simulation -k replay

runs one seed, as the message of a failed run says; MOLDAU_SIMULATION_SECONDS is how long its trouble lasts.
"""

import os

import pytest

from tests.simulation.faults import Faults
from tests.simulation.simulated_run import Simulation, simulate

pytestmark = pytest.mark.slow

#: Simulated seconds of trouble in each run here; the soak gives it more.
SECONDS = 15.0
#: Runs that once found something, here or in a mutant: they stay.
KNOWN_SEEDS = (1, 5, 7, 14, 1001, 1022, 20127)


@pytest.mark.parametrize("seed", range(100, 120))
def test_no_invariant_is_broken(seed: int) -> None:
    simulate(seed, SECONDS)


def test_replay() -> None:
    """The seed of MOLDAU_SIMULATION_SEED, or those that are known."""
    given = os.environ.get("MOLDAU_SIMULATION_SEED")
    seconds = float(os.environ.get("MOLDAU_SIMULATION_SECONDS", SECONDS))
    for seed in KNOWN_SEEDS if given is None else (int(given),):
        simulate(seed, seconds)


def test_the_same_seed_is_the_same_run() -> None:
    def story(run: Simulation) -> object:
        ends = [(str(p.topic_partition), p.high_watermark, p.leader_epoch) for p in run.partitions.all()]
        return run.loop.turns, run.loop.time(), run.checkers.counts, ends, run.seen

    assert story(simulate(14, SECONDS)) == story(simulate(14, SECONDS))


def test_a_run_does_something() -> None:
    """A simulation of an idle broker finds nothing."""
    kinds = ("classic", "cooperative", "consumer", "classic-copier", "consumer-copier", "producer")
    faults = Faults(commit_delay=0.05, crash_every=8.0, move_every=4.0, stall=0.01)
    counts = simulate(4, SECONDS, kinds=kinds, faults=faults).checkers.counts
    assert counts["commits"] > 50
    assert counts["assignments"] > 10
    assert counts["offset fetches"] > 10
    assert counts["transactions True"] > 10
    assert counts["transactions False"] > 3
    assert counts["copied"] > 10
    assert counts["replays"] > 20
