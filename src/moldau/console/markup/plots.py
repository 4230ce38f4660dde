"""Plots as SVG: lines over time and bars, made of numbers alone.

Invariant: pure; no style attribute and no script, so that the strictest policy of a browser shows them.
Colours come from the style sheet by class.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from moldau.console.markup.html import Markup, joined, tag
from moldau.console.markup.words import moment

#: A moment in milliseconds since 1970, and a number.
Points = Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Size:
    width: int = 440
    height: int = 150


LARGE = Size()
#: For a plot over the whole width of a page.
WIDE = Size(900, 170)
SMALL = Size(110, 26)
_MARGIN_LEFT, _MARGIN_RIGHT, _MARGIN_TOP, _MARGIN_BOTTOM = 56, 8, 10, 20


def short(number: float) -> str:
    """A number in four characters or so: 12.5k."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= limit:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.3g}"


def wide_plot(points: Points, title: str, *, unit: str = "") -> Markup:
    """A plot over the whole width of a page: a flat one, and another where a page is narrow."""
    if len(points) < 2:
        return line_plot(points, title, unit=unit)
    return joined(
        line_plot(points, title, unit=unit, size=WIDE, class_="for-wide"),
        line_plot(points, title, unit=unit, class_="for-narrow"),
    )


def line_plot(points: Points, title: str, *, unit: str = "", size: Size = LARGE, class_: str = "") -> Markup:
    """A line with its scale; an empty box with a word where there are less than two points."""
    if len(points) < 2:
        return tag("p", f"{title}: collecting; the plot begins with the second look.", class_="empty plot")
    top = _round_up(max(value for _, value in points))
    inner_width = size.width - _MARGIN_LEFT - _MARGIN_RIGHT
    inner_height = size.height - _MARGIN_TOP - _MARGIN_BOTTOM
    line = _polyline(points, _MARGIN_LEFT, _MARGIN_TOP, inner_width, inner_height, top)
    base = _MARGIN_TOP + inner_height
    area = f"{_MARGIN_LEFT},{base} {line} {_MARGIN_LEFT + inner_width},{base}"
    grid = [
        joined(
            tag("line", x1=_MARGIN_LEFT, x2=size.width - _MARGIN_RIGHT, y1=y, y2=y, class_="grid"),
            tag("text", short(value), x=_MARGIN_LEFT - 6, y=y + 4, text_anchor="end"),
        )
        for value, y in ((top, _MARGIN_TOP), (top / 2, _MARGIN_TOP + inner_height / 2), (0, base))
    ]
    first, last = moment(points[0][0])[11:16], moment(points[-1][0])[11:16]
    times = [
        tag("text", first, x=_MARGIN_LEFT, y=size.height - 4),
        tag("text", f"{last} UTC", x=size.width - _MARGIN_RIGHT, y=size.height - 4, text_anchor="end"),
    ]
    now = f"{title}: {short(points[-1][1])}{' ' + unit if unit else ''} now, {short(top)} at the top"
    return tag(
        "svg",
        tag("title", now),
        grid,
        tag("polygon", points=area, class_="area"),
        tag("polyline", points=line, class_="line"),
        times,
        viewBox=f"0 0 {size.width} {size.height}",
        role="img",
        class_=f"plot {class_}".strip(),
    )


def sparkline(points: Points, title: str) -> Markup:
    """A small line without a scale."""
    top = max((value for _, value in points), default=0.0)
    if len(points) < 2 or top <= 0:
        return tag("span", class_="spark")
    line = _polyline(points, 1, 2, SMALL.width - 2, SMALL.height - 4, top)
    return tag(
        "svg",
        tag("title", title),
        tag("polyline", points=line, class_="line"),
        viewBox=f"0 0 {SMALL.width} {SMALL.height}",
        role="img",
        class_="spark",
    )


def bar(share: float, title: str = "") -> Markup:
    """A bar of a part of a whole, 0 to 1."""
    width = round(100 * min(max(share, 0.0), 1.0), 1)
    return tag(
        "svg",
        tag("title", title) if title else None,
        tag("rect", x=0, y=0, width=100, height=8, rx=3, class_="bar-back"),
        tag("rect", x=0, y=0, width=width, height=8, rx=3, class_="bar-fill"),
        viewBox="0 0 100 8",
        preserveAspectRatio="none",
        role="img",
        class_="bar",
    )


def _polyline(points: Points, left: float, top: float, width: float, height: float, most: float) -> str:
    begin, end = points[0][0], points[-1][0]
    span = max(end - begin, 1)
    return " ".join(
        f"{left + width * (time - begin) / span:.1f},"
        f"{top + height * (1 - min(max(value, 0.0), most) / most):.1f}"
        for time, value in points
    )


def _round_up(value: float) -> float:
    """1, 2 or 5 times a power of ten: what a scale ends with."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next(power * step for step in (1, 2, 5, 10) if power * step >= value)
