"""The topology itself: nodes by name, stores, and how they fall apart into sub-topologies.

Invariant: nodes stand in the order in which Kafka Streams would have added them; names, the order of children
and the numbers of sub-topologies follow from that.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from moldau.streams.engine.nodes import Node
from moldau.streams.engine.records import Input
from moldau.streams.engine.stores.store import Store
from moldau.streams.errors import TopologyError

#: Gives the time of a record; the second argument is the largest time that its partition has had.
TimestampExtractor = Callable[[Input, int], int]


@dataclass(frozen=True, slots=True)
class SourceNode:
    name: str
    topics: tuple[str, ...]
    key_serde: Any = None
    value_serde: Any = None
    timestamp_extractor: TimestampExtractor | None = None
    is_internal: bool = False
    parents: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessorNode:
    name: str
    parents: tuple[str, ...]
    make: Callable[[], Node]
    stores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkNode:
    name: str
    parents: tuple[str, ...]
    make: Callable[[], Node]
    topic: str | None
    key_serde: Any = None
    value_serde: Any = None
    is_internal: bool = False
    stores: tuple[str, ...] = ()
    #: Called with topic, key, value and number of partitions; None is Kafka's default.
    partitioner: Callable[[str, Any, Any, int], int] | None = None


AnyNode = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """How a store is made, and what of it would be seen in a cluster."""

    name: str
    make: Callable[[], Store]
    is_logged: bool = True
    is_global: bool = False
    key_serde: Any = None
    value_serde: Any = None
    #: None where rows stay for ever.
    retention_ms: int | None = None

    @property
    def changelog(self) -> str:
        return f"{self.name}-changelog"


@dataclass(frozen=True, slots=True)
class RepartitionTopic:
    """A topic that the program writes and reads itself to bring equal keys together."""

    name: str
    #: Given by ``repartition(partitions=…)``; else as many as what it is joined with has.
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class SubTopology:
    number: int
    nodes: tuple[str, ...]
    is_global: bool


@dataclass(slots=True)
class Topology:
    #: Serdes of topics and stores that have none of their own.
    default_key_serde: Any = None
    default_value_serde: Any = None
    nodes: dict[str, AnyNode] = field(default_factory=dict)
    stores: dict[str, StoreSpec] = field(default_factory=dict)
    repartition_topics: dict[str, RepartitionTopic] = field(default_factory=dict)
    #: Names of source nodes whose topics must have the same number of partitions.
    copartition_groups: list[frozenset[str]] = field(default_factory=list)
    global_sources: set[str] = field(default_factory=set)
    #: Stores that need no changelog, as the topic of their table is one.
    reused_topics: dict[str, str] = field(default_factory=dict)

    # --- building -----------------------------------------------------------------------------------

    def add(self, node: AnyNode) -> None:
        if node.name in self.nodes:
            raise TopologyError(
                f"Processor {node.name} is already added.", "Give one of the two another name."
            )
        if isinstance(node, SourceNode):
            taken = {topic for source in self.sources() for topic in source.topics}
            for topic in node.topics:
                if topic in taken:
                    raise TopologyError(
                        f"Topic {topic} has already been registered by another source.",
                        "Read it once and use the result twice; stream.to_table() makes a table of a stream.",
                    )
        for parent in node.parents:
            if parent not in self.nodes:
                raise TopologyError(f"Predecessor processor {parent} is not added yet for {node.name}")
        self.nodes[node.name] = node

    def add_store(self, spec: StoreSpec) -> None:
        known = self.stores.get(spec.name)
        if known is not None and known is not spec:
            raise TopologyError(
                f"A different StateStore has already been added with the name {spec.name}",
                "Give each store a name of its own.",
            )
        self.stores[spec.name] = spec

    # --- looking ------------------------------------------------------------------------------------

    def sources(self) -> list[SourceNode]:
        return [node for node in self.nodes.values() if isinstance(node, SourceNode)]

    def sinks(self) -> list[SinkNode]:
        return [node for node in self.nodes.values() if isinstance(node, SinkNode)]

    def children(self, name: str) -> list[AnyNode]:
        return [node for node in self.nodes.values() if name in node.parents]

    def source_of(self, topic: str) -> SourceNode | None:
        return next((source for source in self.sources() if topic in source.topics), None)

    def is_internal(self, topic: str) -> bool:
        return topic in self.repartition_topics

    def sub_topologies(self) -> list[SubTopology]:
        """Groups of nodes that records or stores connect, numbered by their first source."""
        groups = _Groups(self.nodes)
        for node in self.nodes.values():
            groups.unite((node.name, *node.parents))
        by_store: dict[str, list[str]] = {}
        for node in self.nodes.values():
            for store in node.stores:
                if store in self.stores and not self.stores[store].is_global:
                    by_store.setdefault(store, []).append(node.name)
        for users in by_store.values():
            groups.unite(users)
        first = [node.name for node in self.sources()]
        members = groups.members([*first, *self.nodes])
        return [
            SubTopology(number, tuple(names), any(name in self.global_sources for name in names))
            for number, names in enumerate(members)
        ]

    def describe(self) -> str:
        """The text that Kafka's ``Topology.describe()`` prints."""
        from moldau.streams.topology.describe import described

        return described(self)


class _Groups:
    """Names that belong together."""

    def __init__(self, names: Iterable[str]) -> None:
        self._group = {name: {name} for name in names}

    def unite(self, names: Sequence[str]) -> None:
        for name in names[1:]:
            one, other = self._group[names[0]], self._group[name]
            if one is other:
                continue
            one |= other
            for member in other:
                self._group[member] = one

    def members(self, names: Iterable[str]) -> list[list[str]]:
        """The groups in the order in which ``names`` first touch them; their members in the order of the
        graph.
        """
        found: dict[int, set[str]] = {}
        for name in names:
            found.setdefault(id(self._group[name]), self._group[name])
        return [[name for name in self._group if name in group] for group in found.values()]
