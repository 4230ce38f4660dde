"""``TestDriver``: a program with topics in memory, for tests that need neither Spark nor a broker.

Invariant: what Kafka's ``TopologyTestDriver`` does: one partition, one task for the whole topology, every
record is finished, with all that follows from it, before the next one; the wall clock stands still until it
is told.
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

from moldau.streams.engine.queues import RecordQueues
from moldau.streams.engine.records import Headers, Input, Output
from moldau.streams.engine.stores.store import Store
from moldau.streams.engine.task import OnError, Task, TaskState
from moldau.streams.errors import DecodeError, StreamsError
from moldau.streams.topology.topology import Topology

_FAILED_DECODING = (
    "Deserialization exception handler is set to fail upon a deserialization error. If you would rather"
    " have the streaming pipeline continue after a deserialization error, please set the"
    " deserialization.exception.handler appropriately."
)


class TestDriver:
    """Feeds a topology by hand: ``pipe_input``, ``read_output``, ``store``, ``advance_wall_clock``."""

    __test__ = False

    def __init__(
        self,
        topology: Topology,
        *,
        wall_clock_ms: int = 0,
        processing_errors: OnError = "fail",
        decoding_errors: OnError = "fail",
        application_id: str = "",
    ) -> None:
        self.topology = topology
        self._application_id = application_id
        self.wall_clock_ms = wall_clock_ms
        self._processing_errors: OnError = processing_errors
        self._decoding_errors: OnError = decoding_errors
        self._task = self._new_task()
        self._queues = RecordQueues()
        self._offsets: Counter[str] = Counter()
        self._outputs: dict[str, deque[Output]] = {}
        #: How many records went to each repartition topic.
        self.internal_records: Counter[str] = Counter()
        self._global_topics = {
            topic
            for source in topology.sources()
            if source.name in topology.global_sources
            for topic in source.topics
        }

    def _new_task(self) -> Task:
        return Task(
            self.topology,
            wall_clock_ms=self.wall_clock_ms,
            on_error=self._processing_errors,
            application_id=self._application_id,
        )

    # --- in -----------------------------------------------------------------------------------------

    def pipe_input(
        self,
        topic: str,
        key: Any = None,
        value: Any = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> list[Output]:
        """One record with Python values; gives everything that it caused, topic by topic as it was sent."""
        time = self.wall_clock_ms if timestamp is None else timestamp
        self._enqueue(topic, key, value, time, headers)
        return self._finish()

    def pipe_raw_input(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> list[Output]:
        """One record as bytes, decoded with the serdes of the topic's source."""
        source = self.topology.source_of(topic)
        if source is None:
            raise ValueError(f"Unknown topic: {topic}")
        try:
            decoded_key = _decoded(source.key_serde, topic, key)
            decoded_value = _decoded(source.value_serde, topic, value)
        except Exception as error:
            self._offsets[topic] += 1
            return self._refuse(topic, error)
        return self.pipe_input(topic, decoded_key, decoded_value, timestamp, headers)

    def _refuse(self, topic: str, error: Exception) -> list[Output]:
        """Fails where that was asked for, as Kafka's driver does; never for topics of global tables."""
        if self._decoding_errors == "fail" and topic not in self._global_topics:
            raise DecodeError(_FAILED_DECODING) from error
        self._task.counters.dropped += 1
        return []

    def _enqueue(self, topic: str, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if self.topology.source_of(topic) is None:
            raise ValueError(f"Unknown topic: {topic}")
        record = Input(topic, key, value, timestamp, headers, 0, self._offsets[topic])
        self._offsets[topic] += 1
        time = self._task.timestamp_of(record)
        if time < 0:
            self._task.counters.dropped += 1
        elif topic in self._global_topics:
            self._task.take_global(record, time)
        else:
            self._queues.add(record, time)

    def _finish(self) -> list[Output]:
        """Takes records, those that the program sends to itself included, until none is left."""
        results = self._collect()
        while self._queues:
            self._take(*self._queues.take())
            results += self._collect()
        return results

    def _take(self, record: Input, time: int) -> None:
        self._task.take(record, time)

    def _collect(self) -> list[Output]:
        results = []
        for output in self._task.take_outputs():
            if self.topology.is_internal(output.topic):
                self.internal_records[output.topic] += 1
            else:
                results.append(output)
                self._outputs.setdefault(output.topic, deque()).append(output)
            if self.topology.source_of(output.topic) is not None:
                self._enqueue(*output)
        return results

    def advance_wall_clock(self, by_ms: int) -> list[Output]:
        """Lets time pass; punctuation by wall clock that is due runs once."""
        self.wall_clock_ms += by_ms
        self._task.advance_wall_clock(self.wall_clock_ms)
        return self._finish()

    # --- out ----------------------------------------------------------------------------------------

    def read_output(self, topic: str) -> Output | None:
        """The next record of a topic that was not read yet."""
        queue = self._outputs.get(topic)
        return queue.popleft() if queue else None

    def read_outputs(self, topic: str) -> Iterator[Output]:
        """All records of a topic that were not read yet."""
        while (output := self.read_output(topic)) is not None:
            yield output

    def store(self, name: str) -> Store:
        if name not in self._task.stores:
            raise StreamsError(f"no store {name}; there are {', '.join(sorted(self._task.stores)) or 'none'}")
        return self._task.stores[name]

    def rows(self, store: str) -> dict[Any, Any]:
        """The rows of a store as keys and values, in the store's own order."""
        return {entry.key: entry.value for entry in self.store(store).entries()}

    @property
    def stores(self) -> dict[str, Store]:
        return self._task.stores

    @property
    def dropped_records(self) -> int:
        return self._task.counters.dropped

    # --- saving and taking over ---------------------------------------------------------------------

    def export(self) -> TaskState:
        return self._task.export()

    def restart(self, state: TaskState | None = None) -> None:
        """A new task that goes on from a state; without one, from where the old task is."""
        state = state if state is not None else self._task.export()
        old = self._task
        self._task = self._new_task()
        self._task.restore(state)
        self._task.counters.dropped = old.counters.dropped
        for name, store in self._task.stores.items():
            store.changelog_records = old.stores[name].changelog_records

    def __enter__(self) -> "TestDriver":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._task.close()


def _decoded(serde: Any, topic: str, data: bytes | None) -> Any:
    return data if serde is None or data is None else serde.deserialize(topic, data)
