"""Tasks as a runner has them: one for each sub-topology and partition, with topics between them."""

import pickle
import random
from collections import defaultdict
from typing import Any
from zlib import crc32

import pytest

from moldau.streams import StreamsBuilder, StreamsError, TestDriver, Topology
from moldau.streams.engine.fused import Columns
from moldau.streams.engine.queues import RecordQueues
from moldau.streams.engine.records import Input
from moldau.streams.engine.stores.store import StoreState, merged
from moldau.streams.engine.task import Task, TaskState

PARTITIONS = 3


def word_count(builder: StreamsBuilder) -> None:
    words = builder.stream("lines").flat_map_values(str.split)
    counts = words.group_by(lambda word: word).count("counts")
    by_count = counts.group_by(lambda word, count: (str(count), word))
    by_count.count("words-with-count").to_stream().to("out")


def purchases(builder: StreamsBuilder) -> None:
    customers = builder.table("customers", "customers-store")
    orders = builder.stream("orders").select_key(lambda order: order[0])
    orders.left_join(customers, lambda order, customer: (order[1:], customer)).to("out")


class Cluster:
    """A small runner: every batch of a task starts from saved state, and saves what it changed."""

    def __init__(self, topology: Topology, seed: int) -> None:
        self.topology = topology
        self.chance = random.Random(seed)
        self.saved: dict[tuple[int, int], TaskState] = {}
        self.waiting: dict[tuple[int, int], list[Input]] = defaultdict(list)
        self.offsets: dict[tuple[str, int], int] = defaultdict(int)
        self.outputs: list[Any] = []
        self.groups = topology.sub_topologies()

    def send(self, topic: str, key: Any, value: Any, timestamp: int) -> None:
        """To the partition of the key, for the sub-topology that reads the topic."""
        partition = crc32(repr(key).encode()) % PARTITIONS
        source = self.topology.source_of(topic)
        if source is None:
            self.outputs.append((topic, key, value, timestamp))
            return
        (number,) = (group.number for group in self.groups if source.name in group.nodes)
        offset = self.offsets[topic, partition]
        self.offsets[topic, partition] += 1
        self.waiting[number, partition].append(Input(topic, key, value, timestamp, (), partition, offset))

    def run(self) -> None:
        while any(self.waiting.values()):
            place = self.chance.choice([place for place, records in self.waiting.items() if records])
            self.run_batch(*place)

    def run_batch(self, number: int, partition: int) -> None:
        task = Task(self.topology, self.groups[number].nodes, task_id=f"{number}_{partition}")
        state = self.saved.get((number, partition), task.export())
        task.restore(pickle.loads(pickle.dumps(state)))
        size = self.chance.randint(1, 5)
        batch, rest = self.waiting[number, partition][:size], self.waiting[number, partition][size:]
        self.waiting[number, partition] = rest
        queues = RecordQueues()
        for record in batch:
            queues.add(record, task.timestamp_of(record))
        while queues:
            task.take(*queues.take())
        changes = task.take_changes()
        stores = {name: merged(state.stores[name], each) for name, each in changes.stores.items()}
        self.saved[number, partition] = TaskState(stores, changes.operators, changes.task)
        for output in task.take_outputs():
            self.send(*output[:4])

    def rows(self, store: str) -> dict[Any, Any]:
        states = (state.stores[store] for state in self.saved.values() if store in state.stores)
        return {key: row for state in states for key, row in state.rows.items()}


@pytest.mark.parametrize("seed", range(10))
def test_counts_of_many_tasks_are_those_of_one(seed: int) -> None:
    builder = StreamsBuilder()
    word_count(builder)
    topology = builder.build()
    lines = ["a b a", "c a", "b b", "d", "c c c", "a"]
    driver, cluster = TestDriver(topology), Cluster(topology, seed)
    for time, line in enumerate(lines):
        driver.pipe_input("lines", None, line, time)
        cluster.send("lines", None, line, time)
    cluster.run()
    counts = {key: row[0] for key, row in cluster.rows("counts").items()}
    assert counts == driver.rows("counts")
    totals = {key: row[0] for key, row in cluster.rows("words-with-count").items() if row[0]}
    assert totals == {key: value for key, value in driver.rows("words-with-count").items() if value}


@pytest.mark.parametrize("seed", range(5))
def test_a_repartitioned_stream_meets_its_table(seed: int) -> None:
    builder = StreamsBuilder()
    purchases(builder)
    cluster = Cluster(builder.build(), seed)
    for customer in "abcd":
        cluster.send("customers", customer, customer.upper(), 0)
    cluster.run()
    for number in range(8):
        cluster.send("orders", number, f"{'abcd'[number % 4]}{number}", number)
    cluster.run()
    assert sorted(cluster.outputs) == sorted(
        ("out", "abcd"[number % 4], (str(number), "ABCD"[number % 4]), number) for number in range(8)
    )


def _fails(value: Any) -> Any:
    if value == "bad":
        raise ValueError(value)
    return value


def test_dropped_records_have_a_reason() -> None:
    from moldau.streams import TimeWindows

    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(10)
    builder.stream("in").map_values(_fails).group_by_key().windowed_by(windows).count("c")
    records = [
        Input("in", "a", 1, 100),
        Input("in", "a", 1, 5),
        Input("in", None, 1, 100),
        Input("in", "a", "bad", 100),
        Input("in", "a", 1, -1),
    ]
    task = Task(builder.build(), on_error="continue")
    task.process(records)
    assert task.counters.reasons == {"late": 1, "no-key-or-value": 1, "failed": 1, "no-time": 1}
    assert task.counters.dropped == 4
    by_column = Task(builder.build())
    by_column.process_columns("in", Columns(["a", "a", None], [1, 1, 1], [100, 5, 100], None))
    assert by_column.counters.reasons == {"late": 1, "no-key-or-value": 1}


def test_changes_are_only_what_changed() -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count("c")
    task = Task(builder.build())
    task.process([Input("in", "a", 1, 0), Input("in", "b", 1, 1), Input("in", "a", 1, 2)])
    assert task.take_changes().stores["c"] == StoreState({"a": (2, 2), "b": (1, 1)}, ())
    task.process([Input("in", "b", 1, 3)])
    assert task.take_changes().stores["c"] == StoreState({"b": (2, 3)}, ())
    assert task.take_changes().stores["c"] == StoreState({}, ())


def test_a_timestamp_extractor_that_fails_is_named() -> None:
    from moldau.streams import Consumed

    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(timestamp_extractor=lambda record, time: record.value["t"])).to("out")
    with pytest.raises(StreamsError, match="Fatal user code error in TimestampExtractor"):
        Task(builder.build()).process([Input("in", "a", None, 0)])
