"""Plots: the numbers are where they belong, and nothing in them needs a style or a script."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.console.markup.plots import bar, line_plot, short, sparkline, wide_plot


def ys(svg: str) -> list[float]:
    (points,) = re.findall(r'<polyline points="([^"]*)"', svg)
    return [float(point.split(",")[1]) for point in points.split()]


def test_a_line_goes_from_the_bottom_to_the_top() -> None:
    svg = line_plot([(0, 0), (60_000, 50), (120_000, 100)], "Lag")
    assert ys(svg) == [130.0, 70.0, 10.0]
    assert "00:00" in svg
    assert "00:02 UTC" in svg
    assert ">100<" in svg
    assert "Lag: 100 now" in svg
    assert "style=" not in svg
    assert "<script" not in svg


def test_too_few_points_are_said_in_words() -> None:
    assert "collecting" in line_plot([], "Lag")
    assert "<svg" not in sparkline([(1, 5)], "x")
    assert "<svg" not in sparkline([(1, 0), (2, 0)], "x")
    assert "<svg" in sparkline([(1, 0), (2, 3)], "x")


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2**41), st.floats(0, 1e15)), min_size=2).map(sorted))
def test_all_points_are_inside(points: list[tuple[int, float]]) -> None:
    assert all(10 <= y <= 130 for y in ys(line_plot(points, "x")))


@pytest.mark.parametrize(("number", "text"), [(0, "0"), (999, "999"), (12_500, "12.5k"), (2e9, "2G")])
def test_short_numbers(number: float, text: str) -> None:
    assert short(number) == text


def test_bars_stay_within_their_box() -> None:
    assert 'width="50.0"' in bar(0.5)
    assert 'width="100.0"' in bar(7)
    assert 'width="0.0"' in bar(-1)


def test_a_plot_over_a_whole_page_has_another_for_phones() -> None:
    drawn = wide_plot([(0, 1.0), (1_000, 2.0)], "Lag")
    assert 'class="plot for-wide"' in drawn
    assert 'class="plot for-narrow"' in drawn
    assert wide_plot([], "Lag").count("<p") == 1
