"""Vectors as programs of one Structured Streaming query: vector number N is the task of partition N.

Invariant: the query is the one that users run, from the source to the decision; only which program a task
has depends on its partition. Side effects of peek and foreach, and the numbers of records of internal topics,
stay in the processes of the tasks and are not compared.
"""

import json
import random
import re
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from moldau.spark.background_loop import connect
from moldau.spark.read.listing import list_offsets
from moldau.spark.read.offsets import LATEST
from moldau.streams.engine.nodes import PassThrough
from moldau.streams.engine.queues import RecordQueues
from moldau.streams.engine.records import Input, Output
from moldau.streams.engine.task import Task
from moldau.streams.errors import StreamsError
from moldau.streams.runner.application import RunningApplication, StreamsOptions
from moldau.streams.runner.layout import Group, InternalTopic, Layout
from moldau.streams.runner.orders import Application
from moldau.streams.runner.programs import program_of
from moldau.streams.runner.worker import read_state
from moldau.streams.topology.topology import SinkNode, SourceNode, Topology
from moldau.testing import Broker
from tests.shared.waiting import wait_until
from tests.streams import expressions, play, processors, programs

Vector = dict[str, Any]
CLOCK = "clock-of-vectors"
ERRORS = "errors-of-vectors"
_APPLICATION = "app"
_START_MS = 1_000_000


class VectorTask(Task):
    """A task whose wall clock is a topic, and which writes down how it failed."""

    def take(self, record: Input, timestamp: int) -> None:
        if record.topic == CLOCK:
            self.advance_wall_clock(record.value)
            return
        if record.topic in self.global_topics:
            self.take_global(record, timestamp)
            return
        try:
            super().take(record._replace(partition=0), timestamp)
        except StreamsError as error:
            self.failed(error)

    def timestamp_of(self, record: Input) -> int:
        try:
            return super().timestamp_of(record)
        except StreamsError as error:
            self.failed(error)
            return -1

    def failed(self, error: StreamsError) -> None:
        self.context.outputs.clear()
        self.context.outputs.append(Output(ERRORS, None, play.described_error("input", error), 0))

    def fused_topics(self) -> set[str]:
        return set() if self.goes_by_record else super().fused_topics()


class VectorPrograms:
    def __init__(self, vectors: list[Vector]) -> None:
        self.vectors = vectors
        self.project = str(Path(__file__).parents[2])
        self.made: dict[int, Topology] = {}

    def topology(self, partition: int) -> Topology:
        if self.project not in sys.path:
            sys.path.insert(0, self.project)  # in the process of the tasks
        if partition not in self.made:
            vector = self.vectors[partition]
            config = vector.get("config") or {}
            builder = programs.built(vector["topology"], lambda *_: None)
            topology = builder.build(config.get("topology.optimization", "none"))
            topology.add(SourceNode("clock", (CLOCK,), programs.JSON, programs.JSON))
            topology.add(SinkNode("errors", ("clock",), PassThrough, ERRORS, programs.JSON, programs.JSON))
            # A partition has a program of its own, so what is global to one is saved with it.
            for name, spec in topology.stores.items():
                topology.stores[name] = replace(spec, is_global=False)
            for name, node in topology.nodes.items():
                if isinstance(node, SinkNode):
                    topology.nodes[name] = replace(node, partitioner=_Always(partition))
            self.made[partition] = topology
        return self.made[partition]

    def new_task(self, partition: int, **options: Any) -> Task:
        config = self.vectors[partition].get("config") or {}
        continues = "LogAndContinue" in config.get("processing.exception.handler", "")
        options |= {
            "nodes": None,
            "wall_clock_ms": _START_MS,
            "on_error": "continue" if continues else "fail",
            "task_id": "0_0",
        }
        topology = self.topology(partition)
        task = VectorTask(topology, **options)
        task.global_topics = {
            t for s in topology.sources() if s.name in topology.global_sources for t in s.topics
        }
        task.goes_by_record = "error" in self.vectors[partition]
        return task


class _Always:
    def __init__(self, partition: int) -> None:
        self.partition = partition

    def __call__(self, topic: str, key: Any, value: Any, count: int) -> int:
        return self.partition


for module in (expressions, programs, processors, play, sys.modules[__name__]):
    cloudpickle.register_pickle_by_value(module)


