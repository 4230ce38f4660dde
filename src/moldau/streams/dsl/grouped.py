"""Groups of a stream and their aggregates: for all time, by time window, by session, of several streams
together.

Invariant: the first aggregate of a group whose keys changed puts a repartition topic in front of it, named as
Kafka Streams would name it.
"""

from dataclasses import replace
from typing import Any, Generic, TypeVar

from moldau.serde.plain import LONG
from moldau.streams.dsl.functions import Function
from moldau.streams.dsl.graph import Graph, GraphNode, Spec
from moldau.streams.dsl.options import EmitStrategy, Grouped, Materialized, materialized_of
from moldau.streams.dsl.stores import session_store, table_store, window_store
from moldau.streams.dsl.streams import KStream
from moldau.streams.dsl.suppliers import (
    CogroupSupplier,
    SessionSupplier,
    TableSupplier,
    WindowSupplier,
)
from moldau.streams.dsl.tables import KTable
from moldau.streams.dsl.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from moldau.streams.engine.aggregates import (
    StreamAggregate,
    StreamReduce,
    TablePassThrough,
    no_records,
    one_more,
)
from moldau.streams.engine.records import KeyBytes, Windowed, time_bytes
from moldau.streams.engine.sessions import SessionAggregate
from moldau.streams.engine.sliding import SlidingWindowAggregate
from moldau.streams.engine.windows import TimeWindowAggregate
from moldau.streams.topology.topology import StoreSpec

K = TypeVar("K")
V = TypeVar("V")
Windows = TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows


def _sum_of_counts(key: Any, one: int, other: int) -> int:
    return one + other


def _none() -> None:
    return None


def _by_reducer(reducer: Function) -> Function:
    return lambda key, value, reduced: value if reduced is None else reducer(reduced, value)


def _merged_by_reducer(reducer: Function) -> Function:
    return lambda key, one, other: other if one is None else reducer(one, other)


class Grouping:
    """Where the records of a group come from: the stream, or the repartition topic after it."""

    def __init__(self, stream: KStream[Any, Any], grouped: Grouped) -> None:
        self.graph: Graph = stream.graph
        self._stream = stream
        self._name = grouped.name
        self.key_serde = grouped.key_serde or stream.key_serde
        self.value_serde = grouped.value_serde or stream.value_serde
        self._repartition: GraphNode | None = None

    def parent(self, store_name: str) -> tuple[GraphNode, frozenset[str]]:
        """The node that an aggregate follows, and its sources. A named repartition serves all aggregates."""
        stream = self._stream
        if not stream.needs_repartition:
            return stream.node, stream.sources
        if self._repartition is None or self._name is None:
            self._repartition = self.graph.add_repartition(
                stream.node, self._name or store_name, self.key_serde, self.value_serde
            )
        else:
            self.graph.new_repartition(self._name, self.key_serde, self.value_serde)
        return self._repartition, frozenset([self._repartition.name])


class Store(Generic[K]):
    """The options of an aggregate's store with what the group knows filled in."""

    def __init__(
        self,
        grouping: Grouping,
        materialized: Materialized | str | None,
        prefix: str,
        value_serde: Any = None,
        *,
        takes_two: bool = False,
    ) -> None:
        options = materialized_of(materialized) or Materialized()
        if takes_two and materialized is not None and options.store_name is None:
            grouping.graph.new_store_name(prefix)  # Kafka has a number more for counts with such options
        self.name = options.store_name or grouping.graph.new_store_name(prefix)
        self.options = replace(
            options,
            key_serde=options.key_serde or grouping.key_serde,
            value_serde=options.value_serde or value_serde,
        )


