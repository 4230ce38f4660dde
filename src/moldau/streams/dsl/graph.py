"""The logical graph: what the calls of the DSL add up to before it becomes a topology.

Invariant: names and numbers are given in the order of the calls, exactly as Kafka Streams gives them: a name
that is not used still takes its number.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from moldau.streams.engine.nodes import Node, PassThrough, Sink
from moldau.streams.engine.records import KeyBytes, plain_key_bytes
from moldau.streams.engine.stateless import Filter
from moldau.streams.errors import TopologyError
from moldau.streams.topology.topology import (
    ProcessorNode,
    RepartitionTopic,
    SinkNode,
    SourceNode,
    StoreSpec,
    Topology,
)

#: "kafka" follows Kafka Streams everywhere; "plain" leaves out five rules that look like its defects.
Semantics = Literal["kafka", "plain"]


class Spec:
    """How an operator will be made. Its options may still change while the program is being built."""

    __slots__ = ("arguments", "kind", "options")

    def __init__(self, kind: Callable[..., Node], *arguments: Any, **options: Any) -> None:
        self.kind = kind
        self.arguments = arguments
        self.options = options

    def factory(self) -> Callable[[], Node]:
        return partial(self.kind, *self.arguments, **self.options)


#: Writes the operators of a graph node; gets the topology and the names of the operators before it.
Write = Callable[[Topology, tuple[str, ...]], None]


@dataclass(slots=True, eq=False)
class GraphNode:
    """One call of the DSL. ``name`` is the operator that its results come from."""

    name: str
    write: Write
    parents: list["GraphNode"] = field(default_factory=list)
    children: list["GraphNode"] = field(default_factory=list)
    priority: int = 0
    changes_key: bool = False
    changes_value: bool = False
    #: Set on repartitions of streams, and whether they may be merged with others of the same key.
    repartition: "Repartition | None" = None
    is_optional: bool = False
    #: Set on merges of streams.
    is_merge: bool = False
    #: Set on left and outer joins of streams, which have results for records without key.
    joins_null_keys: bool = False
    #: Set on joins of two streams: how the join is written where both are one stream.
    write_self_join: "Write | None" = None
    #: Set on sources, which may be merged with others of the same topics.
    topics: tuple[str, ...] = ()

    def add_child(self, child: "GraphNode") -> None:
        if child not in self.children:
            self.children.append(child)
            child.parents.append(self)

    def remove_child(self, child: "GraphNode") -> None:
        if child in self.children:
            self.children.remove(child)
            child.parents.remove(self)


@dataclass(frozen=True, slots=True)
class Repartition:
    """A topic in between, so that records with equal keys meet in one task."""

    topic: RepartitionTopic
    sink_name: str
    source_name: str
    key_serde: Any
    value_serde: Any
    #: Empty for the groups of a table, whose keys are checked before.
    filter_name: str = ""

    def written(self, *, keeps_null_keys: bool) -> Write:
        return partial(self.write, keeps_null_keys=keeps_null_keys)

    def write(self, topology: Topology, parents: tuple[str, ...], *, keeps_null_keys: bool = False) -> None:
        if self.filter_name:
            keep = Spec(Filter, _any if keeps_null_keys else _has_key)
            topology.add(ProcessorNode(self.filter_name, parents, keep.factory()))
            parents = (self.filter_name,)
        topic = self.topic.name
        topology.add(
            SinkNode(
                self.sink_name,
                parents,
                partial(Sink, topic),
                topic,
                self.key_serde,
                self.value_serde,
                is_internal=True,
            )
        )
        topology.add(
            SourceNode(self.source_name, (topic,), self.key_serde, self.value_serde, is_internal=True)
        )
        topology.repartition_topics[topic] = self.topic


def _has_key(key: Any, value: Any) -> bool:
    return key is not None


def _any(key: Any, value: Any) -> bool:
    return True


class Graph:
    """All graph nodes in the order of the calls, and the counter that names come from."""

    def __init__(
        self,
        default_key_serde: Any = None,
        default_value_serde: Any = None,
        semantics: Semantics = "kafka",
    ) -> None:
        self.is_plain = semantics == "plain"
        self.default_key_serde = default_key_serde
        self.default_value_serde = default_value_serde
        self.nodes: list[GraphNode] = []
        self.copartition_groups: list[frozenset[str]] = []
        #: Stores that were added by themselves, for processors to name.
        self.declared_stores: dict[str, StoreSpec] = {}
        self._number = 0

    def store(self, store: Any) -> StoreSpec:
        """The store of a processor: one that it brings, or the name of one that was added before."""
        if not isinstance(store, str):
            spec: StoreSpec = store.spec(self)
            return spec
        if store not in self.declared_stores:
            raise TopologyError(
                f"StateStore {store} is not added yet.",
                "Call builder.add_state_store(Stores.key_value(…)) before.",
            )
        return self.declared_stores[store]

    # --- names --------------------------------------------------------------------------------------

    def new_name(self, prefix: str) -> str:
        name = f"{prefix}{self._number:010d}"
        self._number += 1
        return name

    def new_store_name(self, prefix: str) -> str:
        return self.new_name(f"{prefix}STATE-STORE-")

    def name_or_new(self, name: str | None, prefix: str, suffix: str = "") -> str:
        """The given name with a suffix, or a new one; a number is taken in any case."""
        new = self.new_name(prefix)
        return f"{name}{suffix}" if name is not None else new

    # --- nodes --------------------------------------------------------------------------------------

    def add(self, parents: Sequence[GraphNode], node: GraphNode) -> GraphNode:
        for parent in parents:
            parent.add_child(node)
        node.priority = len(self.nodes)
        self.nodes.append(node)
        return node

    def add_processor(
        self,
        parents: Sequence[GraphNode],
        name: str,
        spec: Spec,
        stores: Sequence[StoreSpec] = (),
        *,
        changes_key: bool = False,
        changes_value: bool = False,
    ) -> GraphNode:
        def write(topology: Topology, parent_names: tuple[str, ...]) -> None:
            names = tuple(store.name for store in stores)
            topology.add(ProcessorNode(name, parent_names, spec.factory(), names))
            for store in stores:
                topology.add_store(store)

        node = GraphNode(name, write, changes_key=changes_key, changes_value=changes_value)
        return self.add(parents, node)

    def add_repartition(
        self,
        parent: GraphNode,
        prefix: str,
        key_serde: Any,
        value_serde: Any,
        *,
        partitions: int | None = None,
        is_optional: bool = True,
    ) -> GraphNode:
        """A repartition topic after ``parent``; ``is_optional`` ones may be merged with their likes."""
        repartition = self.new_repartition(prefix, key_serde, value_serde, partitions)
        node = GraphNode(repartition.source_name, repartition.write)
        node.repartition = repartition
        node.is_optional = is_optional
        return self.add([parent], node)

    def new_repartition(
        self, prefix: str, key_serde: Any, value_serde: Any, partitions: int | None = None
    ) -> Repartition:
        topic = prefix if prefix.endswith("-repartition") else f"{prefix}-repartition"
        sink = self.new_name("KSTREAM-SINK-")
        keys = self.new_name("KSTREAM-FILTER-")
        source = self.new_name("KSTREAM-SOURCE-")
        if not _is_generated(topic):
            sink, keys, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
        return Repartition(RepartitionTopic(topic, partitions), sink, source, key_serde, value_serde, keys)

    def copartition(self, sources: frozenset[str]) -> None:
        self.copartition_groups.append(sources)

    # --- serdes -------------------------------------------------------------------------------------

    def key_bytes(self, serde: Any) -> KeyBytes:
        """Where keys stand in a store: by their bytes."""
        return _bytes_by(serde if serde is not None else self.default_key_serde)

    def value_bytes(self, serde: Any) -> Callable[[Any], bytes]:
        return _bytes_by(serde if serde is not None else self.default_value_serde)


def _bytes_by(serde: Any) -> Callable[[Any], bytes]:
    """What a store sees of a value: the bytes of its serde, or of one that needs no topic."""
    if serde is None:
        return plain_key_bytes
    store_bytes: Callable[[Any], bytes] | None = getattr(serde, "store_bytes", None)
    return store_bytes or partial(_serialized, serde)


def _serialized(serde: Any, value: Any) -> bytes:
    data: bytes = serde.serialize("", value)
    return data


def _is_generated(topic: str) -> bool:
    """Whether a repartition topic is named after an operator that has no name of its own."""
    number = topic.removesuffix("-repartition").rsplit("-", 1)[-1]
    return topic.startswith("KSTREAM") and len(number) == 10 and number.isdigit()


def merge_node(graph: Graph, name: str, parents: Sequence[GraphNode]) -> GraphNode:
    return graph.add_processor(parents, name, Spec(PassThrough))
