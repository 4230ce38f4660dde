"""The operators of a running task: what all of them have, sources' successors and sinks included.

Invariant: an operator hears one record at a time through ``process`` and hands on results through
``forward``, depth first, to its children in the order of the topology. A table's records carry a ``Change``
as value.
"""

from collections.abc import Callable, Sequence
from typing import Any

from moldau.streams.engine.records import NO_TIME, Headers, Output
from moldau.streams.engine.stores.store import NO_KEY_OR_VALUE, Counters, Store

Forward = Callable[[Any, Any, int, Headers], None]


class TaskContext:
    """What the operators of a task share: the record at hand, times, stores, where results go."""

    __slots__ = (
        "counters",
        "offset",
        "outputs",
        "partition",
        "scheduler",
        "shared",
        "stores",
        "stream_time",
        "topic",
        "wall_clock_ms",
    )

    def __init__(self, stores: dict[str, Store], counters: Counters) -> None:
        self.stores = stores
        self.counters = counters
        self.topic: str | None = None
        self.partition = -1
        self.offset = -1
        #: The largest timestamp that the task has taken in.
        self.stream_time = NO_TIME
        self.wall_clock_ms = 0
        self.outputs: list[Output] = []
        #: What several operators have together, by name.
        self.shared: dict[str, Any] = {}
        #: Set by the task: how operators ask for punctuation.
        self.scheduler: Any = None

    def place(self) -> tuple[str | None, int, int]:
        return self.topic, self.partition, self.offset

    def go_to(self, place: tuple[str | None, int, int]) -> None:
        self.topic, self.partition, self.offset = place


def _nowhere(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
    """Where the results of an operator without children go."""


class Node:
    """One operator. ``start`` is called once, when the task begins."""

    __slots__ = ("children", "context", "forward", "name")

    def __init__(self) -> None:
        self.name = ""
        self.children: list[Node] = []
        self.forward: Forward = _nowhere
        self.context: TaskContext

    def link(self, children: Sequence["Node"], guard: Callable[[Forward], Forward] | None = None) -> None:
        """Connects the operator with those that follow; ``guard`` wraps every call of them."""
        self.children = list(children)
        targets: list[Forward] = [child.process for child in children]
        self.forward = forwarding([guard(target) for target in targets] if guard else targets)

    def start(self, context: TaskContext) -> None:
        self.context = context

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        raise NotImplementedError

    def dropped(self, reason: str = NO_KEY_OR_VALUE) -> None:
        self.context.counters.drop(reason)

    # Numbers that are no rows of a store, such as the operator's stream time.

    def numbers(self) -> tuple[Any, ...]:
        return ()

    def restore_numbers(self, numbers: tuple[Any, ...]) -> None:
        """Takes over what ``numbers`` gave."""


def forwarding(targets: Sequence[Forward]) -> Forward:
    if not targets:
        return _nowhere
    if len(targets) == 1:
        return targets[0]

    def to_all(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for target in targets:
            target(key, value, timestamp, headers)

    return to_all


class PassThrough(Node):
    """Hands records on as they are: sources, merges."""

    __slots__ = ("process",)

    def link(self, children: Sequence[Node], guard: Callable[[Forward], Forward] | None = None) -> None:
        super().link(children, guard)
        self.process = self.forward  # type: ignore[assignment, method-assign]


class Sink(Node):
    """Sends what it gets to a topic, or to the topic that a function chooses."""

    __slots__ = ("choose_topic", "topic")

    def __init__(self, topic: str | None, choose_topic: Callable[[Any, Any], str] | None = None) -> None:
        super().__init__()
        self.topic = topic
        self.choose_topic = choose_topic

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        topic = self.topic if self.choose_topic is None else self.choose_topic(key, value)
        assert topic is not None
        self.context.outputs.append(Output(topic, key, value, timestamp, headers))
