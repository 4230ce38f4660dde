"""A graph as boxes and arrows in SVG: the operators of a program from top to bottom.

Invariant: pure; every node is drawn once, whatever the arrows between them are, also in circles. No style
attribute and no script; colours come from the style sheet by class.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from moldau.console.markup.html import Markup, link, tag

_BOX_WIDTH, _BOX_HEIGHT = 280, 46
_GAP_X, _GAP_Y, _MARGIN = 26, 34, 4
#: Characters that fit, were they all capitals.
_LABEL, _DETAIL = 29, 36


class GraphNode(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def detail(self) -> str: ...
    @property
    def after(self) -> tuple[str, ...]: ...


class _Place(NamedTuple):
    x: float
    y: float


def graph(
    nodes: Sequence[GraphNode], title: str, address: Callable[[str], str | None] = lambda id_: None
) -> Markup:
    """``address`` gives where a node leads to, by its id."""
    rows = layers(nodes)
    widest = max((len(row) for row in rows), default=0)
    width = 2 * _MARGIN + widest * _BOX_WIDTH + max(0, widest - 1) * _GAP_X
    height = 2 * _MARGIN + len(rows) * _BOX_HEIGHT + max(0, len(rows) - 1) * _GAP_Y
    places = {
        id_: _place(row, at, len(ids), width) for row, ids in enumerate(rows) for at, id_ in enumerate(ids)
    }
    arrows = [
        _arrow(places[node.id], places[after]) for node in nodes for after in node.after if after in places
    ]
    return tag(
        "svg",
        tag("title", title),
        arrows,
        [_box(node, places[node.id], address(node.id)) for node in nodes],
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=title,
        class_="graph",
    )


def layers(nodes: Sequence[GraphNode]) -> list[list[str]]:
    """Ids by their longest way from a beginning; in each row, children stand below their parents."""
    known = {node.id: node for node in nodes}
    before: dict[str, list[str]] = {id_: [] for id_ in known}
    for node in nodes:
        for after in node.after:
            if after in known:
                before[after].append(node.id)
    depths = _depths(known, before)
    rows: list[list[str]] = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    for id_, depth in depths.items():
        rows[depth].append(id_)
    column: dict[str, float] = {}
    for row in rows:
        row.sort(key=lambda id_: _mean([column[each] for each in before[id_] if each in column]))
        column |= {id_: at - (len(row) - 1) / 2 for at, id_ in enumerate(row)}
    return rows


def _depths(known: Mapping[str, GraphNode], before: Mapping[str, list[str]]) -> dict[str, int]:
    waiting = {id_: len(each) for id_, each in before.items()}
    depths = dict.fromkeys(known, 0)
    todo = [id_ for id_, number in waiting.items() if not number]
    left = dict.fromkeys(known)
    while left:
        if not todo:  # a circle: it is cut at the first node that was given
            todo.append(next(iter(left)))
        id_ = todo.pop(0)
        if id_ not in left:
            continue
        del left[id_]
        for after in known[id_].after:
            if after in left:
                depths[after] = max(depths[after], depths[id_] + 1)
                waiting[after] -= 1
                if waiting[after] <= 0:
                    todo.append(after)
    return depths


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def _place(row: int, at: int, number: int, width: float) -> _Place:
    own = number * _BOX_WIDTH + (number - 1) * _GAP_X
    return _Place((width - own) / 2 + at * (_BOX_WIDTH + _GAP_X), _MARGIN + row * (_BOX_HEIGHT + _GAP_Y))


def _arrow(start: _Place, end: _Place) -> Markup:
    x1, y1 = start.x + _BOX_WIDTH / 2, start.y + _BOX_HEIGHT
    x2, y2 = end.x + _BOX_WIDTH / 2, end.y
    bend = max(_GAP_Y / 2, abs(y2 - y1) / 3)
    way = f"M{x1:.0f},{y1:.0f} C{x1:.0f},{y1 + bend:.0f} {x2:.0f},{y2 - bend:.0f} {x2:.0f},{y2 - 5:.0f}"
    head = f"M{x2 - 4:.0f},{y2 - 7:.0f} L{x2:.0f},{y2 - 1:.0f} L{x2 + 4:.0f},{y2 - 7:.0f} z"
    return tag("g", tag("path", d=way, class_="way"), tag("path", d=head, class_="head"))


def _box(node: GraphNode, place: _Place, address: str | None) -> Markup:
    below = node.detail
    middle = place.y + (19 if below else 28)
    drawn = tag(
        "g",
        tag("title", f"{node.label} {below}".strip()),
        tag("rect", x=place.x, y=place.y, width=_BOX_WIDTH, height=_BOX_HEIGHT, rx=8),
        tag("text", _short(node.label, _LABEL), x=place.x + 11, y=middle, class_="label"),
        tag("text", _short(below, _DETAIL), x=place.x + 11, y=place.y + 36) if below else None,
        class_=f"box {node.kind}",
    )
    return drawn if address is None else link(address, drawn)


def _short(text: str, length: int) -> str:
    """The ends of long names matter: KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition."""
    if len(text) <= length:
        return text
    half = (length - 1) // 2
    return f"{text[:half]}…{text[-(length - 1 - half) :]}"
