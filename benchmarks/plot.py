"""The plot of docs/benchmarks.md: each figure's ratio to Apache Kafka on a logarithmic axis, with its floor and goal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.report import Figure

GOOD, FAIR, POOR, PLAIN = "#2e7d32", "#f9a825", "#c62828", "#607d8b"
COLOURS = {"goal met": GOOD, "floor met": GOOD, "floor met, goal missed": FAIR, "below the floor": POOR, "": PLAIN}


def draw_ratios(figures: list[Figure], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    shown = [figure for figure in reversed(figures) if figure.judged > 0]
    picture, axes = pyplot.subplots(figsize=(11, 0.36 * len(shown) + 2.0), layout="constrained")
    for row, figure in enumerate(shown):
        # bars start at 1: to the right Moldau has more, to the left less
        axes.barh(row, figure.judged - 1, left=1, height=0.6, color=COLOURS[figure.verdict], zorder=2)
        on_right = figure.judged >= 1
        axes.annotate(
            f"{figure.judged:.2f}×",
            (figure.judged, row),
            xytext=(5 if on_right else -5, 0),
            textcoords="offset points",
            va="center",
            ha="left" if on_right else "right",
            fontsize=8,
        )
        for bound, marker in ((figure.metric.floor, "|"), (figure.metric.goal, "D")):
            if bound is not None:
                axes.plot(bound, row, marker, color="black", markersize=12 if marker == "|" else 5, zorder=4)
    axes.axvline(1, color="black", linewidth=1, zorder=3)
    axes.set_xscale("log")
    lowest = min([0.05, *(figure.judged / 2 for figure in shown)])
    highest = max([2.0, *(figure.judged * 1.6 for figure in shown)])
    axes.set_xlim(lowest, highest)
    ticks = [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if lowest <= tick <= highest]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    arrows = {"higher": "more is better", "lower": "less is better"}
    labels = [f"{figure.metric.title} ({arrows[figure.metric.better]})" for figure in shown]
    axes.set_yticks(range(len(shown)), labels, fontsize=8)
    axes.set_ylim(-0.7, len(shown) - 0.3)
    axes.grid(axis="x", color="#dddddd", zorder=0)
    axes.set_title("Moldau divided by Apache Kafka 4.3.0, same machine, same load tools", fontsize=11)
    handles = [
        Patch(color=GOOD, label="goal met"),
        Patch(color=FAIR, label="floor met, goal missed"),
        Patch(color=POOR, label="below the floor"),
        Patch(color=PLAIN, label="no floor set"),
        Line2D([], [], color="black", marker="|", linestyle="", markersize=12, label="floor"),
        Line2D([], [], color="black", marker="D", linestyle="", markersize=5, label="goal"),
    ]
    picture.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    picture.savefig(path, dpi=130)
    pyplot.close(picture)