def in_batches(vector: Vector, chance: random.Random) -> list[list[Any]]:
    """The inputs of a vector, cut at random; and wherever a task would take them in another order."""
    inputs = list(vector["inputs"])
    if vector.get("error", {}).get("at") == "input":
        inputs = inputs[: vector["error"]["i"] + 1]
    extracts = any("timestamp_field" in step for step in vector["topology"])
    most = 0 if talks_to_itself(vector) else 6
    batches: list[list[Any]] = []
    clock = _START_MS
    size = 0
    for given in inputs:
        if "advance_wall_clock_ms" in given:
            clock += given["advance_wall_clock_ms"]
            batches.append([{"topic": CLOCK, "key": None, "value": clock, "timestamp": 0}])
            size = 0
            continue
        if size > 0 and _keeps_order([*batches[-1], given], extracts):
            batches[-1].append(given)
            size -= 1
        else:
            batches.append([given])
            size = chance.randint(0, most)
    return batches


def talks_to_itself(vector: Vector) -> bool:
    """Whether it reads a topic that it writes: each record must be finished before the next one comes."""
    steps = vector["topology"]
    written = {step["topic"] for step in steps if step["op"] == "to" and "topic" in step}
    reading = [step for step in steps if step["op"] != "to"]
    return any(topic in written for step in reading for topic in step.get("topics") or [step.get("topic")])


def _keeps_order(batch: list[Any], extracts: bool) -> bool:
    if len({given["topic"] for given in batch}) == 1:
        return True
    if extracts or any("raw_value" in given or "raw_key" in given for given in batch):
        return False
    queues = RecordQueues()
    # A task brings the records of one topic after the other; that decides between equal times.
    for number, given in sorted(enumerate(batch), key=lambda each: each[1]["topic"]):
        queues.add(Input(given["topic"], None, None, 0, (), 0, number), given["timestamp"])
    return all(queues.take()[0].offset == number for number in range(len(batch)))


