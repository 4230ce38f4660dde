"""Carries out orders: the tasks of one worker process, with their state in memory.

Invariant: a task whose state does not stand where the order begins is made anew from its topic. After any
failure the tasks of the order are forgotten and the transaction is aborted, so that the order can be given
again, here or elsewhere.
"""

from collections.abc import Collection, Iterator

import pyarrow as pa

from moldau.base.clock import SystemClock
from moldau.base.names import TopicPartition
from moldau.client.producer import transactions
from moldau.client.producer.transactions import OpenTransaction
from moldau.spark.background_loop import connect
from moldau.spark.options import ReadOptions, WriteOptions
from moldau.spark.read.columns import Columns, number_array
from moldau.spark.read.listing import list_offset
from moldau.spark.read.offsets import EARLIEST, LATEST
from moldau.spark.read.planning import OffsetRange
from moldau.spark.read.ranges import pieces_of_range
from moldau.spark.write.exactly_once import Part, end_all
from moldau.spark.write.task_writer import TaskWriter
from moldau.streams.errors import StreamsError
from moldau.streams.runner.changelogs import Changelogs
from moldau.streams.runner.orders import Application, Counts, Done, Order, TaskOrder, offsets_of
from moldau.streams.runner.saved_state import TAKEN_OVER, Decoder, Place, Saved, encoded
from moldau.streams.runner.stream_task import StreamTask, full_name_of

_FETCH_BYTES = 4 * 1024 * 1024


class Worker:
    """Lives as long as its process."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[int, int], tuple[Place, StreamTask]] = {}
        self._digest = ""
        self._clock = SystemClock()

    def run(self, order: Order) -> Done:
        if self._digest != order.application.program.digest:
            self._tasks, self._digest = {}, order.application.program.digest
        begun = self._clock.monotonic()
        batch = _Batch(order)
        try:
            for task in order.tasks:
                self._run_task(batch, task)
            done = batch.finish()
        except BaseException:
            for task in order.tasks:
                self._tasks.pop((task.group, task.partition), None)
            batch.abort()
            raise
        done.counts.seconds = self._clock.monotonic() - begun
        return done

    def _run_task(self, batch: "_Batch", order: TaskOrder) -> None:
        application = batch.order.application
        name = (order.group, order.partition)
        found = self._tasks.pop(name, None)
        if found is not None and found[0] == order.before:
            task = found[1]
        else:
            restored = restored_task(application, order)
            batch.done.restored += 1
            if restored is None:
                return  # the state has this batch already: its decision was made before
            task = restored
        batch.run(task, order)
        self._tasks[name] = (order.after, task)


class _Batch:
    """One order: its transaction, opened with the first write, and what is counted."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.done = Done(None, Counts())
        self._loop = connect(order.application.cluster)
        self._transaction: OpenTransaction | None = None
        self._open: TaskWriter | None = None
        self._read = Reading(order.application)

    @property
    def writer(self) -> TaskWriter:
        if self._open is None:
            application = self.order.application
            self._transaction = self._loop.run(
                transactions.begin(self._loop.cluster, self.order.transactional_id)
            )
            options = WriteOptions(application.cluster, compression=application.compression)
            self._open = TaskWriter(self._loop, options, self._transaction)
        return self._open

    def run(self, task: StreamTask, order: TaskOrder) -> None:
        def write(topic: str, batch: pa.RecordBatch, partition: int) -> None:
            self.writer.write_to(topic, batch, partition)

        counts = task.run(order, self._read, write, lambda topic: self.writer.partition_count(topic))
        group = self.order.group_of(order)
        saved = task.take_changes(order)
        counts.rows_changed = sum(len(each.rows) for each in saved.state.stores.values())
        if group.state_topic is not None:
            self.writer.write_to(group.state_topic, _state_batch(saved, order.partition), order.partition)
        if self.order.application.changelogs:
            for topic, rows in Changelogs(task.topology, self.order.application.application_id).batches(
                saved
            ):
                self.writer.write_to(topic, rows, order.partition)
        self._add(counts, task)

    def _add(self, counts: Counts, task: StreamTask) -> None:
        total = self.done.counts
        for name in ("records_in", "records_out", "rows_changed", "dropped", "dead_letters"):
            setattr(total, name, getattr(total, name) + getattr(counts, name))
        for reason, count in counts.reasons.items():
            total.reasons[reason] = total.reasons.get(reason, 0) + count
        total.newest_ms = max(total.newest_ms, counts.newest_ms)
        self.done.positions |= task.positions

    def finish(self) -> Done:
        if self._open is not None:
            assert self._transaction is not None
            try:
                rows = self._open.finish()
                self._open.done()
            finally:
                self._open.close()
            self.done.part = Part(self._transaction.transactional_id, *self._transaction.identity, rows)
        return self.done

    def abort(self) -> None:
        if self._open is not None:
            self._open.close()
        if self._transaction is not None:
            part = Part(self._transaction.transactional_id, *self._transaction.identity, 0)
            self._loop.run(end_all(self._loop.cluster, [part], commit=False))


