"""The plot of docs/benchmarks.md: ratios to Apache Kafka on a log axis, with floors and goals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.report import Figure

GOOD, FAIR, POOR, PLAIN = "#2e7d32", "#f9a825", "#c62828", "#607d8b"
COLOURS = {
    "goal met": GOOD,
    "floor met": GOOD,
    "floor met, goal missed": FAIR,
    "below the floor": POOR,
    "": PLAIN,
}
ARROWS = {"higher": "↑", "lower": "↓"}
TICKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


def draw_ratios(figures: list[Figure], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [one for one in reversed(figures) if one.shown > 0]
    figure, axes = pyplot.subplots(figsize=(11, 0.3 * len(shown) + 1.6), layout="constrained")
    for row, one in enumerate(shown):
        _draw_row(axes, row, one)
    _draw_axes(axes, shown)
    figure.legend(handles=_legend(), loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _draw_row(axes: Any, row: int, figure: Figure) -> None:
    """A bar from 1, to the right where Moldau has more, to the left where it has less; the value in the
    margin."""
    colour = COLOURS[figure.verdict]
    axes.barh(row, figure.shown - 1, left=1, height=0.62, color=colour, zorder=2)
    for bound, marker, size in ((figure.metric.floor, "|", 13), (figure.metric.goal, "D", 5)):
        if bound is not None and not figure.metric.in_own_unit:
            axes.plot(bound, row, marker, color="black", markersize=size, zorder=4)
    axes.text(
        *(1.01, row, f"{figure.shown:.2f}×"),
        transform=axes.get_yaxis_transform(),
        color=colour,
        fontsize=9,
        fontweight="bold",
        va="center",
    )


def _draw_axes(axes: Any, shown: list[Figure]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    lowest = min([0.04, *(figure.shown / 1.5 for figure in shown)])
    highest = max([2.0, *(figure.shown * 1.3 for figure in shown)])
    axes.set_xscale("log")
    axes.set_xlim(lowest, highest)
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in TICKS if lowest <= tick <= highest]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.axvline(1, color="black", linewidth=1, zorder=3)
    labels = [f"{figure.metric.title} {ARROWS[figure.metric.better]}" for figure in shown]
    axes.set_yticks(range(len(shown)), labels, fontsize=8)
    axes.set_ylim(-0.7, len(shown) - 0.3)
    axes.grid(axis="x", color="#dddddd", zorder=0)
    axes.set_title("Moldau divided by Apache Kafka 4.3.0  (↑ more is better, ↓ less is better)", fontsize=10)


def _legend() -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return [
        Patch(color=GOOD, label="goal met"),
        Patch(color=FAIR, label="floor met, goal missed"),
        Patch(color=POOR, label="below the floor"),
        Patch(color=PLAIN, label="no floor set"),
        Line2D([], [], color="black", marker="|", linestyle="", markersize=13, label="floor"),
        Line2D([], [], color="black", marker="D", linestyle="", markersize=5, label="goal"),
    ]
