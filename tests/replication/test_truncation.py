"""Where a follower cuts its log."""

import random

import pytest

from moldau.replication.truncation import truncation_offset
from moldau.storage.files import MemoryFiles
from moldau.storage.log.leader_epoch_cache import LeaderEpochCache


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    made = LeaderEpochCache(MemoryFiles(), "/data/t-0")
    for epoch, start in entries:
        made.assign(epoch, start)
    return made


@pytest.mark.parametrize(
    ("leader", "own", "end", "expected"),
    [
        ((0, 5), ((0, 0),), 8, 5),  # the leader's epoch ended earlier
        ((0, 9), ((0, 0),), 8, 8),  # nothing differs
        ((1, 10), ((0, 0), (2, 6)), 8, 6),  # an epoch that this log never saw: back to the one below
        ((2, 7), ((0, 0), (2, 6)), 8, 7),
        ((-1, -1), ((0, 0),), 8, 3),  # the leader knows no epochs: back to what is committed
        ((0, 4), (), 8, 4),  # this log knows no epochs
    ],
)
def test_where_it_is_cut(
    leader: tuple[int, int], own: tuple[tuple[int, int], ...], end: int, expected: int
) -> None:
    assert truncation_offset(*leader, cache(*own), end, 3) == expected


@pytest.mark.parametrize("seed", range(100))
def test_rounds_of_asking_end_at_the_common_part(seed: int) -> None:
    """Three replicas lead in turns, unclean elections included, and copy only a part of each other's logs."""
    rng = random.Random(seed)
    logs: list[list[tuple[int, int]]] = [[], [], []]  # (leader epoch, a number of its own) of each record
    for epoch in range(30):
        leader = rng.choice(logs)
        leader += [(epoch, number) for number in range(rng.randrange(3))]
        for log in logs:
            if log is not leader and rng.random() < 0.6:
                _reconcile(log, leader)
                assert leader[: len(log)] == log
                log += leader[len(log) : len(log) + rng.randrange(4)]


def _reconcile(log: list[tuple[int, int]], leader: list[tuple[int, int]]) -> None:
    """What a follower does before it gets records: it asks with its last epoch and cuts, until they agree."""
    for _ in range(40):
        if not log:
            return
        last = log[-1][0]
        epoch, end = _epochs(leader).end_offset_for(last, len(leader))
        if (
            end < 0
        ):  # out of range, as the leader has never heard of the epoch: only its end is left to ask for
            del log[min(len(leader), len(log) - 1) :]
        elif epoch < last or end < len(log):
            before = len(log)
            del log[truncation_offset(epoch, end, _epochs(log), len(log), 0) :]
            assert len(log) < before, "each round cuts something"
        else:
            return
    raise AssertionError("it does not end")


def _epochs(log: list[tuple[int, int]]) -> LeaderEpochCache:
    starts: dict[int, int] = {}
    for offset, (epoch, _) in enumerate(log):
        starts.setdefault(epoch, offset)
    return cache(*starts.items())
