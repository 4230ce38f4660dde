"""Options of the DSL's calls: serdes, names, stores, buffers. Where one is taken, a plain name may stand for
it.

Invariant: immutable; names are checked when they are given.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from moldau.streams.dsl.functions import Duration, milliseconds
from moldau.streams.engine.suppress import UNLIMITED
from moldau.streams.errors import TopologyError
from moldau.streams.topology.topology import TimestampExtractor

_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def checked_name(name: str) -> str:
    """A name of an operator or a store, which becomes part of names of topics."""
    if not name:
        raise TopologyError("Name is illegal, it can't be empty")
    if name in (".", ".."):
        raise TopologyError('Name cannot be "." or ".."')
    if len(name) > 249:
        raise TopologyError(f"Name is illegal, it can't be longer than 249 characters, name: {name}")
    if not _LEGAL.issuperset(name):
        raise TopologyError(
            f'Name "{name}" is illegal, it contains a character other than ASCII alphanumerics,'
            " '.', '_' and '-'"
        )
    return name


@dataclass(frozen=True, slots=True)
class Consumed:
    """How a topic is read."""

    key_serde: Any = None
    value_serde: Any = None
    timestamp_extractor: TimestampExtractor | None = None
    name: str | None = None

    @classmethod
    def with_(
        cls,
        key_serde: Any = None,
        value_serde: Any = None,
        *,
        timestamp_extractor: TimestampExtractor | None = None,
        name: str | None = None,
    ) -> "Consumed":
        return cls(key_serde, value_serde, timestamp_extractor, name and checked_name(name))

    @classmethod
    def as_(cls, name: str) -> "Consumed":
        return cls(name=checked_name(name))


@dataclass(frozen=True, slots=True)
class Produced:
    """How a topic is written."""

    key_serde: Any = None
    value_serde: Any = None
    partitioner: Callable[[str, Any, Any, int], int] | None = None
    name: str | None = None

    @classmethod
    def with_(
        cls,
        key_serde: Any = None,
        value_serde: Any = None,
        *,
        partitioner: Callable[[str, Any, Any, int], int] | None = None,
        name: str | None = None,
    ) -> "Produced":
        return cls(key_serde, value_serde, partitioner, name and checked_name(name))

    @classmethod
    def as_(cls, name: str) -> "Produced":
        return cls(name=checked_name(name))


@dataclass(frozen=True, slots=True)
class Grouped:
    """How records are grouped; the name is that of the repartition topic, where one is needed."""

    key_serde: Any = None
    value_serde: Any = None
    name: str | None = None

    @classmethod
    def with_(cls, key_serde: Any = None, value_serde: Any = None, *, name: str | None = None) -> "Grouped":
        return cls(key_serde, value_serde, name and checked_name(name))

    @classmethod
    def as_(cls, name: str) -> "Grouped":
        return cls(name=checked_name(name))


@dataclass(frozen=True, slots=True)
class Repartitioned:
    """How a stream is repartitioned."""

    key_serde: Any = None
    value_serde: Any = None
    name: str | None = None
    partitions: int | None = None

    @classmethod
    def with_(
        cls,
        key_serde: Any = None,
        value_serde: Any = None,
        *,
        name: str | None = None,
        number_of_partitions: int | None = None,
    ) -> "Repartitioned":
        return cls(key_serde, value_serde, name and checked_name(name), number_of_partitions)

    @classmethod
    def as_(cls, name: str) -> "Repartitioned":
        return cls(name=checked_name(name))

    def with_number_of_partitions(self, partitions: int) -> "Repartitioned":
        return replace(self, partitions=partitions)


@dataclass(frozen=True, slots=True)
class Joined:
    """A join of a stream with a table; grace lets records wait for a versioned table."""

    key_serde: Any = None
    value_serde: Any = None
    name: str | None = None
    grace_ms: int | None = None

    @classmethod
    def with_(
        cls,
        key_serde: Any = None,
        value_serde: Any = None,
        *,
        name: str | None = None,
        grace: Duration | None = None,
    ) -> "Joined":
        grace_ms = None if grace is None else milliseconds(grace)
        return cls(key_serde, value_serde, name and checked_name(name), grace_ms)

    @classmethod
    def as_(cls, name: str) -> "Joined":
        return cls(name=checked_name(name))

    def with_grace_period(self, grace: Duration) -> "Joined":
        return replace(self, grace_ms=milliseconds(grace))


@dataclass(frozen=True, slots=True)
class StreamJoined:
    """A join of two streams."""

    key_serde: Any = None
    value_serde: Any = None
    other_value_serde: Any = None
    name: str | None = None
    store_name: str | None = None

    @classmethod
    def with_(
        cls,
        key_serde: Any = None,
        value_serde: Any = None,
        other_value_serde: Any = None,
        *,
        name: str | None = None,
        store_name: str | None = None,
    ) -> "StreamJoined":
        return cls(
            key_serde,
            value_serde,
            other_value_serde,
            name and checked_name(name),
            store_name and checked_name(store_name),
        )

    @classmethod
    def as_(cls, store_name: str) -> "StreamJoined":
        return cls(store_name=checked_name(store_name))


@dataclass(frozen=True, slots=True)
class Materialized:
    """The store of a table."""

    store_name: str | None = None
    key_serde: Any = None
    value_serde: Any = None
    retention_ms: int | None = None
    history_ms: int | None = None
    is_logged: bool = True

    @classmethod
    def as_(cls, store_name: str) -> "Materialized":
        return cls(checked_name(store_name))

    @classmethod
    def as_versioned(cls, store_name: str, history_retention: Duration) -> "Materialized":
        """A store with a history, so that joins see rows as they were at a record's time."""
        history_ms = milliseconds(history_retention)
        if history_ms < 0:
            raise ValueError("historyRetention cannot be negative")
        return cls(checked_name(store_name), history_ms=history_ms)

    @classmethod
    def with_(cls, key_serde: Any = None, value_serde: Any = None) -> "Materialized":
        return cls(None, key_serde, value_serde)

    def with_key_serde(self, serde: Any) -> "Materialized":
        return replace(self, key_serde=serde)

    def with_value_serde(self, serde: Any) -> "Materialized":
        return replace(self, value_serde=serde)

    def with_retention(self, retention: Duration) -> "Materialized":
        retention_ms = milliseconds(retention)
        if retention_ms < 0:
            raise ValueError("Retention must not be negative.")
        return replace(self, retention_ms=retention_ms)

    def with_logging_disabled(self) -> "Materialized":
        return replace(self, is_logged=False)


