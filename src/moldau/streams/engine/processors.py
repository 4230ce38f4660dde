"""Processors of the program itself: code for each record, stores, punctuation by stream time and by wall
clock.

Invariant: what a processor does depends on what it is given through its context. Punctuation runs after the
record that makes it due, at most once for each schedule, however far the time jumped.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from moldau.streams.engine.java import PriorityQueue
from moldau.streams.engine.nodes import Node, TaskContext
from moldau.streams.engine.records import Headers
from moldau.streams.errors import StreamsError

TimeKind = Literal["stream_time", "wall_clock_time"]
Punctuator = Callable[[int], None]
InKey = TypeVar("InKey")
InValue = TypeVar("InValue")


class Record(NamedTuple):
    """What a processor gets and sends; ``record.with_(value=…)`` is another one like it."""

    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()

    def with_(self, **changes: Any) -> "Record":
        return self._replace(**changes)


class RecordMetadata(NamedTuple):
    """Where the record at hand comes from; all unknown during punctuation."""

    topic: str | None
    partition: int
    offset: int


class ProcessorContext:
    """What a processor may see and do."""

    __slots__ = ("_node", "_task")

    def __init__(self, node: "ProcessorNode", task: TaskContext) -> None:
        self._node = node
        self._task = task

    def forward(self, record: Record, child_name: str | None = None) -> None:
        """Sends a record to all that follow, or to one of them by name."""
        node = self._node
        if not node.may_change_key and record.key != node.current_key and node.is_processing:
            raise StreamsError(
                "process_values() must keep the key of its records; use process() to change it"
            )
        if child_name is None:
            node.forward(record.key, record.value, record.timestamp, record.headers)
            return
        for child in node.children:
            if child.name == child_name:
                child.process(record.key, record.value, record.timestamp, record.headers)
                return
        raise StreamsError(f"Unknown downstream node: {child_name} of {node.name}")

    def schedule(
        self, interval_ms: int, kind: TimeKind, punctuator: Punctuator, *, start_ms: int | None = None
    ) -> "Schedule":
        """Calls ``punctuator(time)`` every ``interval_ms``; ``cancel()`` of what is returned ends it."""
        if interval_ms < 1:
            raise ValueError("The minimum supported scheduling interval is 1 millisecond.")
        scheduler: Scheduler = self._task.scheduler
        return scheduler.add(self._node, interval_ms, kind, punctuator, start_ms)

    def store(self, name: str) -> Any:
        if name not in self._node.store_names:
            raise StreamsError(
                f"Processor {self._node.name} has no access to StateStore {name}:"
                " name it in stores=[…] of process()"
            )
        return self._task.stores[name]

    def current_stream_time_ms(self) -> int:
        return self._task.stream_time

    def current_system_time_ms(self) -> int:
        return self._task.wall_clock_ms

    def record_metadata(self) -> RecordMetadata:
        return RecordMetadata(self._task.topic, self._task.partition, self._task.offset)


class Processor(Generic[InKey, InValue]):
    """The base of a processor: override what you need."""

    context: ProcessorContext

    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Called when the task ends."""


class ProcessorNode(Node):
    __slots__ = ("current_key", "is_processing", "may_change_key", "processor", "store_names", "supplier")

    def __init__(
        self, supplier: Callable[[], Any], store_names: Iterable[str], *, may_change_key: bool
    ) -> None:
        super().__init__()
        self.supplier = supplier
        self.store_names = frozenset(store_names)
        self.may_change_key = may_change_key
        self.current_key: Any = None
        self.is_processing = False
        self.processor: Any = None

    def start(self, context: TaskContext) -> None:
        super().start(context)
        self.processor = self.supplier()
        try:
            self.processor.init(ProcessorContext(self, context))
        except Exception as error:
            raise StreamsError(f"failed to initialize processor {self.name}") from error

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        self.current_key, self.is_processing = key, True
        try:
            self.processor.process(Record(key, value, timestamp, headers))
        finally:
            self.is_processing = False


class Schedule:
    """One schedule of a processor; ``number`` is its place among all of the task, in the order they were
    made.
    """

    __slots__ = ("interval_ms", "is_cancelled", "kind", "node", "number", "punctuator", "time")

    def __init__(
        self, node: Node, number: int, kind: TimeKind, time: int, interval_ms: int, punctuator: Punctuator
    ) -> None:
        self.node = node
        self.number = number
        self.kind = kind
        self.time = time
        self.interval_ms = interval_ms
        self.punctuator = punctuator
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def move_beyond(self, time: int) -> None:
        """The next time on the grid; those that a jump passed over are left out."""
        following = self.time + self.interval_ms
        if time >= following:
            following = self.time + ((time - self.time) // self.interval_ms + 1) * self.interval_ms
        self.time = following


class Scheduler:
    """The schedules of a task, in the order in which they are due."""

    __slots__ = ("_context", "_queues", "schedules")

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self.schedules: list[Schedule] = []
        self._queues: dict[TimeKind, PriorityQueue[Schedule]] = {
            "stream_time": PriorityQueue(),
            "wall_clock_time": PriorityQueue(),
        }

    def add(
        self, node: Node, interval_ms: int, kind: TimeKind, punctuator: Punctuator, start_ms: int | None
    ) -> Schedule:
        if start_ms is None:
            start_ms = 0 if kind == "stream_time" else self._context.wall_clock_ms + interval_ms
        elif kind == "wall_clock_time" and start_ms < (now := self._context.wall_clock_ms):
            start_ms += ((now - start_ms) // interval_ms + 1) * interval_ms
        schedule = Schedule(node, len(self.schedules), kind, start_ms, interval_ms, punctuator)
        self.schedules.append(schedule)
        self._queues[kind].add(start_ms, schedule)
        return schedule

    def run_due(self, kind: TimeKind, time: int) -> bool:
        """Runs what is due at a time; False where nothing is."""
        queue = self._queues[kind]
        top = queue.peek()
        if top is None or top[0] > time:
            return False
        context = self._context
        place = context.place()
        context.go_to((None, -1, -1))
        while (top := queue.peek()) is not None and top[0] <= time:
            _, schedule = queue.poll()
            if schedule.is_cancelled:
                continue
            schedule.punctuator(time)
            if not schedule.is_cancelled:
                schedule.move_beyond(time)
                queue.add(schedule.time, schedule)
        context.go_to(place)
        return True

    # Processors make their schedules anew when a task starts; what is saved is when each is due.

    def numbers(self) -> tuple[Any, ...]:
        cancelled = tuple(each.is_cancelled for each in self.schedules)
        queued = {
            kind: tuple((time, each.number) for time, each in queue) for kind, queue in self._queues.items()
        }
        return cancelled, queued

    def restore_numbers(self, numbers: tuple[Any, ...]) -> None:
        cancelled, queued = numbers
        if len(cancelled) != len(self.schedules):
            raise StreamsError(
                f"the saved state has {len(cancelled)} schedules, the program makes"
                f" {len(self.schedules)} in init():"
                " schedules that are made later cannot be taken over"
            )
        for schedule, is_cancelled in zip(self.schedules, cancelled, strict=True):
            schedule.is_cancelled = is_cancelled
        for kind, entries in queued.items():
            for time, number in entries:
                self.schedules[number].time = time
            self._queues[kind].restore((time, self.schedules[number]) for time, number in entries)
