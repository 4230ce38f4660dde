"""One task at work: bytes of its topics in, bytes of results and of changed rows out.

Records of several topics are taken in the order of their times, each topic in its own; where a topic was cut
by the size of the batch, the others wait for it, so that the order does not depend on the cut. A topic alone
goes by column.

Invariant: what comes out depends on the state, the records and the clock of the batch alone.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from moldau.base.names import TopicPartition
from moldau.spark.read.columns import Columns as Fetched
from moldau.streams.engine.foreign_keys import ReceiveSubscription, ResolveResponse
from moldau.streams.engine.fused import Columns, Results
from moldau.streams.engine.queues import RecordQueues
from moldau.streams.engine.records import Headers, Input, Output
from moldau.streams.engine.stores.store import NEGATIVE_TIME, UNDECODABLE, StoreState
from moldau.streams.engine.tables import TableAggregate
from moldau.streams.engine.task import Task, TaskState
from moldau.streams.errors import DecodeError
from moldau.streams.runner.layout import Group, full_name
from moldau.streams.runner.orders import Application, Counts, TaskOrder, offsets_of
from moldau.streams.runner.record_codecs import InternalSerde, Undecodable, decoder, encoder
from moldau.streams.runner.saved_state import Saved
from moldau.streams.topology.table_sinks import table_sinks
from moldau.streams.topology.topology import SinkNode, SourceNode, Topology

#: Values that are the engine's own, whatever serde the program has.
_OWN_VALUES = (TableAggregate, ReceiveSubscription, ResolveResponse)
#: Results wait in memory until so many have come together.
_MOST_RESULTS = 50_000

HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Read(Protocol):
    def __call__(self, place: TopicPartition, start: int, end: int) -> Iterator[Fetched]:
        """The records of a range, in pieces."""


#: Topic, its rows as the sink takes them, and the partition for rows without a key.
Write = Callable[[str, pa.RecordBatch, int], None]


class _Source(NamedTuple):
    #: As the topology calls it.
    topic: str
    keys: Callable[[pa.Array], list[Any]]
    values: Callable[[pa.Array], list[Any]]


class _Sink(NamedTuple):
    topic: str
    keys: Callable[[Sequence[Any]], pa.Array]
    values: Callable[[Sequence[Any]], pa.Array]
    partitioner: Callable[[str, Any, Any, int], int] | None


class StreamTask:
    """A task with its serdes; it lives from batch to batch in one process."""

    def __init__(self, application: Application, group: Group, partition: int, wall_clock_ms: int) -> None:
        program = application.program.load()
        self._application = application
        self._group = group
        self._partition = partition
        self.topology = topology = program.topology(partition)
        self.task: Task = program.new_task(
            partition,
            nodes=group.nodes,
            task_id=f"{group.number}_{partition}",
            wall_clock_ms=wall_clock_ms,
            on_error=application.processing_errors,
            application_id=application.application_id,
        )
        self._internal = InternalSerde(application.program.module)
        nodes = tuple(self.task.nodes)
        self._sources = _sources(topology, nodes, application.application_id, self._internal)
        self._sinks = _sinks(topology, nodes, self._internal)
        self._names = {t: full_name(application.application_id, topology, t) for t in self._sinks}
        self._loops_back = set(topology.repartition_topics) if application.layout.in_memory else set()
        self._looped = RecordQueues()
        self._looped_offsets: dict[str, int] = defaultdict(int)
        self._global_topics = set(group.global_topics)
        #: Where the next record of each partition is read.
        self.positions: dict[TopicPartition, int] = {}
        self.dropped = 0
        self.records = 0
        self._results: dict[str, Results] = defaultdict(lambda: Results([], [], [], []))
        self._waiting = 0
        #: Rows of tables that wait for the end of the batch, where only the last one for a key is sent.
        self._last: dict[str, dict[Any, tuple[Any, int, Headers]]] = defaultdict(dict)
        self._only_last = table_sinks(topology) if application.updates == "last" else frozenset()

    # --- a batch ------------------------------------------------------------------------------------

    def run(self, order: TaskOrder, read: Read, write: Write, partitions_of: Callable[[str], int]) -> Counts:
        """Takes the records of an order; results go to ``write`` as they come."""
        self._write, self._partitions_of = write, partitions_of
        self.counts = counts = Counts()
        before, reasons = self.task.counters.dropped, dict(self.task.counters.reasons)
        ends = offsets_of(order.after)
        for place in self._application.layout.global_places(self._group):
            self.read_global(place, ends.get(place, 0), read)
        places = self._application.layout.places(self._group, self._partition)
        busy = [place for place in places if ends.get(place, 0) > self.positions.get(place, 0)]
        if len(busy) == 1 and (len(places) == 1 or not (set(order.more) - set(busy))):
            self._run_one(busy[0], ends[busy[0]], read)
        elif busy:
            self._run_several(places, ends, set(order.more), read)
        clock = order.after[1]
        if clock:
            self.task.advance_wall_clock(clock)
        self._collect()
        self._flush()
        self._send_last()
        counts.dropped += self.task.counters.dropped - before
        counts.reasons = {
            reason: count - reasons.get(reason, 0)
            for reason, count in self.task.counters.reasons.items()
            if count > reasons.get(reason, 0)
        }
        self.dropped += counts.dropped
        self.records += counts.records_in
        return counts

    def _run_one(self, place: TopicPartition, end: int, read: Read) -> None:
        by_column = not self._loops_back and place.topic in self._column_topics()
        for piece in read(place, self.positions[place], end):
            self._note(piece)
            if by_column and self._take_columns(place, piece):
                continue
            for record in self._inputs(place, piece):
                self._take(record, self.task.timestamp_of(record))
        self.positions[place] = end

    def _column_topics(self) -> set[str]:
        fused = self.task.fused_topics()
        return {name for name, source in self._sources.items() if source.topic in fused}

    def _take_columns(self, place: TopicPartition, piece: Fetched) -> bool:
        source = self._sources[place.topic]
        try:
            keys, values = source.keys(piece.key), source.values(piece.value)
        except Undecodable:
            return False  # record by record, so that the one which does not decode is dealt with in its turn
        headers = headers_of(piece)
        columns = Columns(keys, values, piece.timestamp.to_pylist(), headers, piece.offset.to_pylist())
        for topic, results in self.task.process_columns(source.topic, columns, place.partition).items():
            self._send(topic, results)
        return True

    def _run_several(
        self,
        places: list[TopicPartition],
        ends: dict[TopicPartition, int],
        more: set[TopicPartition],
        read: Read,
    ) -> None:
        queues = RecordQueues()
        streams = {place: self._records(place, ends[place], read) for place in places if place in ends}
        left = dict.fromkeys(streams, 0)

        def fill(place: TopicPartition) -> bool:
            """Brings the next records of a partition; False where the batch has no more of it."""
            for records in streams[place]:
                for record, time in records:
                    if time < 0:
                        self.task.counters.drop(NEGATIVE_TIME)
                        continue
                    queues.add(record, time)
                    left[place] += 1
                if left[place]:
                    return True
            self.positions[place] = ends[place]
            return False

        # A topic that was cut and is empty now has more to say: nobody may go ahead of it.
        empty = [place for place in streams if not fill(place)]
        blocked = any(place in more for place in empty)
        while queues and not blocked:
            record, time = queues.take()
            place = TopicPartition(full_name_of(record.topic, self._sources), record.partition)
            self.positions[place] = record.offset + 1
            left[place] -= 1
            self.counts.records_in += 1
            self._take(record, time)
            if not left[place] and not fill(place):
                blocked = place in more

    def _records(self, place: TopicPartition, end: int, read: Read) -> Iterator[list[tuple[Input, int]]]:
        start = self.positions.get(place, 0)
        if end > start:
            for piece in read(place, start, end):
                self._note(piece, counted=False)
                yield [(record, self.task.timestamp_of(record)) for record in self._inputs(place, piece)]

    def _note(self, piece: Fetched, *, counted: bool = True) -> None:
        if counted:
            self.counts.records_in += piece.rows
        newest = int(np.frombuffer(piece.timestamp.buffers()[1], np.int64).max()) if piece.rows else -1
        self.counts.newest_ms = max(self.counts.newest_ms, newest)

    def _inputs(self, place: TopicPartition, piece: Fetched) -> Iterator[Input]:
        """The records of a piece; those that do not decode stop the query, or are put aside."""
        source = self._sources[place.topic]
        try:
            keys, values = source.keys(piece.key), source.values(piece.value)
        except Undecodable:
            yield from self._inputs_by_hand(place, piece, source)
            return
        headers = headers_of(piece) or [()] * piece.rows
        rows = zip(keys, values, piece.timestamp.to_pylist(), headers, piece.offset.to_pylist(), strict=True)
        for key, value, timestamp, each, offset in rows:
            yield Input(source.topic, key, value, timestamp, each, place.partition, offset)

    def _inputs_by_hand(self, place: TopicPartition, piece: Fetched, source: _Source) -> Iterator[Input]:
        headers = headers_of(piece) or [()] * piece.rows
        for at in range(piece.rows):
            offset, timestamp = piece.offset[at].as_py(), piece.timestamp[at].as_py()
            try:
                key, value = (
                    source.keys(piece.key.slice(at, 1))[0],
                    source.values(piece.value.slice(at, 1))[0],
                )
            except Undecodable as error:
                self._refuse(place, offset, piece, at, error)
                continue
            yield Input(source.topic, key, value, timestamp, headers[at], place.partition, offset)

    def _refuse(
        self, place: TopicPartition, offset: int, piece: Fetched, at: int, error: Undecodable
    ) -> None:
        application = self._application
        if application.dead_letter_topic is not None:
            self._dead_letter(place, offset, piece, at, error)
        elif application.decoding_errors == "fail":
            raise DecodeError(
                f"the record at offset {offset} of {place} does not decode: {error}. Set decoding_errors to"
                " continue to pass over such records, or name a dead-letter topic to keep them"
            ) from error
        self.task.counters.drop(UNDECODABLE)

    def _dead_letter(
        self, place: TopicPartition, offset: int, piece: Fetched, at: int, error: Undecodable
    ) -> None:
        about = {
            "__streams.errors.topic": place.topic,
            "__streams.errors.partition": str(place.partition),
            "__streams.errors.offset": str(offset),
            "__streams.errors.exception": type(error.__cause__).__name__,
            "__streams.errors.message": str(error)[:1000],
        }
        headers = [{"key": name, "value": text.encode()} for name, text in about.items()]
        assert self._application.dead_letter_topic is not None
        batch = _record_batch(
            piece.key.slice(at, 1),
            piece.value.slice(at, 1),
            piece.timestamp.slice(at, 1).to_pylist(),
            pa.array([headers], HEADERS_TYPE),
        )
        self.counts.dead_letters += 1
        self._write(self._application.dead_letter_topic, batch, self._partition)

    # --- record by record ---------------------------------------------------------------------------

    def _take(self, record: Input, time: int) -> None:
        """One record, and what it sends to the program itself, before the next one."""
        if time < 0:
            self.task.counters.drop(NEGATIVE_TIME)
            return
        self.task.take(record, time)
        self._collect()

    def _collect(self) -> None:
        task = self.task
        while True:
            for output in task.take_outputs():
                if output.topic in self._loops_back:
                    self._loop_back(output)
                else:
                    self._results[output.topic].add(output)
                    self._waiting += 1
            if not self._looped:
                break
            task.take(*self._looped.take())
        if self._waiting >= _MOST_RESULTS:
            self._flush()

    def _loop_back(self, output: Output) -> None:
        offset = self._looped_offsets[output.topic]
        self._looped_offsets[output.topic] = offset + 1
        record = Input(*output, 0, offset)
        time = self.task.timestamp_of(record)
        if time < 0:
            self.task.counters.drop(NEGATIVE_TIME)
        else:
            self._looped.add(record, time)

    # --- results ------------------------------------------------------------------------------------

    def _flush(self) -> None:
        results, self._results = self._results, defaultdict(lambda: Results([], [], [], []))
        self._waiting = 0
        for topic, each in results.items():
            self._send(topic, each)

    def _send(self, topic: str, results: Results) -> None:
        if topic in self._only_last:
            headers = results.headers or [()] * len(results.keys)
            rows = zip(results.values, results.timestamps, headers, strict=True)
            self._last[topic].update(zip(results.keys, rows, strict=True))
        else:
            self._send_now(topic, results)

    def _send_last(self) -> None:
        last, self._last = self._last, defaultdict(dict)
        for topic, rows in last.items():
            values, timestamps, headers = map(list, zip(*rows.values(), strict=True))
            self._send_now(topic, Results(list(rows), values, timestamps, headers))

    def _send_now(self, topic: str, results: Results) -> None:
        sink = self._sinks.get(topic) or self._sinks[""]
        name = self._names.get(topic, topic)
        headers = _headers_array(results.headers) if any(results.headers) else None
        batch = _record_batch(
            sink.keys(results.keys), sink.values(results.values), results.timestamps, headers
        )
        if sink.partitioner is not None:
            count = self._partitions_of(name)
            chosen = [
                sink.partitioner(topic, key, value, count)
                for key, value in zip(results.keys, results.values, strict=True)
            ]
            batch = batch.append_column("partition", pa.array(chosen, pa.int32()))
        self.counts.records_out += batch.num_rows
        self._write(name, batch, self._partition)

    # --- global tables ------------------------------------------------------------------------------

    def read_global(self, place: TopicPartition, end: int, read: Read) -> None:
        """Takes what a global table's topic has got; it moves no time."""
        start = self.positions.get(place, 0)
        if end <= start:
            return
        for piece in read(place, start, end):
            for record in self._inputs(place, piece):
                time = self.task.timestamp_of(record)
                if time < 0:
                    self.task.counters.drop(NEGATIVE_TIME)
                else:
                    self.task.take_global(record, time)
        self.positions[place] = end

    # --- saving and taking over ---------------------------------------------------------------------

    def take_changes(self, order: TaskOrder) -> Saved:
        changes = self.task.take_changes()
        kept = {
            name: each for name, each in changes.stores.items() if not self.topology.stores[name].is_global
        }
        positions = {(tp.topic, tp.partition): offset for tp, offset in self.positions.items()}
        numbers = (dict(self._looped_offsets), changes.task)
        state = TaskState(kept, changes.operators, numbers)
        return Saved(order.after, positions, state, self.dropped, self.records)

    def restore(self, saved: Saved) -> None:
        looped, numbers = saved.state.task
        self._looped_offsets.update(looped)
        stores: dict[str, StoreState] = {
            name: rows for name, rows in saved.state.stores.items() if name in self.task.stores
        }
        operators = {name: each for name, each in saved.state.operators.items() if name in self.task.nodes}
        self.task.restore(TaskState(stores, operators, numbers))
        self.dropped, self.records = saved.dropped, saved.records
        globals_ = self._global_topics
        self.positions |= {
            TopicPartition(*place): offset
            for place, offset in saved.positions.items()
            if place[0] not in globals_
        }


