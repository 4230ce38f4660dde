"""``KTable`` and ``GlobalKTable``: the last value for each key, and what can be done with it.

Invariant: every method adds to the graph and gives a new table or stream. A table has a store only where the
program names one or another operator needs it.
"""

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from moldau.streams.dsl.functions import Function, joiner_with_key, of_key_and_value
from moldau.streams.dsl.graph import Graph, GraphNode, Spec
from moldau.streams.dsl.options import (
    Grouped,
    Materialized,
    Suppressed,
    checked_name,
    materialized_of,
)
from moldau.streams.dsl.stores import table_store
from moldau.streams.dsl.streams import KStream
from moldau.streams.dsl.suppliers import (
    DerivedSupplier,
    JoinSupplier,
    SuppressSupplier,
    TableSupplier,
    filter_getter,
    map_getter,
)
from moldau.streams.engine.records import KeyBytes
from moldau.streams.engine.stateless import ToStream
from moldau.streams.engine.stores.buffers import SuppressBuffer
from moldau.streams.engine.suppress import UNLIMITED, Suppress, record_time, window_end
from moldau.streams.engine.table_joins import TableJoin, TableJoinMerge
from moldau.streams.engine.tables import TableFilter, TableGroupBy, TableMapValues
from moldau.streams.errors import TopologyError
from moldau.streams.topology.topology import ProcessorNode, StoreSpec, Topology

if TYPE_CHECKING:
    from moldau.streams.dsl.grouped_table import KGroupedTable

K = TypeVar("K")
V = TypeVar("V")


