"""A topology as a picture: a tree of lines for the terminal, boxes and arrows as SVG.

Invariant: every operator is drawn once; where several ways lead to one, the others point to it.
"""

from html import escape
from typing import NamedTuple

from moldau.streams.topology.topology import AnyNode, SinkNode, SourceNode, Topology

_BOX_WIDTH, _BOX_HEIGHT = 250, 44
_GAP_X, _GAP_Y, _MARGIN = 30, 38, 24
_COLORS = {"source": "#d7e8fb", "processor": "#f4f4f4", "sink": "#dff3df", "internal": "#fdeccc"}


def text_picture(topology: Topology) -> list[str]:
    """Lines for a terminal, sub-topology by sub-topology, from each source to what follows it."""
    lines: list[str] = []
    for sub_topology in topology.sub_topologies():
        title = f"Sub-topology {sub_topology.number}"
        lines += [*([""] if lines else []), title + (", in every task" if sub_topology.is_global else "")]
        drawn: set[str] = set()
        for name in sub_topology.nodes:
            if not topology.nodes[name].parents:
                lines += _branch(topology, name, "  ", "  ", drawn)
    return lines


def _branch(topology: Topology, name: str, first: str, rest: str, drawn: set[str]) -> list[str]:
    node = topology.nodes[name]
    if name in drawn:
        return [f"{first}↑ {name}"]
    drawn.add(name)
    lines = [first + label(topology, node)]
    children = topology.children(name)
    for child in children:
        is_last = child is children[-1]
        lines += _branch(
            topology,
            child.name,
            rest + ("└─ " if is_last else "├─ "),
            rest + ("   " if is_last else "│  "),
            drawn,
        )
    return lines


def label(topology: Topology, node: AnyNode) -> str:
    """What a node is, in a line."""
    if isinstance(node, SourceNode):
        return f"▶ {', '.join(node.topics)}{' (internal)' if node.is_internal else ''}"
    if isinstance(node, SinkNode):
        return f"■ {node.topic or 'a topic for each record'}{' (internal)' if node.is_internal else ''}"
    stores = f"  [{', '.join(node.stores)}]" if node.stores else ""
    return f"{node.name}{stores}"


class _Place(NamedTuple):
    x: int
    y: int


def svg_picture(topology: Topology) -> str:
    """Boxes from top to bottom, a group for each sub-topology."""
    body: list[str] = []
    top = _MARGIN
    width = 0
    for sub_topology in topology.sub_topologies():
        rows = _rows(topology, sub_topology.nodes)
        places = {
            name: _Place(_MARGIN + at * (_BOX_WIDTH + _GAP_X), top + 30 + row * (_BOX_HEIGHT + _GAP_Y))
            for row, names in enumerate(rows)
            for at, name in enumerate(names)
        }
        title = f"Sub-topology {sub_topology.number}"
        body.append(f'<text x="{_MARGIN}" y="{top + 12}" class="title">{title}</text>')
        body += [
            _arrow(places[parent], places[name]) for name in places for parent in topology.nodes[name].parents
        ]
        body += [_box(topology, name, place) for name, place in places.items()]
        width = max(width, max(place.x for place in places.values()) + _BOX_WIDTH + _MARGIN)
        top = max(place.y for place in places.values()) + _BOX_HEIGHT + _GAP_Y
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg"'
            f' width="{width}" height="{top}" viewBox="0 0 {width} {top}">',
            '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>',
            "<style>text{font:12px sans-serif}.title{font-weight:bold}"
            ".small{font-size:10px;fill:#555}</style>",
            *body,
            "</svg>",
            "",
        ]
    )


def _rows(topology: Topology, names: tuple[str, ...]) -> list[list[str]]:
    """Nodes by their longest way from a source."""
    depths: dict[str, int] = {}
    for name in names:
        depths[name] = max((depths[parent] + 1 for parent in topology.nodes[name].parents), default=0)
    rows: list[list[str]] = [[] for _ in range(max(depths.values()) + 1)]
    for name, depth in depths.items():
        rows[depth].append(name)
    return rows


def _arrow(start: _Place, end: _Place) -> str:
    middle = _BOX_WIDTH // 2
    return (
        f'<line x1="{start.x + middle}" y1="{start.y + _BOX_HEIGHT}" x2="{end.x + middle}" y2="{end.y}"'
        ' stroke="#555" marker-end="url(#head)"/>'
    )


def _box(topology: Topology, name: str, place: _Place) -> str:
    node = topology.nodes[name]
    if isinstance(node, SourceNode):
        kind, heading, detail = "source", ", ".join(node.topics), name
    elif isinstance(node, SinkNode):
        kind, heading, detail = "sink", node.topic or "a topic for each record", name
    else:
        kind, heading, detail = "processor", name, ", ".join(node.stores)
    color = _COLORS["internal" if getattr(node, "is_internal", False) else kind]
    return (
        f'<rect x="{place.x}" y="{place.y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6" fill="{color}"'
        f' stroke="#888"/><text x="{place.x + 10}" y="{place.y + 18}">{escape(_short(heading))}</text>'
        f'<text x="{place.x + 10}" y="{place.y + 34}" class="small">{escape(_short(detail, 46))}</text>'
    )


def _short(text: str, length: int = 36) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
