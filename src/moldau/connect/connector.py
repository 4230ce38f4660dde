"""What a connector is: a class that plans tasks, and tasks that read from or write to another system.

A connector is configured once and says how many tasks it wants and with which settings. A source task gives
records with the place where each came from, and is asked to go on after that place when it starts again. A
sink task gets records in batches. Tasks may block: the worker runs them in threads.

Invariant: a task touches nothing of the worker but the context that it was given.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from moldau.base.clock import SystemClock
from moldau.base.names import TopicPartition
from moldau.connect.config.definition import ConfigDef, Settings
from moldau.connect.errors import JavaError
from moldau.connect.records import SinkRecord, SourceRecord

Place = Mapping[str, object]


class OffsetReader(Protocol):
    """Where reading of a partition of the source ended, or None if it never began."""

    def __call__(self, partition: Place) -> Place | None: ...


def _nothing_kept(partition: Place) -> Place | None:
    return None


def _not_kept(partition: Place, place: Place) -> None:
    """Where nobody keeps places there is none to come back to."""


class TransactionBoundaries:
    """Where a task of ``transaction.boundary=connector`` says that transactions end.

    Records of an aborted transaction are seen by nobody, and their places are kept: they do not come again.
    A task that wants them again raises an error.
    """

    def __init__(self) -> None:
        self._after_batch: bool | None = None
        self._after: list[tuple[SourceRecord, bool]] = []

    def commit(self) -> None:
        """At the end of the batch that ``poll`` is about to give."""
        self._after_batch = True

    def abort(self) -> None:
        self._after_batch = False

    def commit_after(self, record: SourceRecord) -> None:
        self._after.append((record, True))

    def abort_after(self, record: SourceRecord) -> None:
        self._after.append((record, False))

    def take(self, records: Sequence[SourceRecord]) -> list[tuple[int, bool]]:
        """Ends that were asked for: behind how many of these records, and whether with a commit."""
        asked, self._after = self._after, []
        last, self._after_batch = self._after_batch, None
        found = [
            (number, commits)
            for number, record in enumerate(records, 1)
            for one, commits in asked
            if one is record
        ]
        return found if last is None else [*found, (len(records), last)]


@dataclass(frozen=True, slots=True)
class SourceTaskContext:
    connector: str
    task: int
    offset_of: OffsetReader
    now_ms: Callable[[], int]
    #: The place that would be found after a crash: what the other side may forget lies before it.
    kept_offset_of: OffsetReader = _nothing_kept
    #: Keeps a place at once and for good, before any record with it is given out.
    keep: Callable[[Place, Place], None] = _not_kept
    #: Of a connector that says itself where transactions end; None for others.
    transactions: TransactionBoundaries | None = None


def _fail(record: SinkRecord, error: JavaError) -> None:
    raise error


@dataclass(frozen=True, slots=True)
class SinkTaskContext:
    connector: str
    task: int
    now_ms: Callable[[], int] = SystemClock().now_ms
    #: Says that one record of a batch cannot be written: it becomes a dead letter, or the task fails.
    report: Callable[[SinkRecord, JavaError], None] = _fail


class SourceTask(ABC):
    #: Whether ``poll`` itself waits for something to come: the worker asks again at once then, so that what
    #: comes is not late by a pause.
    waits: bool = False

    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:  # noqa: B027
        """Takes settings and context over."""

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord]:
        """The next records, in order; none if there are none now. The worker waits a little then, unless the
        task ``waits``."""

    def written(self) -> None:  # noqa: B027
        """All that was polled so far is in its topics and acknowledged, or was left out on purpose; of a task
        that writes in transactions, they are committed."""

    def stop(self) -> None:  # noqa: B027
        """Closes what is open; may be called after an error."""


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """A part of a snapshot, which one process reads by itself."""

    #: What to read; it can be pickled.
    work: object
    #: What is kept when all of its records are written.
    partition: Place
    place: Place


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Something to read in parts, at the same time and in any order."""

    #: What is read, for people.
    name: str
    #: Those that were not read yet.
    parts: tuple[SnapshotPart, ...]
    #: Kept before any part is read.
    planned: tuple[tuple[Place, Place], ...] = ()
    #: Kept when all parts are written.
    reached: tuple[tuple[Place, Place], ...] = ()
    #: Partitions whose places are forgotten after that.
    cleared: tuple[Place, ...] = ()


