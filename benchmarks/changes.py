"""What has become worse since the last page: a run beside the table of docs/benchmarks.md.

A ratio has fallen when it is worse than every ratio that the page's own rounds could have given (its
ranges), and by more than a tenth: what is less says nothing on a machine that others use too. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.report import Figure

#: By so much a ratio moves from run to run even where the ranges are narrow.
NOISE = 0.1


@dataclass(frozen=True, slots=True)
class Known:
    """A row of the page: its ratio, and the lowest and highest that its rounds allow."""

    ratio: float
    lowest: float
    highest: float


def known_ratios(page: str) -> dict[str, Known]:
    """The rows of a page by their first cell, without those that it has no ranges or ratio of."""
    tables = [_rows(part) for part in page.split("\n## Ranges\n", 1)]
    if len(tables) < 2:
        return {}
    ranges = {row[0]: row[1:] for row in tables[1] if len(row) == 3}
    found = {}
    for row in tables[0]:
        ratio = re.match(r"([\d.]+)×", row[3]) if len(row) > 3 else None
        if ratio is None or row[0] not in ranges:
            continue
        kafka, moldau = (_range(cell) for cell in ranges[row[0]])
        if kafka is None or moldau is None or not kafka[0]:
            continue
        value = float(ratio.group(1))
        bounds = (value, value) if "(own)" in row[3] else (moldau[0] / kafka[1], moldau[1] / kafka[0])
        found[row[0]] = Known(value, min(value, bounds[0]), max(value, bounds[1]))
    return found


def fallen(figures: Iterable[Figure], known: dict[str, Known]) -> list[str]:
    """A line for each figure that has become worse by more than noise."""
    lines = []
    for figure in figures:
        title = f"{figure.metric.title} ({figure.metric.unit})"
        before = known.get(title)
        if before is None:
            continue
        if figure.metric.better == "higher":
            worse = figure.shown < before.lowest * (1 - NOISE)
        else:
            worse = figure.shown > before.highest * (1 + NOISE)
        if worse:
            span = f"{before.lowest:.2f} to {before.highest:.2f}"
            lines.append(f"{title}: {figure.shown:.2f}×, was {before.ratio:.2f}× ({span})")
    return lines


def _rows(text: str) -> list[list[str]]:
    lines = (line.strip() for line in text.splitlines())
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]


def _range(cell: str) -> tuple[float, float] | None:
    numbers = cell.replace(",", "").split(" – ")
    try:
        low, high = map(float, numbers)
    except ValueError:
        return None
    return low, high
