"""Burrow's rules, one window at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.base.names import TopicPartition
from moldau.metrics.lag.evaluation import MEANINGS, Commit, PartitionStatus, Status, evaluate, evaluate_group

SECOND = 1000


def window(*points: tuple[int, int], step: int = 10) -> list[Commit]:
    """Commits ten seconds apart, each an offset and a lag."""
    return [Commit(index * step * SECOND, offset, lag) for index, (offset, lag) in enumerate(points)]


def status(points: list[Commit], lag: int | None = None, after: int = 1) -> Status:
    """The status a few seconds after the last commit."""
    last = points[-1]
    return evaluate(points, last.lag if lag is None else lag, last.time_ms + after * SECOND).status


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([(10, 0), (20, 0), (30, 0)], Status.OK),
        ([(10, 5), (20, 0), (30, 7)], Status.OK),  # it was up to date at one point
        ([(10, 5), (20, 4), (30, 6)], Status.OK),  # the lag became less at one point
        ([(10, 50), (20, 40), (30, 30)], Status.OK),
        ([(10, 5), (20, 6), (30, 7)], Status.WARN),
        ([(10, 5), (20, 5), (30, 5)], Status.WARN),  # it reads as fast as records come, and never catches up
        ([(10, 5), (10, 6), (10, 7)], Status.STALL),
        ([(10, 5), (10, 5), (10, 5)], Status.STALL),
        ([(10, 5), (10, 5), (11, 5)], Status.WARN),
        ([(30, 5), (20, 15), (25, 15)], Status.REWIND),
        ([(30, 5), (10, 25)], Status.REWIND),
        ([(10, 0), (10, 3), (10, 4)], Status.OK),
    ],
)
def test_the_shape_of_the_offsets_decides(points: list[tuple[int, int]], expected: Status) -> None:
    assert status(window(*points)) is expected


def test_nobody_commits_for_longer_than_the_window_lasted() -> None:
    points = window((10, 5), (20, 4), (30, 3))
    assert status(points, after=20) is Status.OK
    assert status(points, after=21) is Status.STOP


def test_a_stop_counts_even_when_there_was_no_lag_before() -> None:
    points = window((10, 0), (20, 0), (30, 0))
    assert status(points, lag=100, after=60) is Status.STOP


def test_who_has_read_everything_is_never_stopped() -> None:
    points = window((10, 5), (20, 4), (30, 0))
    assert status(points, lag=0, after=10_000) is Status.OK


@pytest.mark.parametrize("points", [[], [(10, 5)]])
def test_one_commit_says_nothing(points: list[tuple[int, int]]) -> None:
    found = evaluate(window(*points), 5, 10**9)
    assert found.status is Status.OK
    assert found.complete < 0.2


def test_a_negative_lag_is_none() -> None:
    """The end of the log was asked for before the offset was committed."""
    assert evaluate(window((10, 3), (20, -2)), -2, 11 * SECOND) == PartitionStatus(Status.OK, 0, 0.2)


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 50)), min_size=2, max_size=10),
    st.integers(1, 1000),
)
def test_size_does_not_matter(points: list[tuple[int, int]], factor: int) -> None:
    larger = [(offset * factor, lag * factor) for offset, lag in points]
    assert status(window(*points)) is status(window(*larger))


@given(st.lists(st.integers(1, 50), min_size=2, max_size=10))
def test_a_group_that_never_moves_is_stalled_whatever_comes(lags: list[int]) -> None:
    assert status(window(*((7, lag) for lag in lags))) is Status.STALL


def place(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def test_the_worst_partition_is_the_group() -> None:
    fine, slow = PartitionStatus(Status.OK, 3, 1.0), PartitionStatus(Status.WARN, 5, 1.0)
    stuck, larger = PartitionStatus(Status.STALL, 2, 0.5), PartitionStatus(Status.STALL, 9, 1.0)
    assert evaluate_group([(place(0), fine)]).status is Status.OK
    assert evaluate_group([(place(0), fine), (place(1), slow)]).status is Status.WARN
    group = evaluate_group([(place(0), slow), (place(1), stuck), (place(2), larger)])
    assert (group.status, group.lag, group.worst) == (Status.ERR, 16, place(2))
    assert group.complete == pytest.approx(2.5 / 3)


def test_a_group_without_partitions_is_well() -> None:
    group = evaluate_group([])
    assert (group.status, group.lag, group.worst, group.complete) == (Status.OK, 0, None, 0.0)


def test_every_status_has_words() -> None:
    assert set(MEANINGS) == set(Status)