class KTable(Generic[K, V]):
    """A table. Functions may take the value alone, or key and value."""

    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        sources: frozenset[str],
        supplier: TableSupplier,
        key_serde: Any = None,
        value_serde: Any = None,
        *,
        key_bytes: KeyBytes | None = None,
        close_after_ms: int | None = None,
    ) -> None:
        self.graph = graph
        self.node = node
        self.sources = sources
        self.supplier = supplier
        self.key_serde = key_serde
        self.value_serde = value_serde
        #: Of windowed tables: how the keys are ordered.
        self._key_bytes = key_bytes
        #: Of windowed tables: how long after its end a window is closed.
        self._close_after_ms = close_after_ms

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def queryable_store_name(self) -> str | None:
        return self.supplier.store.name if self.supplier.store is not None else None

    # --- row by row ---------------------------------------------------------------------------------

    def filter(
        self,
        predicate: Function,
        materialized: Materialized | str | None = None,
        named: str | None = None,
    ) -> "KTable[K, V]":
        return self._filter(predicate, materialized, named, keep=True)

    def filter_not(
        self,
        predicate: Function,
        materialized: Materialized | str | None = None,
        named: str | None = None,
    ) -> "KTable[K, V]":
        return self._filter(predicate, materialized, named, keep=False)

    def _filter(
        self, predicate: Function, materialized: Materialized | str | None, named: str | None, *, keep: bool
    ) -> "KTable[K, V]":
        function = of_key_and_value(predicate)
        store = self._store(materialized, "KTABLE-FILTER-", self.value_serde)
        spec = Spec(
            TableFilter,
            store.name if store else None,
            function,
            keep=keep,
            sends_old=self.supplier.enable_old_values(force=False),
            has_versioned_input=self.supplier.is_versioned,
        )
        supplier = DerivedSupplier(spec, store, self.supplier, filter_getter(function, keep))
        return self._derived("KTABLE-FILTER-", named, supplier, self.value_serde)

    def map_values(
        self,
        function: Function,
        materialized: Materialized | str | None = None,
        named: str | None = None,
    ) -> "KTable[K, Any]":
        """``function`` is not called for deleted rows."""
        mapper = of_key_and_value(function)
        store = self._store(materialized, "KTABLE-MAPVALUES-", None)
        spec = Spec(TableMapValues, store.name if store else None, mapper)
        supplier = DerivedSupplier(spec, store, self.supplier, map_getter(mapper))
        return self._derived("KTABLE-MAPVALUES-", named, supplier, store.value_serde if store else None)

    def _store(
        self, materialized: Materialized | str | None, prefix: str, value_serde: Any
    ) -> StoreSpec | None:
        """The store of a result, if one was asked for; an option without a name takes a number too."""
        options = materialized_of(materialized)
        if options is None:
            return None
        if options.store_name is None:
            self.graph.new_store_name(prefix)
            return None
        return table_store(
            self.graph, options.store_name, options, self.key_serde, value_serde, key_bytes=self._key_bytes
        )

    def _derived(
        self, prefix: str, named: str | None, supplier: TableSupplier, value_serde: Any
    ) -> "KTable[K, Any]":
        name = self.graph.name_or_new(named, prefix)
        stores = [supplier.store] if supplier.store is not None else []
        node = self.graph.add_processor([self.node], name, supplier.spec, stores)
        return self._like(node, supplier, self.sources, value_serde)

    def _like(
        self, node: GraphNode, supplier: TableSupplier, sources: frozenset[str], value_serde: Any
    ) -> "KTable[K, Any]":
        return KTable(
            self.graph,
            node,
            sources,
            supplier,
            self.key_serde,
            value_serde,
            key_bytes=self._key_bytes,
            close_after_ms=self._close_after_ms,
        )

    # --- streams and groups -------------------------------------------------------------------------

    def to_stream(self, key: Function | None = None, named: str | None = None) -> KStream[Any, V]:
        """The changes of the table as a stream; a deleted row is a value of None."""
        name = self.graph.name_or_new(named, "KTABLE-TOSTREAM-")
        node = self.graph.add_processor([self.node], name, Spec(ToStream))
        stream: KStream[Any, V] = KStream(self.graph, node, self.sources, self.key_serde, self.value_serde)
        return stream if key is None else stream.select_key(key)

    def group_by(self, function: Function, grouped: Grouped | str | None = None) -> "KGroupedTable[Any, Any]":
        """Groups rows: ``function`` gives the key of the group and the value that counts there."""
        from moldau.streams.dsl.grouped_table import KGroupedTable

        options = Grouped.as_(grouped) if isinstance(grouped, str) else grouped or Grouped()
        self.supplier.enable_old_values(force=True)
        name = self.graph.name_or_new(options.name, "KTABLE-SELECT-")
        spec = Spec(TableGroupBy, of_key_and_value(function), has_versioned_input=self.supplier.is_versioned)
        node = self.graph.add_processor([self.node], name, spec)
        return KGroupedTable(self.graph, node, options)

    def suppress(self, suppressed: Suppressed) -> "KTable[K, V]":
        """Holds changes back until a window closes or a time is over."""
        graph, buffer = self.graph, suppressed.buffer
        if self.supplier.is_versioned:
            inherited = isinstance(self.supplier, DerivedSupplier)
            raise TopologyError(
                "suppress() is only supported for non-versioned KTables"
                + (" (note that version semantics might be inherited from upstream)" if inherited else ""),
                'Give the table a store of its own before, without a history: filter(…, "name").',
            )
        name = suppressed.name or graph.new_name("KTABLE-SUPPRESS-")
        if suppressed.time_limit_ms is None:
            if self._close_after_ms is None:
                raise TopologyError(
                    f"Window close time is only defined for windowed computations. Got [{self._path()}].",
                    "Use Suppressed.until_time_limit(…), or windowed_by(…) before.",
                )
            wait_ms, time_of = self._close_after_ms, window_end
        else:
            wait_ms, time_of = suppressed.time_limit_ms, record_time
        # Readers of the table see what was sent: the old value of what is held back.
        self.supplier.enable_old_values(force=True)
        if suppressed.name is not None:
            store_name = f"{suppressed.name}-store"
        else:
            store_name = graph.new_store_name("KTABLE-SUPPRESS-")
        key_bytes = self._key_bytes or graph.key_bytes(self.key_serde)
        make = partial(
            SuppressBuffer,
            store_name,
            key_bytes,
            graph.value_bytes(self.value_serde),
            counts_bytes=buffer.bytes != UNLIMITED,
        )
        store = StoreSpec(store_name, make, retention_ms=wait_ms)
        spec = Spec(
            Suppress,
            store_name,
            wait_ms,
            time_of,
            max_records=buffer.records,
            max_bytes=buffer.bytes,
            emits_early=buffer.emits_early,
            drops_tombstones=suppressed.time_limit_ms is None,
        )
        node = graph.add_processor([self.node], name, spec, [store])
        return self._like(node, SuppressSupplier(spec, store, self.supplier), self.sources, self.value_serde)

    def _path(self) -> str:
        names: list[str] = []
        node: GraphNode | None = self.node
        while node is not None:
            names.append(node.name)
            node = node.parents[0] if node.parents else None
        return "->".join(["root", *reversed(names)])

    # --- joins --------------------------------------------------------------------------------------

    def join(
        self,
        other: "KTable[Any, Any]",
        joiner: Function,
        materialized: Materialized | str | None = None,
        named: str | None = None,
        *,
        foreign_key: Function | None = None,
    ) -> "KTable[K, Any]":
        """Rows that both tables have; with ``foreign_key``, rows of the other one that this one points to."""
        return self._join(other, joiner, materialized, named, foreign_key, "join")

    def left_join(
        self,
        other: "KTable[Any, Any]",
        joiner: Function,
        materialized: Materialized | str | None = None,
        named: str | None = None,
        *,
        foreign_key: Function | None = None,
    ) -> "KTable[K, Any]":
        """As ``join``, with every row of this table; None stands for what the other lacks."""
        return self._join(other, joiner, materialized, named, foreign_key, "left")

    def outer_join(
        self,
        other: "KTable[K, Any]",
        joiner: Function,
        materialized: Materialized | str | None = None,
        named: str | None = None,
    ) -> "KTable[K, Any]":
        """Rows that either table has."""
        return self._join(other, joiner, materialized, named, None, "outer")

    def _join(
        self,
        other: "KTable[Any, Any]",
        joiner: Function,
        materialized: Materialized | str | None,
        named: str | None,
        foreign_key: Function | None,
        kind: str,
    ) -> "KTable[K, Any]":
        if named is not None:
            checked_name(named)
        with_key = joiner_with_key(joiner)
        if foreign_key is not None:
            from moldau.streams.dsl.foreign_key import join_by_foreign_key

            extract = of_key_and_value(foreign_key)
            is_left = kind == "left"
            return join_by_foreign_key(
                self, other, extract, with_key, materialized_of(materialized), named, is_left=is_left
            )
        return self._join_by_key(other, with_key, materialized, named, kind)

    def _join_by_key(
        self,
        other: "KTable[Any, Any]",
        joiner: Function,
        materialized: Materialized | str | None,
        named: str | None,
        kind: str,
    ) -> "KTable[K, Any]":
        graph = self.graph
        store = self._store(materialized, "KTABLE-MERGE-", None)
        merge_name = graph.name_or_new(named, "KTABLE-MERGE-")
        sources = self.sources | other.sources
        graph.copartition(sources)
        joins_itself = graph.is_plain and other.supplier is self.supplier
        if kind != "join" or joins_itself:
            self.supplier.enable_old_values(force=True)
        if kind == "outer":
            other.supplier.enable_old_values(force=True)
        this_name = graph.name_or_new(named, "KTABLE-JOINTHIS-", "-join-this")
        other_name = graph.name_or_new(named, "KTABLE-JOINOTHER-", "-join-other")
        without_left, without_right = kind == "outer", kind != "join"
        this = _side(self, other, joiner, is_left=True, optional=(without_left, without_right))
        that = _side(other, self, joiner, is_left=False, optional=(without_right, without_left))
        for side in (this, that):
            side.options["joins_itself"] = joins_itself
        merge = Spec(TableJoinMerge, store.name if store else None)
        left_stores, right_stores = self.supplier.store_names(), other.supplier.store_names()

        def write(topology: Topology, parents: tuple[str, ...]) -> None:
            right_names = tuple(each.name for each in right_stores)
            left_names = tuple(each.name for each in left_stores)
            own = (store.name,) if store is not None else ()
            topology.add(ProcessorNode(this_name, (self.name,), this.factory(), right_names))
            topology.add(ProcessorNode(other_name, (other.name,), that.factory(), left_names))
            topology.add(ProcessorNode(merge_name, (this_name, other_name), merge.factory(), own))
            if store is not None:
                topology.add_store(store)

        node = graph.add([self.node, other.node], GraphNode(merge_name, write))
        supplier = JoinSupplier(
            merge,
            store,
            (this, that),
            (self.supplier, other.supplier),
            joiner,
            without_left=without_left,
            without_right=without_right,
        )
        joined = self._like(node, supplier, sources, store.value_serde if store else None)
        waits = (self._close_after_ms, other._close_after_ms)
        joined._close_after_ms = None if None in waits else max(wait for wait in waits if wait is not None)
        return joined


def _side(
    this: KTable[Any, Any],
    other: KTable[Any, Any],
    joiner: Function,
    *,
    is_left: bool,
    optional: tuple[bool, bool],
) -> Spec:
    """One side of a join; ``optional`` says whether a row of this and of the other table may be missing."""
    without_this, without_other = optional
    return Spec(
        TableJoin,
        other.supplier.getter(),
        joiner,
        is_left=is_left,
        without_this=without_this,
        without_other=without_other,
        has_versioned_input=this.supplier.is_versioned,
    )


class GlobalKTable(Generic[K, V]):
    """A table of which every task has all rows. Streams join with it by any key."""

    def __init__(self, supplier: TableSupplier) -> None:
        self.supplier = supplier

    @property
    def queryable_store_name(self) -> str:
        assert self.supplier.store is not None
        return self.supplier.store.name
