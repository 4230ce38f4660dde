"""``KStream``: records that come one after the other, and what can be done with them.

Invariant: every method adds to the graph and gives a new stream, table or group; the stream itself never
changes.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from moldau.streams.dsl.functions import Function, joiner_with_key, of_key_and_value
from moldau.streams.dsl.graph import Graph, GraphNode, Spec, merge_node
from moldau.streams.dsl.options import (
    Grouped,
    Joined,
    Materialized,
    Produced,
    Repartitioned,
    StreamJoined,
    materialized_of,
)
from moldau.streams.dsl.stores import StoreBuilder, table_store
from moldau.streams.dsl.suppliers import SourceSupplier
from moldau.streams.dsl.windows import JoinWindows
from moldau.streams.engine.nodes import PassThrough, Sink
from moldau.streams.engine.processors import ProcessorNode
from moldau.streams.engine.stateless import (
    Branch,
    Filter,
    FlatMap,
    FlatMapValues,
    ForEach,
    Map,
    MapValues,
    Peek,
    SelectKey,
)
from moldau.streams.engine.stores.buffers import GraceBuffer
from moldau.streams.engine.table_joins import StreamTableJoin
from moldau.streams.engine.tables import TableSource
from moldau.streams.topology.topology import SinkNode, StoreSpec, Topology

if TYPE_CHECKING:
    from moldau.streams.dsl.grouped import KGroupedStream
    from moldau.streams.dsl.tables import GlobalKTable, KTable

K = TypeVar("K")
V = TypeVar("V")


class KStream(Generic[K, V]):
    """A stream of records. Functions may take the value alone, or key and value."""

    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        sources: frozenset[str],
        key_serde: Any = None,
        value_serde: Any = None,
        *,
        needs_repartition: bool = False,
    ) -> None:
        self.graph = graph
        self.node = node
        self.sources = sources
        self.key_serde = key_serde
        self.value_serde = value_serde
        #: Whether keys changed since the records were last partitioned by them.
        self.needs_repartition = needs_repartition
        #: The repartition that joins of the stream have made.
        self._repartition: GraphNode | None = None

    @property
    def name(self) -> str:
        return self.node.name

    # --- record by record ---------------------------------------------------------------------------

    def filter(self, predicate: Function, named: str | None = None) -> "KStream[K, V]":
        spec = Spec(Filter, of_key_and_value(predicate))
        return self._then("KSTREAM-FILTER-", spec, named, keeps_values=True)

    def filter_not(self, predicate: Function, named: str | None = None) -> "KStream[K, V]":
        spec = Spec(Filter, of_key_and_value(predicate), keep=False)
        return self._then("KSTREAM-FILTER-", spec, named, keeps_values=True)

    def map(
        self, function: Callable[[K, V], tuple[Any, Any]], named: str | None = None
    ) -> "KStream[Any, Any]":
        """``function`` gives a new key and a new value."""
        return self._then("KSTREAM-MAP-", Spec(Map, of_key_and_value(function)), named, keeps_keys=False)

    def map_values(self, function: Function, named: str | None = None) -> "KStream[K, Any]":
        return self._then("KSTREAM-MAPVALUES-", Spec(MapValues, of_key_and_value(function)), named)

    def flat_map(
        self, function: Callable[[K, V], Iterable[tuple[Any, Any]]], named: str | None = None
    ) -> "KStream[Any, Any]":
        """``function`` gives pairs of key and value."""
        spec = Spec(FlatMap, of_key_and_value(function))
        return self._then("KSTREAM-FLATMAP-", spec, named, keeps_keys=False)

    def flat_map_values(self, function: Function, named: str | None = None) -> "KStream[K, Any]":
        return self._then("KSTREAM-FLATMAPVALUES-", Spec(FlatMapValues, of_key_and_value(function)), named)

    def select_key(self, function: Function, named: str | None = None) -> "KStream[Any, V]":
        spec = Spec(SelectKey, of_key_and_value(function))
        return self._then("KSTREAM-KEY-SELECT-", spec, named, keeps_keys=False, keeps_values=True)

    def peek(self, action: Function, named: str | None = None) -> "KStream[K, V]":
        spec = Spec(Peek, of_key_and_value(action))
        return self._then("KSTREAM-PEEK-", spec, named, keeps_values=True)

    def for_each(self, action: Function, named: str | None = None) -> None:
        self._then("KSTREAM-FOREACH-", Spec(ForEach, of_key_and_value(action)), named)

    def _then(
        self,
        prefix: str,
        spec: Spec,
        named: str | None,
        *,
        keeps_keys: bool = True,
        keeps_values: bool = False,
    ) -> "KStream[Any, Any]":
        name = self.graph.name_or_new(named, prefix)
        return self._after(name, spec, keeps_keys=keeps_keys, keeps_values=keeps_values)

    def _after(
        self,
        name: str,
        spec: Spec,
        stores: Sequence[StoreSpec] = (),
        *,
        keeps_keys: bool,
        keeps_values: bool = False,
    ) -> "KStream[Any, Any]":
        node = self.graph.add_processor(
            [self.node], name, spec, stores, changes_key=not keeps_keys, changes_value=not keeps_values
        )
        return KStream(
            self.graph,
            node,
            self.sources,
            self.key_serde if keeps_keys else None,
            self.value_serde if keeps_values else None,
            needs_repartition=self.needs_repartition or not keeps_keys,
        )

    # --- several streams ----------------------------------------------------------------------------

    def split(self, named: str | None = None) -> "BranchedKStream[K, V]":
        """Branches: a record goes to the first whose predicate holds."""
        return BranchedKStream(self, self.graph.name_or_new(named, "KSTREAM-BRANCH-"))

    def merge(self, other: "KStream[K, V]", named: str | None = None) -> "KStream[K, V]":
        """The records of both, in the order in which they come."""
        name = self.graph.name_or_new(named, "KSTREAM-MERGE-")
        node = merge_node(self.graph, name, [self.node, other.node])
        node.is_merge = True
        return KStream(
            self.graph,
            node,
            self.sources | other.sources,
            needs_repartition=self.needs_repartition or other.needs_repartition,
        )

    def repartition(self, repartitioned: Repartitioned | str | None = None) -> "KStream[K, V]":
        """Sends records through a topic, so that equal keys meet; records without key are left out."""
        options = (
            Repartitioned.as_(repartitioned)
            if isinstance(repartitioned, str)
            else repartitioned or Repartitioned()
        )
        name = options.name or self.graph.new_name("KSTREAM-REPARTITION-")
        node = self.graph.add_repartition(
            self.node,
            name,
            options.key_serde or self.key_serde,
            options.value_serde or self.value_serde,
            partitions=options.partitions,
            is_optional=False,
        )
        return self._repartitioned(node, options.key_serde, options.value_serde)

    def _repartitioned(
        self, node: GraphNode, key_serde: Any = None, value_serde: Any = None
    ) -> "KStream[K, V]":
        return KStream(
            self.graph,
            node,
            frozenset([node.name]),
            key_serde or self.key_serde,
            value_serde or self.value_serde,
        )

    def repartitioned_for_join(self, name: str | None) -> "KStream[K, V]":
        """The stream itself, or a repartition of it where keys changed."""
        if not self.needs_repartition:
            return self
        topic = name or self.name
        if self._repartition is None or topic != self.name:
            self._repartition = self.graph.add_repartition(self.node, topic, self.key_serde, self.value_serde)
        else:
            # One topic serves all joins without a name; the numbers of another are taken all the same.
            self.graph.new_repartition(topic, self.key_serde, self.value_serde)
        return self._repartitioned(self._repartition)

    # --- groups and tables --------------------------------------------------------------------------

    def group_by_key(self, grouped: Grouped | str | None = None) -> "KGroupedStream[K, V]":
        from moldau.streams.dsl.grouped import KGroupedStream

        return KGroupedStream(self, _grouped(grouped))

    def group_by(self, function: Function, grouped: Grouped | str | None = None) -> "KGroupedStream[Any, V]":
        """Groups by a new key; a repartition topic brings equal keys together."""
        from moldau.streams.dsl.grouped import KGroupedStream

        options = _grouped(grouped)
        return KGroupedStream(self.select_key(function, options.name), options)

    def to_table(
        self, materialized: Materialized | str | None = None, named: str | None = None
    ) -> "KTable[K, V]":
        """The stream as updates of a table: the last value for each key."""
        from moldau.streams.dsl.tables import KTable

        graph = self.graph
        options = materialized_of(materialized) or Materialized()
        name = graph.name_or_new(named, "KSTREAM-TOTABLE-")
        store_name = options.store_name or graph.new_store_name("KSTREAM-TOTABLE-")
        stream: KStream[K, V] = self
        if self.needs_repartition:
            stream = self._repartitioned(
                graph.add_repartition(self.node, name, self.key_serde, self.value_serde)
            )
        key_serde = options.key_serde or self.key_serde
        value_serde = options.value_serde or self.value_serde
        supplier = SourceSupplier(
            Spec(TableSource, store_name=None),
            partial(table_store, graph, store_name, options, key_serde, value_serde),
            is_kept=options.store_name is not None,
            history_ms=options.history_ms,
        )
        node = graph.add([stream.node], GraphNode(name, partial(write_table_source, name, supplier)))
        return KTable(graph, node, stream.sources, supplier, key_serde, value_serde)

    # --- joins --------------------------------------------------------------------------------------

    def join(
        self,
        other: "KStream[K, Any] | KTable[K, Any] | GlobalKTable[Any, Any]",
        joiner: Function,
        windows: JoinWindows | None = None,
        options: Joined | StreamJoined | None = None,
        *,
        key: Function | None = None,
    ) -> "KStream[K, Any]":
        """Joins with a stream (in ``windows``), a table, or a global table (by ``key``)."""
        return self._join(other, joiner, windows, options, key, "join")

    def left_join(
        self,
        other: "KStream[K, Any] | KTable[K, Any] | GlobalKTable[Any, Any]",
        joiner: Function,
        windows: JoinWindows | None = None,
        options: Joined | StreamJoined | None = None,
        *,
        key: Function | None = None,
    ) -> "KStream[K, Any]":
        """As ``join``; a record of this stream without partner is joined with None."""
        return self._join(other, joiner, windows, options, key, "left")

    def outer_join(
        self,
        other: "KStream[K, Any]",
        joiner: Function,
        windows: JoinWindows,
        options: StreamJoined | None = None,
    ) -> "KStream[K, Any]":
        """A record of either stream without partner is joined with None."""
        return self._join(other, joiner, windows, options, None, "outer")

    def _join(
        self,
        other: Any,
        joiner: Function,
        windows: JoinWindows | None,
        options: Joined | StreamJoined | None,
        key: Function | None,
        kind: str,
    ) -> "KStream[K, Any]":
        from moldau.streams.dsl.stream_join import join_streams
        from moldau.streams.dsl.tables import GlobalKTable

        with_key = joiner_with_key(joiner)
        if isinstance(other, KStream):
            if windows is None:
                raise TypeError("a join of two streams needs windows=JoinWindows…")
            stream_joined = options if isinstance(options, StreamJoined) else StreamJoined()
            return join_streams(self, other, with_key, windows, stream_joined, kind)
        joined = options if isinstance(options, Joined) else Joined()
        if isinstance(other, GlobalKTable):
            return self._join_global(other, with_key, of_key_and_value(key or _own_key), joined, kind)
        return self._join_table(other, with_key, joined, kind)

    def _join_table(
        self, table: "KTable[K, Any]", joiner: Function, joined: Joined, kind: str
    ) -> "KStream[K, Any]":
        stream = self.repartitioned_for_join(joined.name)
        graph = self.graph
        sources = stream.sources | table.sources
        graph.copartition(sources)
        prefix = "KSTREAM-LEFTJOIN-" if kind == "left" else "KSTREAM-JOIN-"
        name = graph.name_or_new(joined.name, prefix)
        spec = Spec(StreamTableJoin, table.supplier.getter(), joiner, is_left=kind == "left")
        stores = table.supplier.store_names()
        if joined.grace_ms is not None:
            if not table.supplier.is_versioned:
                raise ValueError("KTable must be versioned to use a grace period in a stream table join.")
            if table.supplier.history_ms is not None and table.supplier.history_ms < joined.grace_ms:
                raise ValueError("History retention must be at least grace period.")
            buffer = f"{name}-Buffer"
            spec.options.update(buffer_name=buffer, grace_ms=joined.grace_ms)
            make = partial(GraceBuffer, buffer, graph.key_bytes(self.key_serde))
            stores = [StoreSpec(buffer, make, retention_ms=joined.grace_ms), *stores]
        node = graph.add_processor([stream.node], name, spec, stores, changes_value=True)
        node.joins_null_keys = kind == "left"
        return KStream(graph, node, sources, self.key_serde)

    def _join_global(
        self, table: "GlobalKTable[Any, Any]", joiner: Function, key: Function, joined: Joined, kind: str
    ) -> "KStream[K, Any]":
        spec = Spec(StreamTableJoin, table.supplier.getter(), joiner, is_left=kind == "left", select_key=key)
        # Its values are others, but Kafka's optimization does not know that.
        result = self._then("KSTREAM-LEFTJOIN-", spec, joined.name, keeps_values=True)
        result.node.joins_null_keys = kind == "left"
        return KStream(
            self.graph,
            result.node,
            self.sources,
            self.key_serde,
            needs_repartition=self.needs_repartition,
        )

    # --- processors ---------------------------------------------------------------------------------

    def process(
        self,
        supplier: Callable[[], Any],
        *,
        stores: Iterable[StoreBuilder | str] = (),
        named: str | None = None,
    ) -> "KStream[Any, Any]":
        """Code of your own: ``supplier`` makes a ``Processor`` for each task."""
        return self._process("KSTREAM-PROCESSOR-", supplier, stores, named, may_change_key=True)

    def process_values(
        self,
        supplier: Callable[[], Any],
        *,
        stores: Iterable[StoreBuilder | str] = (),
        named: str | None = None,
    ) -> "KStream[K, Any]":
        """As ``process``, with keys that stay, so that nothing has to be repartitioned later."""
        return self._process("KSTREAM-PROCESSVALUES-", supplier, stores, named, may_change_key=False)

    def _process(
        self,
        prefix: str,
        supplier: Callable[[], Any],
        stores: Iterable[StoreBuilder | str],
        named: str | None,
        *,
        may_change_key: bool,
    ) -> "KStream[Any, Any]":
        chosen = [self.graph.store(store) for store in stores]
        names = [store.name for store in chosen]
        spec = Spec(ProcessorNode, supplier, names, may_change_key=may_change_key)
        # Other than elsewhere, a name that is given takes no number.
        name = named if named is not None else self.graph.new_name(prefix)
        result = self._after(name, spec, chosen, keeps_keys=not may_change_key)
        # Kafka's optimization takes no notice of processors, unless an internal setting says so.
        result.node.changes_key = result.node.changes_value = False
        return result

    # --- the end ------------------------------------------------------------------------------------

    def to(self, topic: str | Function, produced: Produced | str | None = None) -> None:
        """Writes to a topic, or to the one that a function of key and value chooses for each record."""
        options = Produced.as_(produced) if isinstance(produced, str) else produced or Produced()
        name = self.graph.name_or_new(options.name, "KSTREAM-SINK-")
        fixed = topic if isinstance(topic, str) else None
        make = partial(Sink, fixed, None if isinstance(topic, str) else of_key_and_value(topic))
        key_serde = options.key_serde or self.key_serde
        value_serde = options.value_serde or self.value_serde

        def write(topology: Topology, parents: tuple[str, ...]) -> None:
            topology.add(
                SinkNode(
                    name,
                    parents,
                    make,
                    fixed,
                    key_serde,
                    value_serde,
                    partitioner=options.partitioner,
                )
            )

        self.graph.add([self.node], GraphNode(name, write))


class BranchedKStream(Generic[K, V]):
    """The branches of a stream, made with ``branch`` and finished with ``default_branch`` or
    ``no_default_branch``.
    """

    def __init__(self, stream: KStream[K, V], name: str) -> None:
        self._stream = stream
        self._name = name
        self._spec = Spec(Branch, [], [], None)
        graph = stream.graph
        self._node = graph.add_processor([stream.node], name, self._spec)
        #: Every branch so far, by the name that it was given or got.
        self.branches: dict[str, KStream[K, V]] = {}

    def branch(self, predicate: Function, name: str | None = None) -> "BranchedKStream[K, V]":
        predicates, children, _ = self._spec.arguments
        predicates.append(of_key_and_value(predicate))
        children.append(self._add(len(predicates), name))
        return self

    def default_branch(self, name: str | None = None) -> dict[str, KStream[K, V]]:
        """Where records go that fit no branch."""
        predicates, children, _ = self._spec.arguments
        self._spec.arguments = (predicates, children, self._add(0, name))
        return self.branches

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        return self.branches

    def _add(self, number: int, name: str | None) -> str:
        stream, graph = self._stream, self._stream.graph
        child = f"{self._name}{name if name is not None else number}"
        graph.new_name("KSTREAM-BRANCHCHILD-")
        node = graph.add_processor([self._node], child, Spec(PassThrough))
        self.branches[name if name is not None else child] = KStream(
            graph,
            node,
            stream.sources,
            stream.key_serde,
            stream.value_serde,
            needs_repartition=stream.needs_repartition,
        )
        return child


def write_table_source(
    name: str, supplier: SourceSupplier, topology: Topology, parents: tuple[str, ...]
) -> None:
    """The operator of a table of a topic or a stream, with its store if it turned out to need one."""
    from moldau.streams.topology import topology as nodes

    stores = (supplier.store.name,) if supplier.store is not None else ()
    topology.add(nodes.ProcessorNode(name, parents, supplier.spec.factory(), stores))
    if supplier.store is not None:
        topology.add_store(supplier.store)


def _own_key(key: Any, value: Any) -> Any:
    return key


def _grouped(grouped: Grouped | str | None) -> Grouped:
    return Grouped.as_(grouped) if isinstance(grouped, str) else grouped or Grouped()