class KGroupedStream(Generic[K, V]):
    """Records by key."""

    def __init__(self, stream: KStream[K, V], grouped: Grouped) -> None:
        self.grouping = Grouping(stream, grouped)

    def count(
        self, materialized: Materialized | str | None = None, named: str | None = None
    ) -> KTable[K, int]:
        store: Store[K] = Store(self.grouping, materialized, "KSTREAM-AGGREGATE-", LONG, takes_two=True)
        spec = Spec(StreamAggregate, store.name, no_records, one_more)
        return self._aggregate("KSTREAM-AGGREGATE-", spec, store, named)

    def reduce(
        self, reducer: Function, materialized: Materialized | str | None = None, named: str | None = None
    ) -> KTable[K, V]:
        """``reducer(reduced, value)``; the first value of a key is its first result."""
        store: Store[K] = Store(self.grouping, materialized, "KSTREAM-REDUCE-", self.grouping.value_serde)
        return self._aggregate("KSTREAM-REDUCE-", Spec(StreamReduce, store.name, reducer), store, named)

    def aggregate(
        self,
        initializer: Function,
        aggregator: Function,
        materialized: Materialized | str | None = None,
        named: str | None = None,
    ) -> KTable[K, Any]:
        """``aggregator(key, value, aggregate)``, starting with ``initializer()``."""
        store: Store[K] = Store(self.grouping, materialized, "KSTREAM-AGGREGATE-")
        spec = Spec(StreamAggregate, store.name, initializer, aggregator)
        return self._aggregate("KSTREAM-AGGREGATE-", spec, store, named)

    def _aggregate(self, prefix: str, spec: Spec, store: Store[K], named: str | None) -> KTable[K, Any]:
        graph = self.grouping.graph
        name = graph.name_or_new(named, prefix)
        parent, sources = self.grouping.parent(store.name)
        kept = table_store(graph, store.name, store.options, None, None)
        node = graph.add_processor([parent], name, spec, [kept])
        supplier = TableSupplier(spec, kept, history_ms=store.options.history_ms)
        return KTable(graph, node, sources, supplier, kept.key_serde, kept.value_serde)

    def windowed_by(self, windows: Windows) -> "WindowedKStream[K, V]":
        return WindowedKStream([(self.grouping, None)], windows)

    def cogroup(self, aggregator: Function) -> "CogroupedKStream[K, V]":
        """The start of an aggregate over several groups: ``aggregator(key, value, aggregate)`` is for this
        one.
        """
        return CogroupedKStream([(self.grouping, aggregator)])


#: Groups with the aggregator of each; None where the aggregate brings one for its only group.
Groups = list[tuple[Grouping, Function | None]]


class WindowedKStream(Generic[K, V]):
    """Records by key and window."""

    def __init__(self, groups: Groups, windows: Windows, *, on_close: bool = False) -> None:
        self._groups = groups
        self._grouping = groups[0][0]
        self._windows = windows
        self._on_close = on_close

    def emit_strategy(self, strategy: EmitStrategy) -> "WindowedKStream[K, V]":
        """``EmitStrategy.on_window_close()`` sends one result for each window, when it closes."""
        if isinstance(self._windows, UnlimitedWindows) and strategy.is_on_window_close:
            raise ValueError("ON_WINDOW_CLOSE emit strategy cannot be used for UnlimitedWindows")
        return WindowedKStream(self._groups, self._windows, on_close=strategy.is_on_window_close)

    def count(
        self, materialized: Materialized | str | None = None, named: str | None = None
    ) -> KTable[Windowed, int]:
        takes_two = not isinstance(self._windows, SlidingWindows)
        store: Store[K] = Store(self._grouping, materialized, "KSTREAM-AGGREGATE-", LONG, takes_two=takes_two)
        functions = (no_records, one_more, _sum_of_counts)
        return self._aggregate("KSTREAM-AGGREGATE-", store, functions, named)

    def reduce(
        self, reducer: Function, materialized: Materialized | str | None = None, named: str | None = None
    ) -> KTable[Windowed, V]:
        store: Store[K] = Store(self._grouping, materialized, "KSTREAM-REDUCE-", self._grouping.value_serde)
        functions = (_none, _by_reducer(reducer), _merged_by_reducer(reducer))
        return self._aggregate("KSTREAM-REDUCE-", store, functions, named)

    def aggregate(
        self,
        initializer: Function,
        aggregator: Function,
        materialized: Materialized | str | None = None,
        named: str | None = None,
        *,
        merger: Function | None = None,
    ) -> KTable[Windowed, Any]:
        """``aggregator(key, value, aggregate)``; sessions also need ``merger(key, aggregate, aggregate)``."""
        _check_merger(self._windows, merger)
        store: Store[K] = Store(self._grouping, materialized, "KSTREAM-AGGREGATE-")
        return self._aggregate("KSTREAM-AGGREGATE-", store, (initializer, aggregator, merger), named)

    def _aggregate(
        self,
        prefix: str,
        store: Store[K],
        functions: tuple[Function, Function, Function | None],
        named: str | None,
    ) -> KTable[Windowed, Any]:
        graph = self._grouping.graph
        kept = windowed_store(graph, store, self._windows, on_close=self._on_close)
        name = graph.name_or_new(named, prefix)
        parent, sources = self._grouping.parent(store.name)
        spec = windowed_spec(
            self._windows, kept, *functions, on_close=self._on_close, is_plain=graph.is_plain
        )
        node = graph.add_processor([parent], name, spec, [kept])
        return windowed_table(
            graph, node, sources, windowed_supplier(self._windows, spec, kept), self._windows
        )


