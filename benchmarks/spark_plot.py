"""The plot of docs/benchmarks-spark.md: ratios to Spark's own connector, floor and goal marked."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

GOOD, POOR, PLAIN = "#2e7d32", "#c62828", "#607d8b"


class Bar(NamedTuple):
    label: str
    ratio: float
    floor: float | None
    goal: float | None
    verdict: str


def draw(bars: list[Bar], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    bars = bars[::-1]
    figure, axes = pyplot.subplots(figsize=(11, 0.32 * len(bars) + 1.4), layout="constrained")
    for row, bar in enumerate(bars):
        colour = POOR if bar.verdict == "below the floor" else GOOD if bar.verdict else PLAIN
        axes.barh(row, bar.ratio, height=0.62, color=colour, zorder=2)
        axes.text(bar.ratio + 0.05, row, f"{bar.ratio:.2f}×", va="center", fontsize=9, color=colour)
        for bound, marker, size in ((bar.floor, "|", 13), (bar.goal, "D", 5)):
            if bound is not None:
                axes.plot(bound, row, marker, color="black", markersize=size, zorder=4)
    axes.axvline(1, color="black", linewidth=0.8, zorder=1)
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars], fontsize=9)
    axes.set_xlabel("format(moldau) divided by Spark's connector; | floor, ◆ goal", fontsize=9)
    axes.set_xlim(0, max(bar.ratio for bar in bars) * 1.15)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