def full_name_of(topic: str, sources: dict[str, _Source]) -> str:
    """A topic of the topology as it is called in the cluster."""
    if topic in sources:
        return topic
    return next(name for name, source in sources.items() if source.topic == topic)


def _sources(
    topology: Topology, nodes: Sequence[str], application_id: str, internal: InternalSerde
) -> dict[str, _Source]:
    found = {}
    for name in nodes:
        source = topology.nodes[name]
        if not isinstance(source, SourceNode):
            continue
        for topic in source.topics:
            key, value = _serdes(topology, source, topic, internal)
            found[full_name(application_id, topology, topic)] = _Source(
                topic, decoder(key, topic), decoder(value, topic)
            )
    return found


def _sinks(topology: Topology, nodes: Sequence[str], internal: InternalSerde) -> dict[str, _Sink]:
    """By topic; the empty name stands for topics that a function chooses."""
    found = {}
    for name in nodes:
        sink = topology.nodes[name]
        if isinstance(sink, SinkNode):
            topic = sink.topic or ""
            key, value = _serdes(topology, sink, topic, internal)
            found[topic] = _Sink(topic, encoder(key, topic), encoder(value, topic), sink.partitioner)
    return found


def _serdes(
    topology: Topology, node: SourceNode | SinkNode, topic: str, internal: InternalSerde
) -> tuple[Any, Any]:
    key = node.key_serde if node.key_serde is not None else topology.default_key_serde
    value = node.value_serde if node.value_serde is not None else topology.default_value_serde
    if topic not in topology.repartition_topics:
        return key, value
    source = topology.source_of(topic)
    readers = [] if source is None else topology.children(source.name)
    own = any(_kind(reader) in _OWN_VALUES for reader in readers)
    return key or internal, internal if own or value is None else value