class CogroupedKStream(Generic[K, V]):
    """Several groups with one aggregate."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def cogroup(self, group: KGroupedStream[K, Any], aggregator: Function) -> "CogroupedKStream[K, V]":
        return CogroupedKStream([*self._groups, (group.grouping, aggregator)])

    def windowed_by(self, windows: Windows) -> "WindowedCogroupedKStream[K, V]":
        return WindowedCogroupedKStream(self._groups, windows)

    def aggregate(
        self, initializer: Function, materialized: Materialized | str | None = None, named: str | None = None
    ) -> KTable[K, Any]:
        grouping = self._groups[0][0]
        store: Store[K] = Store(grouping, materialized, "COGROUPKSTREAM-AGGREGATE-")
        kept = table_store(grouping.graph, store.name, store.options, None, None)
        parts = [
            TableSupplier(Spec(StreamAggregate, store.name, initializer, aggregator), kept)
            for _, aggregator in self._groups
        ]
        node, sources, supplier = cogrouped(self._groups, store, kept, parts, named)
        return KTable(grouping.graph, node, sources, supplier, kept.key_serde, kept.value_serde)


class WindowedCogroupedKStream(Generic[K, V]):
    """Several groups with one aggregate for each window."""

    def __init__(self, groups: Groups, windows: Windows) -> None:
        self._groups = groups
        self._windows = windows

    def aggregate(
        self,
        initializer: Function,
        materialized: Materialized | str | None = None,
        named: str | None = None,
        *,
        merger: Function | None = None,
    ) -> KTable[Windowed, Any]:
        _check_merger(self._windows, merger)
        grouping, windows = self._groups[0][0], self._windows
        store: Store[K] = Store(grouping, materialized, "COGROUPKSTREAM-AGGREGATE-")
        kept = windowed_store(grouping.graph, store, windows, on_close=False)
        parts: list[TableSupplier] = []
        for _, aggregator in self._groups:
            assert aggregator is not None
            spec = windowed_spec(
                windows,
                kept,
                initializer,
                aggregator,
                merger,
                on_close=False,
                is_plain=grouping.graph.is_plain,
            )
            parts.append(windowed_supplier(windows, spec, kept))
        node, sources, supplier = cogrouped(self._groups, store, kept, parts, named)
        return windowed_table(grouping.graph, node, sources, supplier, windows)


def _check_merger(windows: Windows, merger: Function | None) -> None:
    if isinstance(windows, SessionWindows) and merger is None:
        raise TypeError("an aggregate by session needs merger=…, which joins the aggregates of two sessions")


def cogrouped(
    groups: Groups, store: Store[Any], kept: StoreSpec, parts: list[TableSupplier], named: str | None
) -> tuple[GraphNode, frozenset[str], CogroupSupplier]:
    """An operator for each group, all on one store, and a merge after them."""
    graph = groups[0][0].graph
    parents = [grouping.parent(store.name) for grouping, _ in groups]
    sources = frozenset[str]().union(*(each for _, each in parents))
    if len(groups) > 1:
        graph.copartition(sources)
    nodes = []
    for number, ((parent, _), part) in enumerate(zip(parents, parts, strict=True)):
        name = graph.name_or_new(named, "COGROUPKSTREAM-AGGREGATE-", f"-cogroup-agg-{number}")
        nodes.append(graph.add_processor([parent], name, part.spec, [kept]))
    name = graph.name_or_new(named, "COGROUPKSTREAM-MERGE-", "-cogroup-merge")
    spec = Spec(TablePassThrough, None)
    return graph.add_processor(nodes, name, spec), sources, CogroupSupplier(spec, kept, parts)


# --- windows ----------------------------------------------------------------------------------------


def windowed_store(graph: Graph, store: Store[Any], windows: Windows, *, on_close: bool) -> StoreSpec:
    """The store of a windowed aggregate; its retention must hold what the windows need."""
    options, name, grace = store.options, store.name, windows.grace_ms
    if isinstance(windows, SessionWindows):
        needed = windows.gap_ms + grace
        retention = options.retention_ms if options.retention_ms is not None else needed
        if retention < needed:
            raise ValueError(
                f"The retention period of the session store {name} must be no smaller than the session"
                f" inactivity gap plus the grace period. Got gap=[{windows.gap_ms}], grace=[{grace}],"
                f" retention=[{retention}]"
            )
        # Kafka forgets a session one millisecond before a record could still belong to it.
        retention += graph.is_plain
        return session_store(graph, name, options, retention, is_time_first=on_close)
    if isinstance(windows, SlidingWindows):
        needed = 2 * windows.difference_ms + grace
        retention = options.retention_ms if options.retention_ms is not None else needed
        if retention < needed:
            raise ValueError(
                f"The retention period of the window store {name} must be no smaller than 2 * time difference"
                f" plus the grace period. Got time difference=[{windows.difference_ms}], grace=[{grace}],"
                f" retention=[{retention}]"
            )
    else:
        needed = windows.size_ms + grace
        retention = options.retention_ms if options.retention_ms is not None else needed
        if retention < needed:
            raise ValueError(
                f"The retention period of the window store {name} must be no smaller than its window size"
                f" plus the grace period. Got size=[{windows.size_ms}], grace=[{grace}],"
                f" retention=[{retention}]"
            )
    return window_store(graph, name, options, retention, windows.end_of, is_time_first=on_close)


def windowed_spec(
    windows: Windows,
    store: StoreSpec,
    initializer: Function,
    aggregator: Function,
    merger: Function | None,
    *,
    on_close: bool,
    is_plain: bool = False,
) -> Spec:
    grace = windows.grace_ms
    if isinstance(windows, SessionWindows):
        return Spec(
            SessionAggregate,
            store.name,
            windows.gap_ms,
            grace,
            initializer,
            aggregator,
            merger,
            on_close=on_close,
        )
    if isinstance(windows, SlidingWindows):
        return Spec(
            SlidingWindowAggregate,
            store.name,
            windows.difference_ms,
            grace,
            initializer,
            aggregator,
            on_close=on_close,
            allows_points=is_plain,
        )
    return Spec(
        TimeWindowAggregate,
        store.name,
        windows.windows_for,
        windows.size_ms,
        grace,
        initializer,
        aggregator,
        on_close=on_close,
    )


def windowed_supplier(windows: Windows, spec: Spec, store: StoreSpec) -> TableSupplier:
    if isinstance(windows, SessionWindows):
        return SessionSupplier(spec, store)
    return WindowSupplier(spec, store)


def windowed_table(
    graph: Graph,
    node: GraphNode,
    sources: frozenset[str],
    supplier: TableSupplier,
    windows: Windows,
) -> KTable[Windowed, Any]:
    store = supplier.store
    assert store is not None
    close_after_ms = windows.grace_ms
    if isinstance(windows, SlidingWindows) and graph.is_plain:
        # The end of a sliding window is inclusive: a record may still come at that time.
        close_after_ms += 1
    is_session = isinstance(windows, SessionWindows)
    if isinstance(windows, SessionWindows):
        close_after_ms += windows.gap_ms
    return KTable(
        graph,
        node,
        sources,
        supplier,
        None,
        store.value_serde,
        key_bytes=_windowed_key_bytes(graph.key_bytes(store.key_serde), is_session=is_session),
        close_after_ms=close_after_ms,
    )


def _windowed_key_bytes(key_bytes: KeyBytes, *, is_session: bool) -> KeyBytes:
    """Kafka writes the start of a window after its key, and of a session both ends."""
    if is_session:
        return lambda key: key_bytes(key.key) + time_bytes(key.end) + time_bytes(key.start)
    return lambda key: key_bytes(key.key) + time_bytes(key.start)
