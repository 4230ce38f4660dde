"""What stands behind a table: its store, its operator, and how others read it.

Invariant: a table has a store if the program named one, or if somebody needs it (a join, an aggregate);
asking for old values without force never makes one.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from moldau.streams.dsl.graph import Spec
from moldau.streams.engine.sessions import SessionGetter
from moldau.streams.engine.stores.store import Store
from moldau.streams.engine.suppress import SuppressGetter
from moldau.streams.engine.table_joins import JoinGetter, MakeGetter
from moldau.streams.engine.tables import FilterGetter, Getter, MapGetter
from moldau.streams.engine.windows import WindowGetter
from moldau.streams.topology.topology import StoreSpec


class TableSupplier:
    """The base: an operator with or without a store of its own."""

    def __init__(self, spec: Spec, store: StoreSpec | None, *, history_ms: int | None = None) -> None:
        self.spec = spec
        self.store = store
        #: Of versioned tables: how far back they remember.
        self.history_ms = history_ms

    @property
    def is_versioned(self) -> bool:
        return self.history_ms is not None

    def enable_old_values(self, *, force: bool) -> bool:
        """Makes changes carry their old value, if that is possible; with ``force`` it is made possible."""
        self.spec.options["sends_old"] = True
        return True

    def store_names(self) -> list[StoreSpec]:
        """The stores that a reader of the table needs."""
        assert self.store is not None
        return [self.store]

    def getter(self) -> MakeGetter:
        assert self.store is not None
        return partial(_read_store, self.store.name)


def _read_store(name: str, stores: dict[str, Store]) -> Getter:
    store: Getter = stores[name]  # type: ignore[assignment]
    return store


class SourceSupplier(TableSupplier):
    """A table of a topic or of a stream. Its store is made when it is needed."""

    def __init__(
        self, spec: Spec, make_store: Callable[[], StoreSpec], *, is_kept: bool, history_ms: int | None
    ) -> None:
        super().__init__(spec, None, history_ms=history_ms)
        self._make_store = make_store
        if is_kept:
            self.materialize()

    def materialize(self) -> None:
        if self.store is None:
            self.store = self._make_store()
            self.spec.options["store_name"] = self.store.name

    def enable_old_values(self, *, force: bool) -> bool:
        if not force and self.store is None:
            return False
        self.materialize()
        return super().enable_old_values(force=force)

    def store_names(self) -> list[StoreSpec]:
        self.materialize()
        return super().store_names()

    def getter(self) -> MakeGetter:
        self.materialize()
        return super().getter()


class WindowSupplier(TableSupplier):
    def getter(self) -> MakeGetter:
        assert self.store is not None
        name = self.store.name
        return lambda stores: WindowGetter(stores[name])  # type: ignore[arg-type]


class SessionSupplier(TableSupplier):
    def getter(self) -> MakeGetter:
        assert self.store is not None
        name = self.store.name
        return lambda stores: SessionGetter(stores[name])  # type: ignore[arg-type]


class DerivedSupplier(TableSupplier):
    """A table that is computed row by row from another: filter, map_values."""

    def __init__(
        self,
        spec: Spec,
        store: StoreSpec | None,
        parent: TableSupplier,
        make_getter: Callable[[Getter], Getter],
    ) -> None:
        super().__init__(spec, store, history_ms=parent.history_ms if store is None else None)
        self._parent = parent
        self._make_getter = make_getter

    def enable_old_values(self, *, force: bool) -> bool:
        if self.store is None and not self._parent.enable_old_values(force=force):
            return False
        return super().enable_old_values(force=force)

    def store_names(self) -> list[StoreSpec]:
        return [self.store] if self.store is not None else self._parent.store_names()

    def getter(self) -> MakeGetter:
        if self.store is not None:
            return super().getter()
        read_parent, make = self._parent.getter(), self._make_getter
        return lambda stores: make(read_parent(stores))


def filter_getter(predicate: Callable[[Any, Any], Any], keep: bool) -> Callable[[Getter], Getter]:
    return lambda parent: FilterGetter(parent, predicate, keep)


def map_getter(function: Callable[[Any, Any], Any]) -> Callable[[Getter], Getter]:
    return lambda parent: MapGetter(parent, function)


class JoinSupplier(TableSupplier):
    """The result of a table-table join."""

    def __init__(
        self,
        spec: Spec,
        store: StoreSpec | None,
        sides: tuple[Spec, Spec],
        tables: tuple[TableSupplier, TableSupplier],
        joiner: Callable[[Any, Any, Any], Any],
        *,
        without_left: bool,
        without_right: bool,
    ) -> None:
        super().__init__(spec, store)
        self._sides = sides
        self._tables = tables
        self._joiner = joiner
        self._without_left = without_left
        self._without_right = without_right

    def enable_old_values(self, *, force: bool) -> bool:
        for side, table in zip(self._sides, self._tables, strict=True):
            table.enable_old_values(force=True)
            side.options["sends_old"] = True
        return super().enable_old_values(force=force)

    def store_names(self) -> list[StoreSpec]:
        if self.store is not None:
            return [self.store]
        left, right = self._tables
        return [*left.store_names(), *right.store_names()]

    def getter(self) -> MakeGetter:
        if self.store is not None:
            return super().getter()
        left, right = (table.getter() for table in self._tables)
        make = partial(JoinGetter, without_left=self._without_left, without_right=self._without_right)
        return lambda stores: make(left(stores), right(stores), self._joiner)


class SuppressSupplier(TableSupplier):
    def __init__(self, spec: Spec, buffer: StoreSpec, parent: TableSupplier) -> None:
        super().__init__(spec, buffer)
        self._parent = parent

    def enable_old_values(self, *, force: bool) -> bool:
        return self._parent.enable_old_values(force=force)

    def store_names(self) -> list[StoreSpec]:
        assert self.store is not None
        return [self.store, *self._parent.store_names()]

    def getter(self) -> MakeGetter:
        assert self.store is not None
        name, read_parent = self.store.name, self._parent.getter()
        return lambda stores: SuppressGetter(stores[name], read_parent(stores))  # type: ignore[arg-type]


class CogroupSupplier(TableSupplier):
    """The result of a cogroup: several aggregates write to one store."""

    def __init__(self, spec: Spec, store: StoreSpec, parts: list[TableSupplier]) -> None:
        super().__init__(spec, store)
        self._parts = parts

    def enable_old_values(self, *, force: bool) -> bool:
        for part in self._parts:
            part.enable_old_values(force=force)
        return True

    def getter(self) -> MakeGetter:
        return self._parts[0].getter()
