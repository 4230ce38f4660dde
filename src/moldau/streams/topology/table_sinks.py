"""Which topics get the rows of a table, so that of several results for a key only the last one matters.

Pure.
"""

from moldau.streams.engine.nodes import PassThrough
from moldau.streams.engine.stateless import Filter, MapValues, Peek, ToStream
from moldau.streams.topology.topology import ProcessorNode, Topology

#: What leaves a row its key.
_KEEPS_KEYS = (PassThrough, Filter, MapValues, Peek)


def table_sinks(topology: Topology) -> frozenset[str]:
    """Topics that get nothing but rows of tables under the tables' own keys."""
    topics = {sink.topic for sink in topology.sinks() if sink.topic is not None and not sink.is_internal}
    others = {
        sink.topic for sink in topology.sinks() if not all(_is_table(topology, each) for each in sink.parents)
    }
    return frozenset(topic for topic in topics if topic not in others)


def _is_table(topology: Topology, name: str) -> bool:
    node = topology.nodes[name]
    if not isinstance(node, ProcessorNode):
        return False
    kind = getattr(node.make, "func", node.make)
    if kind is ToStream:
        return True
    return kind in _KEEPS_KEYS and all(_is_table(topology, each) for each in node.parents)