class Reading:
    """Ranges of partitions, as the tasks of an application read them."""

    def __init__(self, application: Application, *, headers: bool = True) -> None:
        self._loop = connect(application.cluster)
        self._options = ReadOptions(
            application.cluster,
            topics=("any",),
            include_headers=headers,
            fetch_max_bytes=_FETCH_BYTES,
            partition_fetch_bytes=_FETCH_BYTES,
        )

    def __call__(self, place: TopicPartition, start: int, end: int) -> Iterator[Columns]:
        wanted = OffsetRange(place.topic, place.partition, start, end)
        return pieces_of_range(self._loop, wanted, self._options)


def _state_batch(saved: Saved, partition: int) -> pa.RecordBatch:
    keys, values = zip(*encoded(saved), strict=True)
    count = len(keys)
    import numpy as np

    return pa.RecordBatch.from_arrays(
        [
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
            number_array(np.full(count, partition, np.int32), pa.int32()),
        ],
        names=["key", "value", "partition"],
    )


def read_state(
    application: Application, group: int, partition: int, decoder: Decoder | None = None
) -> Saved | None:
    """What the topic of a task's state has now; decided batches only."""
    topic = application.layout.groups[group].state_topic
    if topic is None:
        return None
    loop = connect(application.cluster)
    place = TopicPartition(topic, partition)
    start = loop.run(list_offset(loop.cluster, place, EARLIEST))
    end = loop.run(list_offset(loop.cluster, place, LATEST))
    decoder = decoder or Decoder(application.program.module)
    for piece in Reading(application, headers=False)(place, start, end):
        decoder.take(piece.key.to_pylist(), piece.value.to_pylist())
    return decoder.saved()


def restored_task(application: Application, order: TaskOrder) -> StreamTask | None:
    """A task whose state stands where the order begins; None where it stands behind it already."""
    group = application.layout.groups[order.group]
    clock = order.before[1] or order.after[1]
    task = StreamTask(application, group, order.partition, clock)
    task.positions = offsets_of(order.before)
    if group.state_topic is None:
        return task
    saved = read_state(application, order.group, order.partition)
    if saved is not None:
        if saved.place == order.after and saved.place != order.before:
            return None
        if not _stands_at(saved.place, order.before, group.global_topics):
            raise StreamsError(
                f"the state of task {order.group}_{order.partition} of {application.application_id} stands at"
                f" {_shown(saved.place)}, and its checkpoint at {_shown(order.before)}: begin anew with"
                f" 'moldau streams reset {application.application_id}'"
            )
        task.restore(saved)
    read = Reading(application)
    for place in application.layout.global_places(group):
        task.positions[place] = 0
        start = connect(application.cluster)
        first = start.run(list_offset(start.cluster, place, EARLIEST))
        task.positions[place] = first
        task.read_global(place, offsets_of(order.before).get(place, 0), read)
    return task


def _stands_at(place: Place, before: Place, global_topics: Collection[str]) -> bool:
    """Whether a state stands where a batch begins. One that was taken over knows no clock yet, and nothing of
    global tables, which are read whole.
    """
    if place[1] != TAKEN_OVER:
        return place == before
    return place[0] == tuple(each for each in before[0] if each[0] not in global_topics)


def _shown(place: Place) -> str:
    return ", ".join(f"{topic}-{partition}@{offset}" for topic, partition, offset in place[0])


__all__ = ["Reading", "Worker", "full_name_of", "read_state", "restored_task"]
