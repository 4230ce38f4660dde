"""``StreamsBuilder``: where a program begins, and where it becomes a topology.

Invariant: ``build`` gives a topology of its own each time. What it optimized stays so in the program.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from moldau.streams.dsl.graph import Graph, GraphNode, Semantics, Spec
from moldau.streams.dsl.optimize import (
    keep_null_keys_for_joins,
    merge_repartitions,
    merge_sources,
    simplify_self_joins,
)
from moldau.streams.dsl.options import Consumed, Materialized, materialized_of
from moldau.streams.dsl.stores import StoreBuilder, table_store
from moldau.streams.dsl.streams import KStream, write_table_source
from moldau.streams.dsl.suppliers import SourceSupplier
from moldau.streams.dsl.tables import GlobalKTable, KTable
from moldau.streams.engine.tables import GlobalTableSource, TableSource
from moldau.streams.topology.topology import ProcessorNode, SourceNode, Topology

_MERGE_REPARTITIONS, _REUSE_TOPICS = "merge.repartition.topics", "reuse.ktable.source.topics"
_SELF_JOINS = "single.store.self.join"


class StreamsBuilder:
    """The beginning of a program: topics become streams and tables.

    The serdes are those of topics and stores that are given none of their own. ``semantics="plain"`` leaves
    out five rules of Kafka Streams that look like defects (docs/decisions/0018-streams-semantics.md).
    """

    def __init__(
        self,
        default_key_serde: Any = None,
        default_value_serde: Any = None,
        *,
        semantics: Semantics = "kafka",
    ) -> None:
        self.graph = Graph(default_key_serde, default_value_serde, semantics)
        #: Stores of tables whose topic can serve as their changelog.
        self._reusable: list[tuple[SourceSupplier, str]] = []

    def stream(
        self, topics: str | Sequence[str], consumed: Consumed | str | None = None
    ) -> KStream[Any, Any]:
        """The records of one topic or of several."""
        options = _consumed(consumed)
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        name = self.graph.name_or_new(options.name, "KSTREAM-SOURCE-")
        node = GraphNode(name, partial(_write_source, name, names, options), topics=names)
        self.graph.add([], node)
        return KStream(self.graph, node, frozenset([name]), options.key_serde, options.value_serde)

    def table(
        self,
        topic: str,
        materialized: Materialized | str | None = None,
        consumed: Consumed | str | None = None,
    ) -> KTable[Any, Any]:
        """A topic as a table: the last value for each key."""
        graph, options = self.graph, _consumed(consumed)
        store_options = materialized_of(materialized) or Materialized()
        store_name = store_options.store_name or graph.new_store_name(f"{topic}-")
        source = graph.name_or_new(options.name, "KSTREAM-SOURCE-", "-source")
        name = graph.name_or_new(options.name, "KTABLE-SOURCE-")
        key_serde = store_options.key_serde or options.key_serde
        value_serde = store_options.value_serde or options.value_serde
        supplier = SourceSupplier(
            Spec(TableSource, store_name=None),
            partial(table_store, graph, store_name, store_options, key_serde, value_serde),
            is_kept=store_options.store_name is not None,
            history_ms=store_options.history_ms,
        )
        self._reusable.append((supplier, topic))

        def write(topology: Topology, parents: tuple[str, ...]) -> None:
            _write_source(source, (topic,), options, topology, parents)
            write_table_source(name, supplier, topology, (source,))

        node = graph.add([], GraphNode(name, write))
        return KTable(graph, node, frozenset([source]), supplier, key_serde, value_serde)

    def global_table(
        self,
        topic: str,
        materialized: Materialized | str | None = None,
        consumed: Consumed | str | None = None,
    ) -> GlobalKTable[Any, Any]:
        """A topic as a table of which every task has all rows."""
        graph, options = self.graph, _consumed(consumed)
        store_options = materialized_of(materialized) or Materialized()
        store_name = store_options.store_name or graph.new_store_name(f"{topic}-")
        source = graph.name_or_new(options.name, "KSTREAM-SOURCE-", "-source")
        name = graph.name_or_new(options.name, "KTABLE-SOURCE-")
        supplier = SourceSupplier(
            Spec(TableSource, store_name=None),
            partial(
                table_store,
                graph,
                store_name,
                store_options,
                options.key_serde,
                options.value_serde,
                is_global=True,
            ),
            is_kept=True,
            history_ms=None,
        )

        def write(topology: Topology, parents: tuple[str, ...]) -> None:
            assert supplier.store is not None
            _write_source(source, (topic,), options, topology, parents)
            make = partial(GlobalTableSource, store_name)
            topology.add(ProcessorNode(name, (source,), make, (store_name,)))
            topology.add_store(supplier.store)
            topology.global_sources.add(source)

        graph.add([], GraphNode(name, write))
        return GlobalKTable(supplier)

    def add_state_store(self, store: StoreBuilder) -> "StreamsBuilder":
        """Declares a store that processors can name in ``stores=[…]``."""
        self.graph.declared_stores[store.name] = store.spec(self.graph)
        return self

    def build(self, optimization: str = "none") -> Topology:
        """The topology of the program so far.

        ``optimization`` is Kafka's ``topology.optimization``: "none", "all", or a list with commas of
        "merge.repartition.topics", "reuse.ktable.source.topics" and "single.store.self.join".
        """
        chosen = {each.strip() for each in optimization.split(",")}
        is_all = "all" in chosen
        graph = self.graph
        skipped = merge_sources(graph.nodes)
        if is_all or _MERGE_REPARTITIONS in chosen:
            merge_repartitions(graph)
        if is_all or _SELF_JOINS in chosen:
            skipped |= simplify_self_joins(graph)
        keep_null_keys_for_joins(graph)
        topology = Topology(graph.default_key_serde, graph.default_value_serde)
        _write(graph, skipped, topology)
        topology.copartition_groups = list(graph.copartition_groups)
        if is_all or _REUSE_TOPICS in chosen:
            topology.reused_topics = {
                supplier.store.name: topic for supplier, topic in self._reusable if supplier.store is not None
            }
        return topology


def _write(graph: Graph, skipped: set[int], topology: Topology) -> None:
    """Writes every node after its parents, by the order of the calls."""
    written: set[int] = set()
    waiting = sorted((node for node in graph.nodes if id(node) not in skipped), key=_priority)
    while waiting:
        for node in waiting:
            if all(id(parent) in written for parent in node.parents):
                node.write(topology, tuple(parent.name for parent in node.parents))
                written.add(id(node))
                waiting.remove(node)
                break
        else:
            raise AssertionError("the graph has a cycle")


def _priority(node: GraphNode) -> int:
    return node.priority


def _write_source(
    name: str, topics: tuple[str, ...], options: Consumed, topology: Topology, parents: tuple[str, ...]
) -> None:
    topology.add(
        SourceNode(name, topics, options.key_serde, options.value_serde, options.timestamp_extractor)
    )


def _consumed(consumed: Consumed | str | None) -> Consumed:
    return Consumed.as_(consumed) if isinstance(consumed, str) else consumed or Consumed()
