"""The stores of an application as others see them: read from the topics of its state.

Invariant: only batches that are decided are seen. What is known of a partition is one moment of it: all
of its rows are those after the offsets that ``places`` names. Nothing is asked of the processes that run the
tasks, so a view works anywhere, also while the application is stopped.
"""

import base64
import dataclasses
import json
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple

from moldau.base.names import TopicPartition
from moldau.serde import plain
from moldau.spark.background_loop import connect
from moldau.spark.read.listing import list_offset
from moldau.spark.read.offsets import EARLIEST, LATEST
from moldau.streams.engine.records import TimedValue, Windowed
from moldau.streams.engine.stores.store import Entry, Store
from moldau.streams.engine.stores.tables import VersionedStore
from moldau.streams.engine.stores.windows import SessionStore, WindowStore
from moldau.streams.errors import StreamsError
from moldau.streams.runner.orders import Application
from moldau.streams.runner.saved_state import Decoder
from moldau.streams.runner.worker import Reading


class Place(NamedTuple):
    """A partition of an input topic, and up to which offset it was taken."""

    topic: str
    partition: int
    offset: int


class _Partition:
    """The state of one task, followed."""

    def __init__(self, application: Application, group: int, partition: int) -> None:
        topic = application.layout.groups[group].state_topic
        assert topic is not None
        self._application = application
        self._place = TopicPartition(topic, partition)
        self._decoder = Decoder(application.program.module)
        self._next: int | None = None
        self.stores: dict[str, Store] = {}
        self.places: list[Place] = []
        self._topology = application.program.load().topology(partition)

    def catch_up(self) -> None:
        loop = connect(self._application.cluster)
        if self._next is None:
            self._next = loop.run(list_offset(loop.cluster, self._place, EARLIEST))
        end = loop.run(list_offset(loop.cluster, self._place, LATEST))
        if end <= self._next:
            return
        for piece in Reading(self._application, headers=False)(self._place, self._next, end):
            self._decoder.take(piece.key.to_pylist(), piece.value.to_pylist())
        self._next = end
        saved = self._decoder.changes()
        if saved is None:
            return
        self.places = [Place(topic, number, at) for (topic, number), at in sorted(saved.positions.items())]
        for name, changes in saved.state.stores.items():
            if name not in self.stores:
                if name not in self._topology.stores:
                    continue  # of an earlier version of the program
                self.stores[name] = self._topology.stores[name].make()
            self.stores[name].restore(changes)


class StoreViews:
    """All stores of an application; ``refresh`` brings them up to what is decided now."""

    def __init__(self, application: Application) -> None:
        self._topology = application.program.load().topology(0)
        self._partitions = [
            _Partition(application, group.number, partition)
            for group in application.layout.groups
            if group.state_topic is not None
            for partition in range(group.tasks)
        ]

    def refresh(self) -> None:
        for partition in self._partitions:
            partition.catch_up()

    def names(self) -> list[str]:
        return sorted(name for name, spec in self._topology.stores.items() if not spec.is_global)

    def check(self, name: str) -> None:
        if name not in self.names():
            raise StreamsError(f"there is no store {name}; there are {', '.join(self.names()) or 'none'}")

    def kind(self, name: str) -> str:
        store = self._topology.stores[name].make()
        return {WindowStore: "window", SessionStore: "session", VersionedStore: "versioned"}.get(
            type(store), "key-value"
        )

    def size(self, name: str) -> int:
        return sum(len(p.stores[name]) for p in self._partitions if name in p.stores)

    def places(self, name: str | None = None) -> list[Place]:
        found = [p for p in self._partitions if name is None or name in p.stores]
        return sorted({place for partition in found for place in partition.places})

    def key_of(self, name: str, text: str) -> Any:
        """A key from its text, by the serde of the store."""
        serde = self._topology.stores[name].key_serde
        serde = serde if serde is not None else self._topology.default_key_serde
        try:
            if serde in (plain.LONG, plain.INTEGER):
                return int(text)
            if serde is plain.DOUBLE:
                return float(text)
            if serde is plain.BYTES:
                return text.encode()
            if serde is not None and getattr(serde, "_name", "") == "JSON":
                try:
                    return json.loads(text)
                except ValueError:
                    return text
        except ValueError:
            raise StreamsError(f"{text!r} is no key of {name}: its keys are numbers") from None
        return text

    def get(self, name: str, key: Any) -> tuple[list[Entry], list[Place]]:
        """The rows of a key (several for windows), with up to where its partition was taken."""
        self.check(name)
        for partition in self._partitions:
            store = partition.stores.get(name)
            if store is not None and (rows := list(_rows_of_key(store, key))):
                return rows, partition.places
        return [], self.places(name)

    def all(self, name: str) -> Iterator[Entry]:
        """Every row, partition by partition, each in the order of its store."""
        self.check(name)
        for partition in self._partitions:
            if name in partition.stores:
                yield from partition.stores[name].entries()

    def order_of(self, name: str, key: Any) -> bytes:
        """Where a key stands among the keys of its store."""
        for partition in self._partitions:
            if name in partition.stores:
                return partition.stores[name].key_bytes(key.key if isinstance(key, Windowed) else key)
        return b""


def _rows_of_key(store: Store, key: Any) -> Iterator[Entry]:
    row = store.row(key)
    if row is None:
        return
    if isinstance(store, WindowStore):
        for start, aggregate in sorted(row.items()):
            yield Entry(Windowed(key, start, store.end_of(start)), *aggregate)
    elif isinstance(store, SessionStore):
        for start, end in sorted(row):
            yield Entry(Windowed(key, start, end), row[start, end])
    elif isinstance(store, VersionedStore):
        yield from (entry for entry in store.entries() if entry.key == key)
    elif isinstance(row, TimedValue):
        yield Entry(key, row.value, row.timestamp)
    else:
        yield Entry(key, row)


def row_json(entry: Entry) -> dict[str, Any]:
    """A row as JSON has it."""
    row: dict[str, Any] = {}
    if isinstance(entry.key, Windowed):
        row = {"key": plain_json(entry.key.key), "start": entry.key.start, "end": entry.key.end}
    else:
        row["key"] = plain_json(entry.key)
    row["value"] = plain_json(entry.value)
    if entry.timestamp is not None:
        row["timestamp"] = entry.timestamp
    return row


def plain_json(value: Any) -> Any:
    """A value of a program as JSON has it: dataclasses as objects, bytes as base64."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Windowed):
        return {"key": plain_json(value.key), "start": value.start, "end": value.end}
    if isinstance(value, Mapping):
        return {str(key): plain_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_json(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date | datetime):
        return value.isoformat()
    return str(value)


__all__ = ["Place", "StoreViews", "plain_json", "row_json"]