class SnapshotTask(ABC):
    """Plans snapshots in the worker, and reads their parts wherever they are read."""

    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:  # noqa: B027
        """Takes settings and context over."""

    @abstractmethod
    def next(self) -> Snapshot | None:
        """What is to be read now, by the places that are kept; asked again amid a snapshot, it answers with
        the parts that are left."""

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether the plain task goes on when there is nothing to be read; else ``next`` is asked again."""

    def done(self, snapshot: Snapshot) -> None:  # noqa: B027
        """All of it is written and kept."""

    @abstractmethod
    def read(self, work: object) -> Iterator[SourceRecord]:
        """The records of one part, made as the plain task makes them."""

    def stop(self) -> None:  # noqa: B027
        """Closes what is open; may be called after an error."""


class SinkTask(ABC):
    def start(self, settings: Mapping[str, str], context: SinkTaskContext) -> None:  # noqa: B027
        """Takes settings and context over."""

    @abstractmethod
    def put(self, records: Sequence[SinkRecord]) -> None:
        """Writes a batch. Offsets are committed after ``flush``."""

    def flush(self) -> None:  # noqa: B027
        """Makes sure that what was put is kept."""

    def idle(self) -> None:  # noqa: B027
        """Called now and then while there are no records: what waits for more may be written now."""

    def finish(self) -> None:  # noqa: B027
        """Writes what is held back: this task gets no more. Of a sink with ``holds_back`` on Spark."""

    def kept(self, ends: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """The offsets to commit. ``ends`` are those behind all that was put and flushed; a task that still
        holds records back answers with lower ones."""
        return ends

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:  # noqa: B027
        """Another task reads these from now on, from the last commit."""

    def stop(self) -> None:  # noqa: B027
        """Closes what is open; may be called after an error."""


class Connector(ABC):
    """What sources and sinks share. ``class_name`` is the name that configurations have for it."""

    class_name: ClassVar[str]
    task_class_name: ClassVar[str]
    version: ClassVar[str] = "4.3.0"
    kind: ClassVar[str]
    #: Settings that are paths of the worker's machine; a worker may allow some paths only.
    path_settings: ClassVar[tuple[str, ...]] = ()
    #: Other names that configurations may have for it.
    synonyms: ClassVar[tuple[str, ...]] = ()
    config: ClassVar[ConfigDef] = ConfigDef()

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = dict(given)
        self.settings: Settings = self.config.parse(given)

    def task_settings(self, max_tasks: int) -> list[dict[str, str]]:
        """The settings of each task; by default one task with all of the connector's."""
        return [dict(self.given)]

    @classmethod
    def paths(cls, given: Mapping[str, str]) -> list[str]:
        """Paths of the worker's machine that a configuration names."""
        return [given[name] for name in cls.path_settings if given.get(name)]

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        """Hosts that a configuration makes the worker talk to."""
        return []

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        """Errors by setting that the definition cannot tell."""
        return {}


class SourceConnector(Connector):
    kind: ClassVar[str] = "source"
    #: Whether what it reads first can be read in parts (``make_snapshots``).
    takes_snapshots: ClassVar[bool] = False

    @abstractmethod
    def make_task(self) -> SourceTask: ...

    def make_snapshots(self) -> SnapshotTask:
        """Of a connector that ``takes_snapshots``."""
        raise NotImplementedError

    def check_offsets(self, offsets: Sequence[tuple[Place, Place | None]]) -> None:
        """Raises ConnectException for places that are none of this source."""

    @classmethod
    def exactly_once(cls, given: Mapping[str, str]) -> bool:
        """Whether a restart goes on exactly where the last transaction ended."""
        return False

    @classmethod
    def defines_transactions(cls, given: Mapping[str, str]) -> bool:
        """Whether its tasks say where transactions end (``transaction.boundary=connector``)."""
        return False


class SinkConnector(Connector):
    kind: ClassVar[str] = "sink"
    #: Whether its tasks hold records back beyond a flush (``SinkTask.kept``).
    holds_back: ClassVar[bool] = False
    #: The setting that says how long, of one whose tasks can write all of it at any time
    #: (``SinkTask.finish``): on Spark that is the time between two batches.
    held_back_for: ClassVar[str | None] = None

    def task_settings(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.given) for _ in range(max_tasks)]

    @abstractmethod
    def make_task(self) -> SinkTask: ...

    def forget(self, partitions: Sequence[TopicPartition] | None) -> None:
        """Somebody changed what is committed, deletes the connector (``None``), or made a topic anew: what
        this sink keeps of offsets on the other side no longer holds."""

    def has_offsets_in_rows(self) -> bool:
        """Whether what it wrote has offsets as versions: records of a topic made anew would seem old."""
        return False
