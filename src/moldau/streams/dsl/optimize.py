"""What may be changed in a program's graph without changing its results.

Invariant: sources of the same topics are always merged, as a topic can be read only once. Repartition topics
are merged on request alone: others may read them.
"""

from dataclasses import replace

from moldau.streams.dsl.graph import Graph, GraphNode
from moldau.streams.errors import TopologyError


def merge_sources(nodes: list[GraphNode]) -> set[int]:
    """Lets later sources of the same topics use the first one; gives those that are left over."""
    first: dict[tuple[str, ...], GraphNode] = {}
    left_over: set[int] = set()
    for node in nodes:
        if not node.topics:
            continue
        topics = tuple(sorted(node.topics))
        if any(topics != other and set(topics) & set(other) for other in first):
            raise TopologyError(
                "Two source nodes are subscribed to overlapping but not equal input topics",
                "Read every topic once, and merge streams.",
            )
        kept = first.setdefault(topics, node)
        if kept is not node:
            for child in list(node.children):
                node.remove_child(child)
                kept.add_child(child)
            left_over.add(id(node))
    return left_over


def merge_repartitions(graph: Graph) -> None:
    """One repartition topic after a changed key instead of one for each use of it, named after the first."""
    by_changer: dict[int, tuple[GraphNode, list[GraphNode]]] = {}
    for node in graph.nodes:
        if node.repartition is not None and node.is_optional:
            changer = _key_changer(node)
            if changer is not None:
                by_changer.setdefault(id(changer), (changer, []))[1].append(node)
    for changer, nodes in by_changer.values():
        _merge(graph, changer, nodes)


def _key_changer(node: GraphNode) -> GraphNode | None:
    """The call that changed the key, if nothing changed the value since."""
    while len(node.parents) == 1:
        (node,) = node.parents
        if node.changes_key:
            return node
        if node.changes_value:
            return None
    return None


def _merge(graph: Graph, changer: GraphNode, nodes: list[GraphNode]) -> None:
    first = nodes[0].repartition
    assert first is not None
    topic = first.topic.name
    merged = replace(
        first, sink_name=f"{topic}-sink", source_name=f"{topic}-source", filter_name=f"{topic}-filter"
    )
    single = GraphNode(
        merged.source_name, merged.write, priority=changer.priority, repartition=merged, is_optional=True
    )
    for node in nodes:
        top = node
        while changer not in top.parents:
            (top,) = top.parents
        changer.remove_child(top)
        single.add_child(top)
        (parent,) = node.parents
        for child in list(node.children):
            node.remove_child(child)
            parent.add_child(child)
        parent.remove_child(node)
        graph.nodes.remove(node)
    changer.add_child(single)
    graph.nodes.insert(graph.nodes.index(changer) + 1, single)


def keep_null_keys_for_joins(graph: Graph) -> None:
    """Lets records without key pass a repartition before a left or outer join, which has results for them."""
    for node in graph.nodes:
        if node.repartition is not None and _leads_to_such_a_join(node):
            node.write = node.repartition.written(keeps_null_keys=True)


def _leads_to_such_a_join(node: GraphNode) -> bool:
    return any(
        child.joins_null_keys or (child.repartition is None and _leads_to_such_a_join(child))
        for child in node.children
    )


def simplify_self_joins(graph: Graph) -> set[int]:
    """A stream that is joined with itself is remembered once; gives the windows that are left over."""
    left_over: set[int] = set()
    for node in graph.nodes:
        if node.write_self_join is None or len(node.parents) != 2:
            continue
        left, right = node.parents
        if left.parents == right.parents and len(left.parents) == 1:
            left.parents[0].remove_child(right)
            right.remove_child(node)
            node.write = node.write_self_join
            left_over.add(id(right))
    return left_over
