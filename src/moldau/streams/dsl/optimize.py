"""What may be changed in a program's graph without changing its results.

Invariant: sources of the same topics are always merged, as a topic can be read only once. Repartition topics
are merged on request alone: others may read them.
"""

from collections.abc import Callable
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
    """One repartition topic after a changed key instead of one for each use of it, named after the first.

    Where streams with changed keys are merged before, the topic comes after the merge.
    """
    by_changer: dict[int, tuple[GraphNode, list[GraphNode]]] = {}
    for node in graph.nodes:
        if node.changes_key:
            by_changer[id(node)] = (node, [])
        elif node.repartition is not None and node.is_optional:
            changer = _key_changer(node)
            if changer is not None:
                by_changer[id(changer)][1].append(node)
    _take_from_merged(graph, by_changer)
    for changer, nodes in by_changer.values():
        if nodes:
            _merge(graph, changer, nodes)


def _above(node: GraphNode, matches: Callable[[GraphNode], bool]) -> GraphNode | None:
    """The node itself or one before it that matches; of several parents the last decides, as in Kafka."""
    if matches(node):
        return node
    found = None
    for parent in node.parents:
        if matches(parent):
            return parent
        found = _above(parent, matches)
    return found


def _key_changer(node: GraphNode) -> GraphNode | None:
    """The call that changed the key, if nothing changed the value since."""
    changer = _above(node, lambda each: each.changes_key)
    return changer if changer is _above(node, lambda each: each.changes_key or each.changes_value) else None


def _take_from_merged(graph: Graph, by_changer: dict[int, tuple[GraphNode, list[GraphNode]]]) -> None:
    """Gives repartitions that all come after a merge to the merge."""
    taken: set[int] = set()
    of_merges: list[tuple[GraphNode, list[GraphNode]]] = []
    for merge in graph.nodes:
        if not merge.is_merge:
            continue
        nodes: list[GraphNode] = []
        for changer, repartitions in by_changer.values():
            is_before = _child_above(merge, changer) is not None
            if is_before and all(_child_above(each, merge) is not None for each in repartitions):
                nodes += (each for each in repartitions if each not in nodes)
                taken.add(id(changer))
        of_merges.append((merge, nodes))
    for each in taken:
        del by_changer[each]
    by_changer.update((id(merge), (merge, nodes)) for merge, nodes in of_merges)


def _child_above(node: GraphNode, parent: GraphNode) -> GraphNode | None:
    """The child of ``parent`` that leads to the node."""
    return _above(node, lambda each: parent in each.parents)


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
        top = _child_above(node, changer)
        assert top is not None
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
    """Lets records without key pass every repartition before a left or outer join, which has results for
    them.
    """
    waiting = [parent for node in graph.nodes if node.joins_null_keys for parent in node.parents]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        waiting += node.parents
        if node.repartition is not None:
            node.write = node.repartition.written(keeps_null_keys=True)


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
