"""Seeded runs of three whole brokers with clients and trouble; ``invariants`` and ``checker`` say what holds.

    MOLDAU_CLUSTER_SEED=123 .venv/bin/pytest tests/cluster_simulation -k replay

runs one seed, as the message of a failed run says; MOLDAU_CLUSTER_SECONDS is how long its trouble lasts,
MOLDAU_CLUSTER_OPERATED=1 lets an operator work meanwhile, MOLDAU_CLUSTER_TOPICS=1 makes and deletes topics,
MOLDAU_CLUSTER_HANGING=1 lets disks hang meanwhile, and MOLDAU_CLUSTER_SHORTEN=1 looks for the events that it
needs to fail.
"""

import os

import pytest

from tests.cluster_simulation.cluster_run import ClusterRun, InvariantBroken, shortened, simulate
from tests.cluster_simulation.trouble import HANGING, OPERATED, TOPICS, Odds

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SECONDS = 6.0
#: Runs that once found something: they stay.
KNOWN_SEEDS = (2, 6112, 6189)


@pytest.mark.parametrize("seed", range(20, 24))
def test_no_invariant_is_broken(seed: int) -> None:
    simulate(seed, SECONDS)


@pytest.mark.parametrize("seed", range(30, 32))
def test_no_invariant_is_broken_while_replicas_move_and_configs_change(seed: int) -> None:
    run = simulate(seed, SECONDS, OPERATED)
    assert any(f" {kind} " in line for kind in ("move", "lower") for line in run.cluster.story)


@pytest.mark.parametrize("seed", [40, 41, 1008])
def test_no_invariant_is_broken_while_topics_come_and_go(seed: int) -> None:
    run = simulate(seed, SECONDS, TOPICS)
    assert any(" topic " in line for line in run.cluster.story)
    assert run.invariants.checks["directories"]


@pytest.mark.parametrize("seed", [115, 122, 131])
def test_no_invariant_is_broken_while_disks_hang(seed: int) -> None:
    run = simulate(seed, 8.0, HANGING)
    assert any(" hung_disk " in line for line in run.cluster.story)


def test_replay() -> None:
    """The seed of MOLDAU_CLUSTER_SEED, or those that are known."""
    given = os.environ.get("MOLDAU_CLUSTER_SEED")
    seconds = float(os.environ.get("MOLDAU_CLUSTER_SECONDS", SECONDS))
    odds = OPERATED if os.environ.get("MOLDAU_CLUSTER_OPERATED") else Odds()
    odds = HANGING if os.environ.get("MOLDAU_CLUSTER_HANGING") else odds
    odds = TOPICS if os.environ.get("MOLDAU_CLUSTER_TOPICS") else odds
    for seed in KNOWN_SEEDS if given is None else (int(given),):
        try:
            simulate(seed, seconds, odds)
        except InvariantBroken:
            if os.environ.get("MOLDAU_CLUSTER_SHORTEN"):
                print(f"seed {seed} fails with", *shortened(seed, seconds, odds), sep="\n  ")
            raise


def test_the_same_seed_is_the_same_run() -> None:
    def story(run: ClusterRun) -> object:
        ends = [(place, leader, run.clients.ends) for place, leader in run._places()]
        world = run.loop.turns, run.loop.time(), run.cluster.story
        return world, ends, run.clients.histories, run.invariants.checks

    assert story(simulate(14, SECONDS)) == story(simulate(14, SECONDS))


def test_a_run_does_something() -> None:
    """A simulation of an idle cluster finds nothing."""
    run = simulate(502, SECONDS)
    assert all(
        run.invariants.checks[invariant] > 1
        for invariant in (
            "one leader in an epoch",
            "a leader has what was acknowledged",
            "replicas agree",
            "in sync means committed",
        )
    )
    for history in run.clients.histories.values():
        assert len(history.sent) > 30
        assert len(history.polled) > 30
    assert run.clients.commits > 10
    assert len(run.cluster.story) > 3
