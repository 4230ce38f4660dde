"""What a batch asks of a worker, and what it answers.

Invariant: plain values that travel; an order says everything that decides its results.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from moldau.base.names import TopicPartition
from moldau.spark.options import ClusterOptions
from moldau.spark.write.exactly_once import Part
from moldau.streams.engine.task import OnError
from moldau.streams.runner.layout import Group, Layout
from moldau.streams.runner.programs import Program
from moldau.streams.runner.saved_state import Place

#: Whether every update of a table is a result, or only the last one for each key of a batch.
Updates = Literal["all", "last"]


@dataclass(frozen=True, slots=True)
class Application:
    """Everything about an application that stays from batch to batch."""

    application_id: str
    program: Program
    layout: Layout
    cluster: ClusterOptions
    processing_errors: OnError = "fail"
    decoding_errors: OnError = "fail"
    dead_letter_topic: str | None = None
    #: Whether tables go to changelog topics that other tools can read.
    changelogs: bool = False
    #: How many processes work at a time.
    workers: int = 2
    max_records: int = 1_000_000
    start_at: str = "earliest"
    compression: str = "none"
    updates: Updates = "all"

    @property
    def query(self) -> str:
        """By which transactions and decisions of the application are known."""
        return f"streams-{self.application_id}"


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """The part of one task in a batch: from where its state stands to these ends."""

    group: int
    partition: int
    #: Where the state must stand, and where it stands afterwards.
    before: Place
    after: Place
    #: Partitions of which there is more than this batch may take.
    more: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """What one worker does in a batch, all in one transaction."""

    application: Application
    transactional_id: str
    tasks: tuple[TaskOrder, ...]

    def group_of(self, task: TaskOrder) -> Group:
        return self.application.layout.groups[task.group]


@dataclass(slots=True)
class Counts:
    """What a task did in a batch."""

    records_in: int = 0
    records_out: int = 0
    rows_changed: int = 0
    dropped: int = 0
    #: How many of them for which reason.
    reasons: dict[str, int] = field(default_factory=dict)
    dead_letters: int = 0
    #: The largest timestamp that was read, to tell how far behind results are.
    newest_ms: int = -1
    seconds: float = 0.0


@dataclass(slots=True)
class Done:
    """The answer: an open transaction, or None where nothing was written."""

    part: Part | None
    counts: Counts
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    #: Tasks whose state had to be read from their topic first.
    restored: int = 0
    totals: Mapping[str, Any] = field(default_factory=dict)


def place_of(offsets: Mapping[TopicPartition, int], clock_ms: int) -> Place:
    return tuple(sorted((tp.topic, tp.partition, offset) for tp, offset in offsets.items())), clock_ms


def offsets_of(place: Place) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, partition): offset for topic, partition, offset in place[0]}
