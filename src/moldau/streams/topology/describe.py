"""``Topology.describe()``, letter for letter as Kafka Streams prints it.

Invariant: the order of nodes is Kafka's: by the size of what follows them, then by name, with the order of
Java's sets where that shows.
"""

from collections.abc import Iterable
from functools import cmp_to_key

from moldau.streams.engine.java import TreeSet, hash_order
from moldau.streams.topology.topology import AnyNode, SinkNode, SourceNode, SubTopology, Topology


class _Drawn:
    """A node with its neighbours, and the number of nodes that follow it."""

    def __init__(self, node: AnyNode) -> None:
        self.node = node
        self.name = node.name
        self.size = 1
        self.before: TreeSet[_Drawn] = TreeSet(_compared)
        self.after: TreeSet[_Drawn] = TreeSet(_compared)


def _compared(one: _Drawn, other: _Drawn) -> int:
    if one is other:
        return 0
    if one.size != other.size:
        return other.size - one.size
    return -1 if one.name < other.name else 1


_by_size = cmp_to_key(_compared)


def described(topology: Topology) -> str:
    text = "Topologies:\n "
    for sub_topology in topology.sub_topologies():
        text += "  " + _sub_topology_text(topology, sub_topology)
    return text


def _sub_topology_text(topology: Topology, sub_topology: SubTopology) -> str:
    drawn = _connected(topology, sub_topology)
    if sub_topology.is_global:
        heading = f"Sub-topology: {sub_topology.number} for global store (will not generate tasks)\n"
        return heading + "".join(f"    {_node_text(topology, drawn[name])}\n" for name in sub_topology.nodes)
    nodes = sorted(drawn.values(), key=_by_size)
    lines = "".join(f"    {_node_text(topology, each)}\n" for each in nodes)
    return f"Sub-topology: {sub_topology.number}\n{lines}\n"


def _connected(topology: Topology, sub_topology: SubTopology) -> dict[str, _Drawn]:
    drawn = {name: _Drawn(topology.nodes[name]) for name in hash_order(sub_topology.nodes)}
    for each in drawn.values():
        for parent_name in each.node.parents:
            parent = drawn[parent_name]
            each.before.add(parent)
            parent.after.add(each)
            _grow(parent, each.size)
    return drawn


def _grow(drawn: _Drawn, by: int) -> None:
    drawn.size += by
    for parent in drawn.before:
        _grow(parent, by)


def _node_text(topology: Topology, drawn: _Drawn) -> str:
    node = drawn.node
    after, before = _names(drawn.after), _names(drawn.before)
    if isinstance(node, SourceNode):
        topics = ", ".join(hash_order(node.topics))
        return f"Source: {node.name} (topics: [{topics}])\n      --> {after}"
    if isinstance(node, SinkNode):
        target = f"topic: {node.topic}" if node.topic is not None else "extractor class: a function"
        return f"Sink: {node.name} ({target})\n      <-- {before}"
    stores = ", ".join(hash_order(node.stores))
    return f"Processor: {node.name} (stores: [{stores}])\n      --> {after}\n      <-- {before}"


def _names(nodes: Iterable[_Drawn]) -> str:
    return ", ".join(each.name for each in nodes) or "none"
