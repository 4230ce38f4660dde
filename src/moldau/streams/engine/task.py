"""A task: the operators of a topology with their state, fed one record at a time.

Invariant: the records decide. The same records in the same order give the same results and the same state,
however they are cut into batches and wherever the task was saved and taken over; a task that fails in a batch
is thrown away, and its successor starts from what was saved before.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import count, repeat
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from moldau.streams.engine.fused import Columns, Loops, Results, failed_record, fused_loops
from moldau.streams.engine.nodes import Forward, Node, PassThrough, TaskContext
from moldau.streams.engine.processors import ProcessorNode, Scheduler
from moldau.streams.engine.records import NO_TIME, Input, Output
from moldau.streams.engine.stores.store import (
    FAILED,
    LATE,
    NEGATIVE_TIME,
    NO_KEY_OR_VALUE,
    Counters,
    Store,
    StoreState,
)
from moldau.streams.errors import StreamsError

if TYPE_CHECKING:
    from moldau.streams.topology.topology import Topology

#: What happens where a function of the program raises: stop, or drop the record and go on.
OnError = Literal["fail", "continue"]


class TaskState(NamedTuple):
    """Everything that a task remembers, or what of it changed since the last batch."""

    stores: dict[str, StoreState]
    operators: dict[str, tuple[Any, ...]]
    task: tuple[Any, ...]


class _Source(NamedTuple):
    forward: Forward
    extractor: Callable[[Input, int], int] | None


class Task:
    """The running form of a topology, or of one of its sub-topologies.

    ``stores`` may bring stores that live outside, such as those of global tables.
    """

    def __init__(
        self,
        topology: "Topology",
        nodes: Iterable[str] | None = None,
        *,
        task_id: str = "0_0",
        wall_clock_ms: int = 0,
        on_error: OnError = "fail",
        application_id: str = "",
        stores: Mapping[str, Store] | None = None,
    ) -> None:
        self.topology = topology
        self.task_id = task_id
        chosen = tuple(topology.nodes) if nodes is None else tuple(nodes)
        self.counters = Counters()
        self.stores: dict[str, Store] = {**(stores or {})}
        for name in dict.fromkeys(store for node in chosen for store in topology.nodes[node].stores):
            if name not in self.stores:
                self.stores[name] = topology.stores[name].make()
                self.stores[name].counters = self.counters
        self.context = TaskContext(self.stores, self.counters)
        self.context.wall_clock_ms = wall_clock_ms
        self.context.scheduler = self._scheduler = Scheduler(self.context)
        self._buffers = [
            store for store in self.stores.values() if type(store).committed is not Store.committed
        ]
        self._partition_times: dict[tuple[str, int], int] = {}
        #: Repartition topics as they are called in a cluster.
        self._full_names = (
            {topic: f"{application_id}-{topic}" for topic in topology.repartition_topics}
            if application_id
            else {}
        )
        self._on_error = on_error
        self._fused: dict[str, Loops] | None = None
        self._link(chosen, on_error)

    def _link(self, names: tuple[str, ...], on_error: OnError) -> None:
        topology = self.topology
        self.nodes: dict[str, Node] = {}
        self._sources: dict[str, _Source] = {}
        for name in names:
            make = getattr(topology.nodes[name], "make", PassThrough)
            self.nodes[name] = node = make()
            node.name = name
        for name in reversed(names):
            node = self.nodes[name]
            children = [self.nodes[child.name] for child in topology.children(name)]
            node.link(children, self._guarded if on_error == "continue" else None)
        for source in topology.sources():
            if source.name in self.nodes:
                node = self.nodes[source.name]
                for topic in source.topics:
                    self._sources[topic] = _Source(node.forward, source.timestamp_extractor)
        for node in self.nodes.values():
            node.start(self.context)

    def _guarded(self, process: Forward) -> Forward:
        def guarded(key: Any, value: Any, timestamp: int, headers: Any) -> None:
            try:
                process(key, value, timestamp, headers)
            except Exception:
                self.counters.drop(FAILED)

        return guarded

    # --- running ------------------------------------------------------------------------------------

    def timestamp_of(self, record: Input) -> int:
        """The time that the program gives a record; negative ones are to be dropped."""
        extractor = self._sources[record.topic].extractor
        if extractor is None:
            return record.timestamp
        try:
            return extractor(record, self._partition_times.get((record.topic, record.partition), NO_TIME))
        except Exception as error:
            raise StreamsError(
                f"Fatal user code error in TimestampExtractor callback for record {record}."
            ) from error

    def take(self, record: Input, timestamp: int) -> None:
        """One record, with the time that ``timestamp_of`` gave; results go to ``outputs``."""
        context = self.context
        topic = record.topic
        context.topic, context.partition = self._full_names.get(topic, topic), record.partition
        context.offset = record.offset
        place = (topic, record.partition)
        if timestamp > self._partition_times.get(place, NO_TIME):
            self._partition_times[place] = timestamp
        if timestamp > context.stream_time:
            context.stream_time = timestamp
        try:
            self._sources[topic].forward(record.key, record.value, timestamp, record.headers)
            if self._scheduler.schedules:
                self._scheduler.run_due("stream_time", context.stream_time)
        except Exception as error:
            failed = failed_operator(error.__traceback__)
            raise StreamsError(
                f"Exception caught in process. taskId={self.task_id}, processor={failed},"
                f" topic={self._full_names.get(topic, topic)},"
                f" partition={record.partition}, offset={record.offset}"
            ) from error
        for buffer in self._buffers:
            buffer.committed()

    def take_global(self, record: Input, timestamp: int) -> None:
        """One record of a global table's topic; it does not move the time of the task."""
        self._sources[record.topic].forward(record.key, record.value, timestamp, record.headers)

    def process(self, records: Iterable[Input]) -> list[Output]:
        """A batch of records in the order in which they are to be taken; gives its results."""
        for record in records:
            timestamp = self.timestamp_of(record)
            if timestamp < 0:
                self.counters.drop(NEGATIVE_TIME)
            else:
                self.take(record, timestamp)
        return self.take_outputs()

    def process_columns(self, topic: str, columns: Columns, partition: int = 0) -> dict[str, Results]:
        """A batch of records of one topic as columns; gives the columns of each topic that got any.

        Where the operators of the topic can be written out as a loop, that runs; else each record is taken.
        """
        timestamps = columns.timestamps
        if not len(timestamps):
            return {}
        loops = self._loops().get(topic)
        if loops is None or self._sources[topic].extractor is not None or min(timestamps) < 0:
            return self._process_rows(topic, columns, partition)
        results: dict[str, Results] = defaultdict(_no_results)
        loop = loops.plain if columns.headers is None else loops.with_headers
        try:
            incomplete, late = loop(columns, results)
            self.counters.drop(NO_KEY_OR_VALUE, incomplete)
            self.counters.drop(LATE, late)
        except Exception as error:
            raise StreamsError(
                f"Exception caught in process. taskId={self.task_id},"
                f" topic={self._full_names.get(topic, topic)}, partition={partition},"
                f" {failed_record(loop, error.__traceback__)}"
            ) from error
        newest, place = max(timestamps), (topic, partition)
        self._partition_times[place] = max(newest, self._partition_times.get(place, NO_TIME))
        self.context.stream_time = max(newest, self.context.stream_time)
        return {name: each for name, each in results.items() if each.keys}

    def _process_rows(self, topic: str, columns: Columns, partition: int) -> dict[str, Results]:
        headers = columns.headers or repeat(())
        offsets = columns.offsets or count()
        rows = zip(columns.keys, columns.values, columns.timestamps, headers, offsets, strict=False)
        results: dict[str, Results] = defaultdict(_no_results)
        for output in self.process(
            Input(topic, key, value, timestamp, each, partition, offset)
            for key, value, timestamp, each, offset in rows
        ):
            results[output.topic].add(output)
        return results

    def _loops(self) -> dict[str, Loops]:
        """The loops of topics, written when columns first come; not where errors are to be passed over."""
        if self._fused is None:
            is_plain = not self._scheduler.schedules and not self._buffers and self._on_error == "fail"
            nodes = {
                topic: self.nodes[source.name]
                for source in self.topology.sources()
                if source.name in self.nodes
                for topic in source.topics
            }
            self._fused = fused_loops(nodes) if is_plain else {}
        return self._fused

    def fused_topics(self) -> set[str]:
        """Topics whose columns go through a loop."""
        return set(self._loops())

    def take_outputs(self) -> list[Output]:
        outputs, self.context.outputs = self.context.outputs, []
        return outputs

    def advance_wall_clock(self, wall_clock_ms: int) -> None:
        """Tells the task the time; punctuation by wall clock that is due runs."""
        self.context.wall_clock_ms = wall_clock_ms
        self._scheduler.run_due("wall_clock_time", wall_clock_ms)
        for buffer in self._buffers:
            buffer.committed()

    def close(self) -> None:
        for node in self.nodes.values():
            if isinstance(node, ProcessorNode):
                node.processor.close()

    # --- saving and taking over ---------------------------------------------------------------------

    def export(self) -> TaskState:
        return self._state({name: store.export() for name, store in self._own_stores()})

    def take_changes(self) -> TaskState:
        """What changed since the last call: rows of stores, and all numbers, which are few."""
        return self._state({name: store.take_changes() for name, store in self._own_stores()})

    def _own_stores(self) -> Iterable[tuple[str, Store]]:
        return ((name, store) for name, store in self.stores.items() if store.counters is self.counters)

    def _state(self, stores: dict[str, StoreState]) -> TaskState:
        operators = {name: numbers for name, node in self.nodes.items() if (numbers := node.numbers())}
        own = (self.context.stream_time, dict(self._partition_times), self._scheduler.numbers())
        return TaskState(stores, operators, own)

    def restore(self, state: TaskState) -> None:
        for name, rows in state.stores.items():
            self.stores[name].restore(rows)
        for name, numbers in state.operators.items():
            self.nodes[name].restore_numbers(numbers)
        self.context.stream_time, partition_times, schedules = state.task
        self._partition_times = dict(partition_times)
        if schedules is not None:  # else another version made them, and these begin anew
            self._scheduler.restore_numbers(schedules)


def _no_results() -> Results:
    return Results([], [], [], [])


def failed_operator(traceback: TracebackType | None) -> str:
    """The name of the innermost operator that was at work when an exception was raised."""
    name = "unknown"
    while traceback is not None:
        frame: FrameType = traceback.tb_frame
        operator = frame.f_locals.get("self")
        if isinstance(operator, Node):
            name = operator.name
        traceback = traceback.tb_next
    return name
