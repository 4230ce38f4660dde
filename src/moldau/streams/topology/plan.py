"""A topology as plain values, for whoever draws it elsewhere: topics, operators, and what follows what.

    {"id": "MAP-1", "kind": "processor", "label": "MAP-1", "stores": [], "after": ["out:counts"]}

Invariant: every node of the topology is in it, and every topic between two sub-topologies once, so that the
whole program is one graph. A topic that is read and also written is two: no way leads in a circle. Pure.
"""

from collections.abc import Callable
from typing import Any

from moldau.streams.topology.topology import SinkNode, SourceNode, Topology

#: Larger programs are drawn by ``moldau streams plan --svg``; their plan is not sent with every status.
MAX_NODES = 300

Plan = tuple[dict[str, Any], ...]


def plan(topology: Topology, name_of: Callable[[str], str] = str) -> Plan:
    """Empty for a topology of more than MAX_NODES nodes; ``name_of`` gives a topic's name in the cluster."""
    if len(topology.nodes) > MAX_NODES:
        return ()
    nodes: dict[str, dict[str, Any]] = {}

    def add(id_: str, kind: str, label: str, **more: Any) -> dict[str, Any]:
        return nodes.setdefault(id_, {"id": id_, "kind": kind, "label": label, **more, "after": []})

    def topic(name: str, kind: str) -> dict[str, Any]:
        if topology.is_internal(name):
            return add(f"between:{name}", "internal", name, topic=name_of(name))
        return add(f"{'in' if kind == 'source' else 'out'}:{name}", kind, name, topic=name_of(name))

    for node in topology.nodes.values():
        if isinstance(node, SourceNode):
            children = [each.name for each in topology.children(node.name)]
            for each in node.topics:
                topic(each, "source")["after"] += [_place(topology, child) for child in children]
        elif isinstance(node, SinkNode):
            if node.topic is None:
                add(f"out:{node.name}", "sink", "a topic for each record")
            else:
                topic(node.topic, "sink")
        else:
            children = [each.name for each in topology.children(node.name)]
            found = add(node.name, "processor", node.name, stores=list(node.stores))
            found["after"] += [_place(topology, child) for child in children]
    return tuple(nodes.values())


def _place(topology: Topology, name: str) -> str:
    """Where the graph has a node: a sink is its topic."""
    node = topology.nodes[name]
    if not isinstance(node, SinkNode):
        return name
    if node.topic is None:
        return f"out:{name}"
    return f"{'between' if topology.is_internal(node.topic) else 'out'}:{node.topic}"
