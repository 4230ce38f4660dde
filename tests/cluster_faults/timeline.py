"""The picture of a run: faults as bars over the records that were acknowledged meanwhile, as SVG.

Invariant: pure text; it needs no library, so that every run that fails can leave its picture.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Protocol

WIDTH, ROW, LEFT, PLOT = 1200, 18, 190, 70
#: As many columns as a plot has at most.
_COLUMNS = 400
_FAULT, _HEALING, _LINE = "#c62828", "#f9a825", "#1565c0"


class Shown(Protocol):
    """A fault: when it began, when it was undone, when all was well again."""

    @property
    def begin(self) -> float: ...
    @property
    def end(self) -> float: ...
    @property
    def healed(self) -> float: ...
    @property
    def text(self) -> str: ...


def draw(
    title: str, begin: float, end: float, faults: Sequence[Shown], acknowledged: Mapping[str, Sequence[float]]
) -> str:
    """An SVG; ``acknowledged`` has the times of each writer's acknowledgements."""
    scale = (WIDTH - LEFT - 10) / max(end - begin, 0.001)
    kinds = list(dict.fromkeys(_kind(fault) for fault in faults))
    parts = [f'<text x="10" y="18" font-weight="bold">{escape(title)}</text>']
    y = 30
    for kind in kinds:
        parts.append(f'<text x="10" y="{y + 12}">{escape(kind)}</text>')
        parts += [_bar(fault, begin, scale, y) for fault in faults if _kind(fault) == kind]
        y += ROW
    for name, times in acknowledged.items():
        parts += _plot(name, times, begin, end, scale, y + 8)
        y += PLOT + 8
    parts.append(f'<text x="{LEFT}" y="{y + 16}">0 s</text>')
    parts.append(f'<text x="{WIDTH - 10}" y="{y + 16}" text-anchor="end">{end - begin:.0f} s</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 24}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def longest_silence(begin: float, end: float, times: Sequence[float]) -> float:
    """The longest time in which nothing was acknowledged."""
    ordered = [begin, *sorted(times), end]
    return max(later - earlier for earlier, later in pairwise(ordered))


def _kind(fault: Shown) -> str:
    return fault.text.partition(",")[0]


def _bar(fault: Shown, begin: float, scale: float, y: int) -> str:
    def box(start: float, stop: float, colour: str) -> str:
        x, width = LEFT + (start - begin) * scale, max((stop - start) * scale, 1.5)
        return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 4}" fill="{colour}"/>'

    said = f"{fault.text}: {fault.end - fault.begin:.1f} s, well again after {fault.healed - fault.end:.1f} s"
    bars = box(fault.begin, fault.end, _FAULT) + box(fault.end, fault.healed, _HEALING)
    return f"<g><title>{escape(said)}</title>{bars}</g>"


def _plot(name: str, times: Sequence[float], begin: float, end: float, scale: float, y: int) -> list[str]:
    step = max((end - begin) / _COLUMNS, 0.05)
    counts = Counter(int((at - begin) / step) for at in times if begin <= at <= end)
    highest = max(counts.values(), default=1)
    points = " ".join(
        f"{LEFT + at * step * scale:.1f},{y + PLOT - counts[at] / highest * PLOT:.1f}"
        for at in range(int((end - begin) / step) + 1)
    )
    silence = longest_silence(begin, end, times)
    return [
        f'<text x="10" y="{y + 14}">{escape(name)}</text>',
        f'<text x="10" y="{y + 30}" fill="#555">at most {highest / step:,.0f} records/s,</text>',
        f'<text x="10" y="{y + 46}" fill="#555">longest silence {silence:.1f} s</text>',
        f'<polyline points="{points}" fill="none" stroke="{_LINE}"/>',
    ]
