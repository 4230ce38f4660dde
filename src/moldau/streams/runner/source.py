"""The source of the query: Spark asks it what a batch takes, and its tasks carry the batch out.

A batch is the offsets of all topics up to which it goes, and the wall clock where the program uses it; Spark
writes both into its checkpoint before anything runs, so a batch that is done again is the same. The rows that
come out are one for each worker: which transaction it has left open, and what it counted.

Invariant: only ``latestOffset`` decides what a batch takes.
"""

import base64
import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from moldau.base.clock import SystemClock
from moldau.base.names import TopicPartition
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.spark.background_loop import connect
from moldau.spark.query.user_errors import shorten_user_errors
from moldau.spark.read.listing import list_offsets
from moldau.spark.read.offsets import EARLIEST, LATEST
from moldau.spark.read.planning import admit
from moldau.spark.session.worker import prepare_worker
from moldau.spark.write.exactly_once import transactional_id
from moldau.streams.runner.layout import Group
from moldau.streams.runner.orders import Application, Order, TaskOrder, place_of

Offsets = dict[TopicPartition, int]

FORMAT = "moldau_streams"
#: The name of the option that holds the application.
APPLICATION = "application"
#: No wall clock is read more often than this, whatever a program asks for.
_LEAST_TICK_MS = 100


def packed(application: Application) -> str:
    return base64.b64encode(pickle.dumps(application)).decode()


class StreamsSource(DataSource):
    """Made known to a session by ``register``; only ``application.py`` reads from it."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "worker INT NOT NULL, query STRING NOT NULL, done BINARY NOT NULL"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        prepare_worker()
        return StreamsReader(pickle.loads(base64.b64decode(self.options[APPLICATION])))


class WorkerPartition(InputPartition):
    """What one worker does in a batch."""

    def __init__(self, number: int, tasks: tuple[TaskOrder, ...]) -> None:
        super().__init__(None)
        self.number = number
        self.tasks = tasks


class StreamsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, application: Application) -> None:
        self._application = application
        #: Where ``availableNow`` ends for topics that others write; None while the stream goes on.
        self._target: Offsets | None = None
        self._ticked = False

    # On the driver.

    @shorten_user_errors
    def initialOffset(self) -> dict[str, Any]:
        """Where the group of the application stands, else the beginning: so a reset is followed."""
        application = self._application
        places = application.layout.all_places()
        loop = connect(application.cluster)
        firsts = loop.run(list_offsets(loop.cluster, dict.fromkeys(places, EARLIEST), committed=True))
        ends = loop.run(list_offsets(loop.cluster, dict.fromkeys(places, LATEST), committed=True))
        found = loop.run(Groups(loop.cluster).committed(application.application_id))
        # What the program sends to itself, and tables that every task has whole, are read from the start.
        whole = {topic for group in application.layout.groups for topic in group.global_topics}
        own = {topic.name for topic in application.layout.internal_topics}
        begins = {}
        for place in places:
            committed = found.get(place)
            from_end = application.start_at == "latest" and place.topic not in whole | own
            begins[place] = ends[place] if from_end else firsts[place]
            if isinstance(committed, CommittedOffset) and place.topic not in whole:
                is_there = firsts[place] <= committed.offset <= ends[place]
                begins[place] = committed.offset if is_there else begins[place]
        return _to_json(begins, (), 0)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._latest()

    @shorten_user_errors
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        starts, _, clock = _from_json(start)
        latest = self._latest()
        if self._target is not None:
            own = {topic.name for topic in self._application.layout.internal_topics}
            latest = {tp: end if tp.topic in own else self._target[tp] for tp, end in latest.items()}
        latest = {tp: max(end, starts.get(tp, 0)) for tp, end in latest.items()}
        ends = admit(starts, latest, self._application.max_records)
        more = [tp for tp, end in ends.items() if end < latest[tp]]
        tick = self._tick(clock, moved=ends != starts)
        if ends == starts and tick == clock:
            return start  # Spark takes a different text for new data
        return _to_json(ends, more, tick)

    def _tick(self, clock: int, *, moved: bool) -> int:
        """The wall clock of the next batch; the same as before where nothing is due."""
        every = self._application.layout.clock_ms
        if every is None:
            return 0
        now = SystemClock().now_ms()
        if self._target is not None and self._ticked and not moved:
            return clock
        self._ticked = True
        return max(now, clock) if moved or now - clock >= max(every, _LEAST_TICK_MS) else clock

    def _latest(self) -> Offsets:
        loop = connect(self._application.cluster)
        wanted = dict.fromkeys(self._application.layout.all_places(), LATEST)
        return loop.run(list_offsets(loop.cluster, wanted, committed=True))

    @shorten_user_errors
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One for each worker that has something to do."""
        starts, _, clock = _from_json(start)
        ends, more, tick = _from_json(end)
        by_worker: dict[int, list[TaskOrder]] = {}
        layout = self._application.layout
        for group in layout.groups:
            for partition in range(group.tasks):
                order = self._order(group, partition, (starts, clock), (ends, tick), more)
                if order is not None:
                    number = layout.task_number(group, partition) % self._application.workers
                    by_worker.setdefault(number, []).append(order)
        return [WorkerPartition(number, tuple(orders)) for number, orders in sorted(by_worker.items())]

    def _order(
        self,
        group: Group,
        partition: int,
        start: tuple[Offsets, int],
        end: tuple[Offsets, int],
        more: Sequence[TopicPartition],
    ) -> TaskOrder | None:
        """What a task does in a batch; None where it has nothing to do."""
        layout = self._application.layout
        places = [*layout.places(group, partition), *layout.global_places(group)]
        before = place_of({place: start[0].get(place, 0) for place in places}, start[1])
        after = place_of({place: end[0].get(place, 0) for place in places}, end[1])
        if before == after:
            return None
        cut = tuple(place for place in more if place in places)
        return TaskOrder(group.number, partition, before, after, cut)

    def commit(self, end: dict[str, Any]) -> None:
        """The group is committed to where the batch is decided."""

    def stop(self) -> None:
        """Nothing stays open."""

    # In a task.

    @shorten_user_errors
    def read(self, partition: InputPartition) -> Iterator[tuple[int, str, bytes]]:
        from moldau.streams.runner.hosts import run_order

        assert isinstance(partition, WorkerPartition)
        prepare_worker()
        context = TaskContext.get()
        assert context is not None
        slot = transactional_id(self._application.query, partition.number, context.attemptNumber())
        done = run_order(Order(self._application, slot, partition.tasks), partition.number)
        query = context.getLocalProperty("sql.streaming.queryId") or ""
        yield partition.number, query, pickle.dumps(done)


def _to_json(
    offsets: Mapping[TopicPartition, int], more: Sequence[TopicPartition], clock: int
) -> dict[str, Any]:
    ends: dict[str, dict[str, int]] = {}
    for tp, offset in sorted(offsets.items()):
        ends.setdefault(tp.topic, {})[str(tp.partition)] = offset
    said: dict[str, Any] = {"ends": ends}
    if more:
        said["more"] = [[tp.topic, tp.partition] for tp in sorted(more)]
    if clock:
        said["clock"] = clock
    return said


def _from_json(given: dict[str, Any] | str) -> tuple[Offsets, list[TopicPartition], int]:
    said = json.loads(given) if isinstance(given, str) else given
    ends = {
        TopicPartition(topic, int(partition)): offset
        for topic, each in said["ends"].items()
        for partition, offset in each.items()
    }
    return ends, [TopicPartition(*each) for each in said.get("more", ())], said.get("clock", 0)