def _kind(node: Any) -> Any:
    """The class of an operator, from how it is made."""
    make = getattr(node, "make", None)
    return getattr(make, "func", make)


def headers_of(piece: Fetched) -> list[Headers] | None:
    """Headers as the engine has them: texts where they are; None where no record has any."""
    column = piece.headers
    if column is None or len(column.values) == 0:
        return None
    return [
        tuple((pair["key"], _text(pair["value"])) for pair in pairs) if pairs else ()
        for pairs in column.to_pylist()
    ]


def _text(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _headers_array(headers: Sequence[Headers]) -> pa.Array:
    rows = [
        [{"key": name, "value": value.encode() if isinstance(value, str) else value} for name, value in pairs]
        for pairs in headers
    ]
    return pa.array(rows, HEADERS_TYPE)


def _record_batch(
    keys: pa.Array, values: pa.Array, timestamps: Sequence[int], headers: pa.Array | None
) -> pa.RecordBatch:
    times = pa.Array.from_buffers(
        pa.timestamp("ms", tz="UTC"), len(timestamps), [None, pa.py_buffer(np.array(timestamps, np.int64))]
    )
    columns, names = [keys, values, times], ["key", "value", "timestamp"]
    if headers is not None:
        columns.append(headers)
        names.append("headers")
    return pa.RecordBatch.from_arrays(columns, names=names)
