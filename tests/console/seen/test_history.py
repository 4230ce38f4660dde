"""Rates and lags over time, within bounds."""

from moldau.console.seen.history import MAX_GROUPS, POINTS, History


def test_rates_are_differences() -> None:
    history = History()
    history.take_ends(0, {"orders": 100, "gone": 5})
    assert history.rate("orders") is None
    history.take_ends(2_000, {"orders": 120, "gone": 5})
    assert history.rate("orders") == 10
    assert history.total_rate.last == 10
    history.take_ends(4_000, {"orders": 3})  # it was made again
    assert history.rate("orders") == 0
    assert history.rate("gone") is None


def test_lags_and_their_sum() -> None:
    history = History()
    history.take_lag(1, "a", 5)
    history.take_lag(1, "b", 7)
    history.take_groups(2, {"a", "b"})
    assert history.total_lag.last == 12
    history.take_groups(3, {"a"})
    assert history.lag("b") is None
    assert history.total_lag.points == [(2, 12), (3, 5)]


def test_everything_has_a_bound() -> None:
    history = History()
    for moment in range(POINTS + 50):
        history.take_lag(moment, "a", moment)
    assert len(history.group_lags["a"].points) == POINTS
    for number in range(MAX_GROUPS + 10):
        history.take_lag(0, f"g{number}", 1)
    assert len(history.group_lags) == MAX_GROUPS