class SparkPlayer:
    """Plays vectors of one file on a broker and a Spark that run."""

    def __init__(self, spark: Any, directory: Path) -> None:
        self.spark = spark
        self.directory = directory
        self.broker: Any = None

    def play(self, vectors: list[Vector], seed: int, *, continues: bool = False) -> dict[str, list[str]]:
        """What does not agree, by name."""
        chance = random.Random(seed)
        with Broker() as self.broker:
            return self._play(vectors, chance, continues)

    def _play(self, vectors: list[Vector], chance: random.Random, continues: bool) -> dict[str, list[str]]:
        application = self._application(vectors, continues=continues)
        batches = [in_batches(vector, chance) for vector in vectors]
        self._run(application, batches, chance)
        return {vector["name"]: self._compare(application, n, vector) for n, vector in enumerate(vectors)}

    def _application(self, vectors: list[Vector], *, continues: bool) -> Application:
        count = len(vectors)
        made = VectorPrograms(vectors)
        topics = {CLOCK}
        outputs = {ERRORS}
        for number, vector in enumerate(vectors):
            topology = made.topology(number)
            internal = topology.repartition_topics
            topics |= {t for source in topology.sources() for t in source.topics if t not in internal}
            outputs |= {sink.topic for sink in topology.sinks() if sink.topic and sink.topic not in internal}
            outputs |= {output["topic"] for output in vector.get("outputs", ())}
        state = f"{_APPLICATION}-tasks-0-changelog"
        group = Group(0, (), tuple(sorted(topics)), (), count, state)
        partitions = dict.fromkeys(topics, count)
        layout = Layout(_APPLICATION, (group,), partitions, (InternalTopic(state, count, {}),), True, None)
        options = StreamsOptions(self.broker.bootstrap_servers)
        for topic in (topics | outputs | {state}) - {None}:
            # Times of vectors begin at 0: retention would remove them.
            self.broker.create_topic(topic, count, {"retention.ms": -1})
        errors = "continue" if continues else "fail"
        program = program_of(VectorPrograms(vectors), "vectors")
        return Application(_APPLICATION, program, layout, options.cluster, decoding_errors=errors, workers=2)

    def _run(self, application: Application, batches: list[list[list[Any]]], chance: random.Random) -> None:
        checkpoint = self.directory / f"{application.program.digest}-{chance.random()}"
        running: RunningApplication | None = None
        seen: dict[Any, int] = {}
        try:
            for number in range(max(map(len, batches), default=0)):
                for partition, of_vector in enumerate(batches):
                    for given in of_vector[number] if number < len(of_vector) else ():
                        self._send(partition, given)
                if running is not None and chance.random() < 0.15:
                    # Another number of workers: most tasks go on from what was saved.
                    running.stop()
                    running = None
                    application = replace(application, workers=chance.randint(1, 3))
                if running is None:
                    running = RunningApplication(self.spark, application, checkpoint)
                    running.start()
                self._wait(running, seen)
        finally:  # also where it failed: the next query has the same name
            if running is not None:
                running.stop()

    def _wait(self, running: RunningApplication, seen: dict[Any, int]) -> None:
        """Until everything was taken, what the programs wrote to topics that they read included."""
        query = running.query
        assert query is not None

        def done() -> bool:
            if not query.isActive and (failed := query.exception()) is not None:
                raise failed
            seen.update(running.seen)
            ends.update(loop.run(list_offsets(loop.cluster, places, committed=True)))
            return all(seen.get(place, 0) >= end for place, end in ends.items())

        loop = connect(running.application.cluster)
        places = dict.fromkeys(running.application.layout.all_places(), LATEST)
        ends: dict[Any, int] = {}
        wait_until(
            done,
            lambda: {p: (end, seen.get(p)) for p, end in ends.items() if seen.get(p, 0) < end},
            seconds=300,
        )

    def _send(self, partition: int, given: Any) -> None:
        raw_key, raw_value = given.get("raw_key"), given.get("raw_value")
        key = raw_key.encode() if raw_key is not None else play._json_bytes(given.get("key"))
        value = raw_value.encode() if raw_value is not None else play._json_bytes(given.get("value"))
        headers = [(name, _bytes(each)) for name, each in given.get("headers") or ()]
        self.broker.produce(
            given["topic"],
            value,
            key=key,
            partition=partition,
            timestamp_ms=given["timestamp"],
            headers=headers,
        )

    def _compare(self, application: Application, number: int, vector: Vector) -> list[str]:
        expected: dict[str, Any] = defaultdict(list)
        for output in vector.get("outputs", ()):
            expected[output["topic"]].append({k: v for k, v in output.items() if k not in ("i", "topic")})
        got = {
            topic: self._written(topic, number, vector)
            for topic in self.broker.topics()
            if topic in expected or topic in _sinks(application, number)
        }
        found = [
            f"outputs of {topic}: {play.difference(expected.get(topic, []), got.get(topic, []))}"
            for topic in sorted(set(expected) | set(got))
            if not play.same(expected.get(topic, []), got.get(topic, []))
        ]
        errors = [json.loads(record.value) for record in self.broker.records(ERRORS, number)]
        wanted, seen = play.comparable_errors(
            _without_place(vector.get("error")), _without_place(errors[0] if errors else None)
        )
        if wanted != seen:
            found.append(f"error: {play.difference(wanted, seen)}")
        if "error" not in vector:
            found += self._compare_state(application, number, vector)
        return found

    def _written(self, topic: str, number: int, vector: Vector) -> list[dict[str, Any]]:
        """What the program wrote to a topic: its inputs may be there, too, if it reads what it writes."""
        rows = [_row(record) for record in self.broker.records(topic, number)]
        for given in vector["inputs"]:
            if given.get("topic") == topic:
                rows.remove({name: given[name] for name in ("key", "value", "timestamp")})
        return rows

    def _compare_state(self, application: Application, number: int, vector: Vector) -> list[str]:
        saved = read_state(application, 0, number)
        loaded = application.program.load()
        task = loaded.new_task(number)
        if saved is not None:
            task.restore(saved.state._replace(task=saved.state.task[1]))
        names = {step["store"] for step in vector["topology"] if "store" in step}
        stores = {name: play.rows_of(task.stores[name]) for name in sorted(names) if name in task.stores}
        expected = vector.get("stores", {})
        found = []
        if not play.same(expected, stores):
            found.append(f"stores: {play.difference(expected, stores)}")
        dropped = saved.dropped if saved is not None else 0
        if dropped != vector.get("dropped_records", 0):
            found.append(f"dropped_records: expected {vector.get('dropped_records', 0)} but got {dropped}")
        return found


def _sinks(application: Application, number: int) -> set[str]:
    topology = application.program.load().topology(number)
    return {sink.topic for sink in topology.sinks() if sink.topic and sink.topic != ERRORS}


def _without_place(error: Any) -> Any:
    return None if error is None else {name: each for name, each in error.items() if name not in ("i", "at")}


def _bytes(value: Any) -> bytes | None:
    return None if value is None else str(value).encode()


def _row(record: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "key": None if record.key is None else json.loads(record.key),
        "value": None if record.value is None else json.loads(record.value),
        "timestamp": record.timestamp,
    }
    if record.headers:
        row["headers"] = [[name, None if value is None else value.decode()] for name, value in record.headers]
    return row


def playable_on_spark(vector: Vector) -> bool:
    """Vectors that are refused when they are built or started never reach Spark; nor do topics of no name."""
    if not vector.get("inputs") or vector.get("error", {}).get("at") in ("build", "start"):
        return False
    steps = vector["topology"]
    topics = [topic for step in steps for topic in step.get("topics") or [step.get("topic")] if topic]
    return all(re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic) for topic in topics)


def fails_to_decode(vector: Vector) -> bool:
    return "Deserialization exception handler" in vector.get("error", {}).get("message", "")


def continues(vector: Vector) -> bool:
    handler = (vector.get("config") or {}).get("deserialization.exception.handler", "")
    return "LogAndContinue" in handler
