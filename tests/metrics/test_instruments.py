"""Histograms against exact percentiles, windows that pass, rates that decay."""

import math
import random

import pytest

from moldau.metrics.instruments import (
    EMPTY,
    PERCENTILES,
    WINDOW_SECONDS,
    Histogram,
    Rates,
    bucket_of,
    middle_of,
)


def test_a_bucket_holds_values_that_are_near_to_each_other() -> None:
    for value in (1e-6, 0.3, 0.999, 1.0, 7.7, 1024.0, 3.3e9):
        assert abs(middle_of(bucket_of(value)) - value) / value <= 0.032


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_near_the_exact_ones(seed: int) -> None:
    draw = random.Random(seed)
    values = [draw.lognormvariate(1.0, 1.5) for _ in range(5000)]
    histogram = Histogram()
    for value in values:
        histogram.record(value, 1.0)
    snapshot = histogram.snapshot(1.0)
    values.sort()
    for quantile in PERCENTILES.values():
        exact = values[math.ceil(quantile * len(values)) - 1]
        assert snapshot.quantiles[quantile] == pytest.approx(exact, rel=0.05)
    assert (snapshot.minimum, snapshot.maximum) == (values[0], values[-1])
    assert snapshot.mean == pytest.approx(sum(values) / len(values))


def test_an_empty_histogram_has_noughts() -> None:
    assert Histogram().snapshot(5.0) is EMPTY


def test_one_value_is_every_percentile() -> None:
    histogram = Histogram()
    histogram.record(3.0, 0.0)
    assert set(histogram.snapshot(0.0).quantiles.values()) == {3.0}


def test_nought_is_a_value_like_others() -> None:
    histogram = Histogram()
    histogram.record(0.0, 0.0, weight=99)
    histogram.record(10.0, 0.0)
    quantiles = histogram.snapshot(0.0).quantiles
    assert (quantiles[0.5], quantiles[0.99], quantiles[0.999]) == (0.0, 0.0, 10.0)


def test_a_weight_stands_for_so_many_values() -> None:
    weighted, plain = Histogram(), Histogram()
    weighted.record(2.0, 0.0, weight=16)
    for _ in range(16):
        plain.record(2.0, 0.0)
    assert weighted.snapshot(0.0) == plain.snapshot(0.0)


def test_percentiles_forget_and_counts_do_not() -> None:
    histogram = Histogram()
    histogram.record(100.0, 0.0)
    histogram.record(1.0, 3 * WINDOW_SECONDS)
    assert histogram.snapshot(3 * WINDOW_SECONDS).quantiles[0.999] == 100.0
    later = histogram.snapshot(6 * WINDOW_SECONDS)
    assert later.quantiles[0.999] == pytest.approx(1.0, rel=0.04)
    assert (later.count, later.maximum) == (2, 100.0)
    long_after = histogram.snapshot(1000 * WINDOW_SECONDS)
    assert set(long_after.quantiles.values()) == {0.0}
    assert long_after.count == 2


def test_a_steady_rate_is_shown_as_it_is() -> None:
    rates = Rates(0.0, 0.0)
    for tick in range(1, 400):
        rates.observe(tick * 5.0, tick * 50.0)
    assert rates.decayed == pytest.approx([10.0] * 3, rel=0.15)
    assert rates.mean(2000.0, 20000.0) == 10.0


def test_a_rate_decays_when_nothing_comes_any_more() -> None:
    rates = Rates(100.0, 6000.0, started=0.0)
    assert rates.decayed == [60.0] * 3
    rates.observe(160.0, 6000.0)
    one, five, fifteen = rates.decayed
    assert one == pytest.approx(60 / 2.718, rel=0.01)
    assert one < five < fifteen < 60
    rates.observe(161.0, 9000.0)  # too soon to look again
    assert rates.decayed == [one, five, fifteen]
