"""How a join of two streams is laid out: two windows, two sides, a merge, a store for what found no partner.

Invariant: names and numbers are Kafka's. A side whose keys changed goes through a repartition topic first.
"""

from functools import partial
from typing import Any

from moldau.streams.dsl.functions import Function
from moldau.streams.dsl.graph import Graph, GraphNode, Spec
from moldau.streams.dsl.options import StreamJoined
from moldau.streams.dsl.streams import KStream
from moldau.streams.dsl.windows import JoinWindows
from moldau.streams.engine.nodes import PassThrough
from moldau.streams.engine.stores.buffers import UnmatchedStore
from moldau.streams.engine.stores.windows import JoinStore
from moldau.streams.engine.stream_joins import JoinWindow, SelfJoin, StreamJoin
from moldau.streams.topology.topology import ProcessorNode, StoreSpec, Topology


class _Names:
    """The names of a join; the order in which they are made is the order of their numbers."""

    def __init__(self, graph: Graph, named: str | None, store_name: str | None, kind: str) -> None:
        is_outer, is_inner = kind == "outer", kind == "join"
        self.left_window = graph.name_or_new(named, "KSTREAM-WINDOWED-", "-this-windowed")
        self.right_window = graph.name_or_new(named, "KSTREAM-WINDOWED-", "-other-windowed")
        this_new = graph.new_name("KSTREAM-OUTERTHIS-" if is_outer else "KSTREAM-JOINTHIS-")
        other_new = graph.new_name("KSTREAM-JOINOTHER-" if is_inner else "KSTREAM-OUTEROTHER-")
        self.merge = graph.name_or_new(named, "KSTREAM-MERGE-", "-merge")
        this_suffix = "-outer-this-join" if is_outer else "-this-join"
        other_suffix = "-other-join" if is_inner else "-outer-other-join"
        self.this = f"{named}{this_suffix}" if named else this_new
        self.other = f"{named}{other_suffix}" if named else other_new
        self.left_store = (f"{store_name}{this_suffix}" if store_name else this_new) + "-store"
        self.right_store = (f"{store_name}{other_suffix}" if store_name else other_new) + "-store"
        self.unmatched: str | None = None
        if not is_inner:
            number = this_new.rsplit("-", 1)[1]
            shared = f"{store_name}-{'outer' if is_outer else 'left'}-shared-join" if store_name else ""
            self.unmatched = (shared or f"KSTREAM-OUTERSHARED-{number}") + "-store"


def join_streams(
    left: KStream[Any, Any],
    right: KStream[Any, Any],
    joiner: Function,
    windows: JoinWindows,
    options: StreamJoined,
    kind: str,
) -> KStream[Any, Any]:
    graph, named = left.graph, options.name
    left = left.repartitioned_for_join(f"{named}-left" if named is not None else None)
    right = right.repartitioned_for_join(f"{named}-right" if named is not None else None)
    sources = left.sources | right.sources
    graph.copartition(sources)
    names = _Names(graph, named, options.store_name, kind)
    key_serde = options.key_serde or left.key_serde
    left_store = _join_store(graph, names.left_store, key_serde, left, windows)
    right_store = _join_store(graph, names.right_store, key_serde, right, windows)
    window = Spec(JoinWindow, left_store.name)
    left_node = graph.add_processor([left.node], names.left_window, window, [left_store])
    window = Spec(JoinWindow, right_store.name)
    right_node = graph.add_processor([right.node], names.right_window, window, [right_store])
    unmatched = None
    if names.unmatched is not None:
        make = partial(UnmatchedStore, names.unmatched, graph.key_bytes(key_serde))
        unmatched = StoreSpec(names.unmatched, make, retention_ms=windows.size_ms + windows.grace_ms)
    within: dict[str, Any] = {
        "before_ms": windows.before_ms,
        "after_ms": windows.after_ms,
        "grace_ms": windows.grace_ms,
    }
    side = partial(StreamJoin, **within, is_plain=graph.is_plain)
    this = Spec(side, names.merge, right_store.name, names.unmatched, joiner, is_left=True)
    this.options["is_outer"] = kind != "join"
    other = Spec(side, names.merge, left_store.name, names.unmatched, joiner, is_left=False)
    other.options["is_outer"] = kind == "outer"

    def write(topology: Topology, parents: tuple[str, ...]) -> None:
        shared = (unmatched.name,) if unmatched is not None else ()
        read = (right_store.name, *shared)
        topology.add(ProcessorNode(names.this, (names.left_window,), this.factory(), read))
        read = (left_store.name, *shared)
        topology.add(ProcessorNode(names.other, (names.right_window,), other.factory(), read))
        topology.add(ProcessorNode(names.merge, (names.this, names.other), PassThrough))
        if unmatched is not None:
            topology.add_store(unmatched)

    def write_self_join(topology: Topology, parents: tuple[str, ...]) -> None:
        make = partial(SelfJoin, left_store.name, joiner, **within)
        topology.add(ProcessorNode(names.merge, parents, make, (left_store.name,)))

    node = graph.add([left_node, right_node], GraphNode(names.merge, write, changes_value=True))
    node.write_self_join = write_self_join
    node.joins_null_keys = kind != "join"
    return KStream(graph, node, sources, key_serde)


def _join_store(
    graph: Graph, name: str, key_serde: Any, stream: KStream[Any, Any], windows: JoinWindows
) -> StoreSpec:
    retention_ms = windows.size_ms + windows.grace_ms
    make = partial(JoinStore, name, graph.key_bytes(key_serde), retention_ms)
    return StoreSpec(
        name, make, key_serde=key_serde, value_serde=stream.value_serde, retention_ms=retention_ms
    )