@dataclass(frozen=True, slots=True)
class BufferConfig:
    """How much suppress may hold back, and what it does when that is too little."""

    records: int = UNLIMITED
    bytes: int = UNLIMITED
    emits_early: bool = False

    @classmethod
    def unbounded(cls) -> "BufferConfig":
        return cls()

    @classmethod
    def max_records(cls, records: int) -> "BufferConfig":
        return cls(records=records, emits_early=True)

    @classmethod
    def max_bytes(cls, size: int) -> "BufferConfig":
        return cls(bytes=size, emits_early=True)

    def with_max_records(self, records: int) -> "BufferConfig":
        return replace(self, records=records)

    def with_max_bytes(self, size: int) -> "BufferConfig":
        return replace(self, bytes=size)

    def with_no_bound(self) -> "BufferConfig":
        return BufferConfig()

    def emit_early_when_full(self) -> "BufferConfig":
        return replace(self, emits_early=True)

    def shut_down_when_full(self) -> "BufferConfig":
        return replace(self, emits_early=False)


@dataclass(frozen=True, slots=True)
class Suppressed:
    """When a table under ``suppress`` speaks."""

    buffer: BufferConfig
    #: None: when the window closes.
    time_limit_ms: int | None
    name: str | None = None

    @classmethod
    def until_window_closes(cls, buffer: BufferConfig | None = None) -> "Suppressed":
        return cls(buffer or BufferConfig.unbounded(), None)

    @classmethod
    def until_time_limit(cls, limit: Duration, buffer: BufferConfig) -> "Suppressed":
        return cls(buffer, milliseconds(limit))

    def with_name(self, name: str) -> "Suppressed":
        return replace(self, name=checked_name(name))


class EmitStrategy:
    """When a windowed aggregate speaks: at every update, or once, when a window closes."""

    __slots__ = ("is_on_window_close",)

    def __init__(self, is_on_window_close: bool) -> None:
        self.is_on_window_close = is_on_window_close

    @classmethod
    def on_window_update(cls) -> "EmitStrategy":
        return cls(False)

    @classmethod
    def on_window_close(cls) -> "EmitStrategy":
        return cls(True)


def materialized_of(option: Materialized | str | None) -> Materialized | None:
    return Materialized.as_(option) if isinstance(option, str) else option
