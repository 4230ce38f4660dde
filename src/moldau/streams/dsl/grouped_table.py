"""Groups of a table's rows and their aggregates, kept up to date by adding and subtracting.

Invariant: rows always travel through a repartition topic, as their groups are other keys.
"""

from typing import Any, Generic, TypeVar

from moldau.serde.plain import LONG
from moldau.streams.dsl.functions import Function
from moldau.streams.dsl.graph import Graph, GraphNode, Repartition, Spec
from moldau.streams.dsl.options import Grouped, Materialized, materialized_of
from moldau.streams.dsl.stores import table_store
from moldau.streams.dsl.suppliers import TableSupplier
from moldau.streams.dsl.tables import KTable
from moldau.streams.engine.aggregates import no_records, one_more
from moldau.streams.engine.tables import TableAggregate, TableReduce
from moldau.streams.topology.topology import RepartitionTopic

K = TypeVar("K")
V = TypeVar("V")


def _one_less(key: Any, value: Any, count: int) -> int:
    return count - 1


class KGroupedTable(Generic[K, V]):
    def __init__(self, graph: Graph, node: GraphNode, grouped: Grouped) -> None:
        self._graph = graph
        self._node = node
        self._grouped = grouped
        self._repartition: GraphNode | None = None

    def count(
        self, materialized: Materialized | str | None = None, named: str | None = None
    ) -> KTable[K, int]:
        spec = Spec(TableAggregate, None, no_records, one_more, _one_less)
        return self._aggregate("KTABLE-AGGREGATE-", spec, materialized, named, LONG)

    def reduce(
        self,
        adder: Function,
        subtractor: Function,
        materialized: Materialized | str | None = None,
        named: str | None = None,
    ) -> KTable[K, V]:
        """``adder(reduced, value)`` and ``subtractor(reduced, value)``."""
        spec = Spec(TableReduce, None, adder, subtractor)
        return self._aggregate("KTABLE-REDUCE-", spec, materialized, named, self._grouped.value_serde)

    def aggregate(
        self,
        initializer: Function,
        adder: Function,
        subtractor: Function,
        materialized: Materialized | str | None = None,
        named: str | None = None,
    ) -> KTable[K, Any]:
        """``adder(key, value, aggregate)`` and ``subtractor(key, value, aggregate)``."""
        spec = Spec(TableAggregate, None, initializer, adder, subtractor)
        return self._aggregate("KTABLE-AGGREGATE-", spec, materialized, named, None)

    def _aggregate(
        self,
        prefix: str,
        spec: Spec,
        materialized: Materialized | str | None,
        named: str | None,
        value_serde: Any,
    ) -> KTable[K, Any]:
        graph, grouped = self._graph, self._grouped
        options = materialized_of(materialized) or Materialized()
        # Kafka names the stores of reduce after aggregate, too.
        store_name = options.store_name or graph.new_store_name("KTABLE-AGGREGATE-")
        sink = graph.name_or_new(named, "KSTREAM-SINK-", "-sink")
        source = graph.name_or_new(named, "KSTREAM-SOURCE-", "-source")
        name = graph.name_or_new(named, prefix)
        topic = RepartitionTopic(f"{grouped.name or store_name}-repartition")
        if self._repartition is None or grouped.name is None:
            repartition = Repartition(topic, sink, source, grouped.key_serde, grouped.value_serde)
            self._repartition = graph.add([self._node], GraphNode(source, repartition.write))
        store = table_store(graph, store_name, options, grouped.key_serde, value_serde)
        spec.arguments = (store_name, *spec.arguments[1:])
        node = graph.add_processor([self._repartition], name, spec, [store])
        sources = frozenset([self._repartition.name])
        supplier = TableSupplier(spec, store, history_ms=options.history_ms)
        return KTable(graph, node, sources, supplier, store.key_serde, store.value_serde)
