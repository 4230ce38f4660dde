"""Suppress: holds results back until a window closes, a time is over, or the buffer is full.

Invariant: a result that was held back leaves with the timestamp and the headers of the record that caused it.
"""

from collections.abc import Callable
from typing import Any

from moldau.streams.engine.nodes import Node, TaskContext
from moldau.streams.engine.records import NO_TIME, Headers, TimedValue, Windowed
from moldau.streams.engine.stores.buffers import Held, SuppressBuffer
from moldau.streams.engine.tables import Getter
from moldau.streams.errors import StreamsError

#: Kafka's number for "no limit".
UNLIMITED = 2**63 - 1


def record_time(key: Any, timestamp: int) -> int:
    return timestamp


def window_end(key: Windowed, timestamp: int) -> int:
    return key.end


class Suppress(Node):
    __slots__ = (
        "buffer",
        "buffer_name",
        "drops_tombstones",
        "emits_early",
        "max_bytes",
        "max_records",
        "observed",
        "time_of",
        "wait_ms",
    )

    def __init__(
        self,
        buffer_name: str,
        wait_ms: int,
        time_of: Callable[[Any, int], int],
        *,
        max_records: int = UNLIMITED,
        max_bytes: int = UNLIMITED,
        emits_early: bool = False,
        drops_tombstones: bool = False,
    ) -> None:
        super().__init__()
        self.buffer_name = buffer_name
        self.wait_ms = wait_ms
        self.time_of = time_of
        self.max_records = max_records
        self.max_bytes = max_bytes
        #: What a full buffer does: send the oldest, or stop the program.
        self.emits_early = emits_early
        self.drops_tombstones = drops_tombstones
        self.observed = NO_TIME
        self.buffer: SuppressBuffer

    def start(self, context: TaskContext) -> None:
        super().start(context)
        self.buffer = context.stores[self.buffer_name]  # type: ignore[assignment]

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if timestamp > self.observed:
            self.observed = timestamp
        buffer = self.buffer
        time = self.time_of(key, timestamp)
        buffer.put(key, Held(time, value.old, value, timestamp, headers, *self.context.place()))
        while buffer.first_time() <= self.observed - self.wait_ms:
            self._emit_first()
        if not self._is_full():
            return
        if not self.emits_early:
            raise StreamsError(
                f"{self.name} buffer exceeded its max capacity. Currently [{len(buffer)}/{self.max_records}]"
                f" records and [{buffer.byte_size}/{self.max_bytes}] bytes."
            )
        while self._is_full():
            self._emit_first()

    def _is_full(self) -> bool:
        if len(self.buffer) > self.max_records:
            return True
        return self.max_bytes != UNLIMITED and self.buffer.byte_size > self.max_bytes

    def _emit_first(self) -> None:
        key, held = self.buffer.first()
        if held.change.new is not None or not self.drops_tombstones:
            place = self.context.place()
            self.context.go_to((held.topic, held.partition, held.offset))
            # Who reads the table meanwhile still sees the row that this one follows.
            self.forward(key, held.change, held.timestamp, held.headers)
            self.context.go_to(place)
        self.buffer.pop()

    def numbers(self) -> tuple[Any, ...]:
        return (self.observed,)

    def restore_numbers(self, numbers: tuple[Any, ...]) -> None:
        (self.observed,) = numbers


class SuppressGetter:
    """Rows of a table under suppress as readers of it have seen them."""

    __slots__ = ("_buffer", "_parent", "is_versioned")

    def __init__(self, buffer: SuppressBuffer, parent: Getter) -> None:
        self._buffer = buffer
        self._parent = parent
        self.is_versioned = False

    def get(self, key: Any) -> TimedValue | None:
        held = self._buffer.get(key)
        if held is None:
            return self._parent.get(key)
        return None if held.prior is None else TimedValue(held.prior, NO_TIME)

    def get_as_of(self, key: Any, timestamp: int) -> TimedValue | None:
        return self.get(key)
