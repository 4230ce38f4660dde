"""How the stores of a program are declared.

Invariant: one declaration for each store; how many rows it may keep, and for how long, is known from it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from moldau.streams.dsl.graph import Graph
from moldau.streams.dsl.options import Materialized
from moldau.streams.engine.records import KeyBytes
from moldau.streams.engine.stores.tables import KeyValueStore, TableStore, VersionedStore
from moldau.streams.engine.stores.windows import SessionStore, WindowStore
from moldau.streams.topology.topology import StoreSpec


class Stores:
    """Stores for processors of the program itself: ``process(…, stores=[Stores.key_value("counts")])``."""

    @staticmethod
    def key_value(
        name: str, *, key_serde: Any = None, value_serde: Any = None, is_logged: bool = True
    ) -> "StoreBuilder":
        return StoreBuilder(name, key_serde, value_serde, is_logged)


class StoreBuilder:
    """A store that is declared once and may be given to several processors."""

    def __init__(self, name: str, key_serde: Any, value_serde: Any, is_logged: bool) -> None:
        self.name = name
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._is_logged = is_logged
        self._spec: StoreSpec | None = None

    def spec(self, graph: Graph) -> StoreSpec:
        if self._spec is None:
            make = partial(
                KeyValueStore, self.name, graph.key_bytes(self._key_serde), is_logged=self._is_logged
            )
            self._spec = StoreSpec(
                self.name,
                make,
                self._is_logged,
                key_serde=self._key_serde,
                value_serde=self._value_serde,
            )
        return self._spec


def table_store(
    graph: Graph,
    name: str,
    materialized: Materialized | None,
    key_serde: Any,
    value_serde: Any,
    *,
    key_bytes: KeyBytes | None = None,
    is_global: bool = False,
) -> StoreSpec:
    """A table's store: plain, or versioned where it was asked for."""
    options = materialized or Materialized()
    is_logged = options.is_logged and not is_global
    order = graph.key_bytes(options.key_serde or key_serde)
    if key_bytes is not None and options.key_serde is None:
        order = key_bytes
    make: Callable[[], TableStore]
    if options.history_ms is not None:
        make = partial(VersionedStore, name, order, options.history_ms, is_logged=is_logged)
    else:
        make = partial(TableStore, name, order, is_logged=is_logged)
    return StoreSpec(
        name,
        make,
        is_logged,
        is_global,
        options.key_serde or key_serde,
        options.value_serde or value_serde,
    )


def window_store(
    graph: Graph,
    name: str,
    options: Materialized,
    retention_ms: int,
    end_of: Callable[[int], int],
    *,
    is_time_first: bool,
) -> StoreSpec:
    make = partial(
        WindowStore,
        name,
        graph.key_bytes(options.key_serde),
        retention_ms,
        end_of,
        is_logged=options.is_logged,
        is_time_first=is_time_first,
        keeps_until_emitted=is_time_first and graph.is_plain,
    )
    return StoreSpec(
        name,
        make,
        options.is_logged,
        key_serde=options.key_serde,
        value_serde=options.value_serde,
        retention_ms=retention_ms,
    )


def session_store(
    graph: Graph, name: str, options: Materialized, retention_ms: int, *, is_time_first: bool
) -> StoreSpec:
    make = partial(
        SessionStore,
        name,
        graph.key_bytes(options.key_serde),
        retention_ms,
        is_logged=options.is_logged,
        is_time_first=is_time_first,
        keeps_until_emitted=is_time_first and graph.is_plain,
    )
    return StoreSpec(
        name,
        make,
        options.is_logged,
        key_serde=options.key_serde,
        value_serde=options.value_serde,
        retention_ms=retention_ms,
    )
