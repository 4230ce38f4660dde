"""One SELECT, one result: a batch over all records is what the stream has come to in the end.

The stream is the query as it is kept: tasks for each partition, records through repartition topics, cut into
random batches with state that is saved in between, results through their formats. Then its topic is read.
"""

import pickle
import random
from collections import defaultdict
from typing import Any, cast
from zlib import crc32

import pytest

from moldau.client.consumer.fetched import ConsumerRecord
from moldau.protocol.records import TimestampType
from moldau.sql.parser import parse_query, parse_statement
from moldau.sql.planner import plan_create, plan_query
from moldau.sql.program import catalogue_of
from moldau.sql.running.looking import run_over
from moldau.sql.statements import CreateAs
from moldau.streams import Topology
from moldau.streams.engine.queues import RecordQueues
from moldau.streams.engine.records import Input
from moldau.streams.engine.stores.store import merged
from moldau.streams.engine.task import Task, TaskState
from tests.sql.clicks import STATEMENTS, record

PARTITIONS = 3
CATALOGUE = catalogue_of(STATEMENTS)
AGGREGATES = ("COUNT(*)", "SUM(ms)", "MIN(ms)", "MAX(ms)", "AVG(ms)", "COUNT_DISTINCT(user)", "COUNT(page)")
WINDOWS = ("", "WINDOW TUMBLING (SIZE 7 SECONDS)", "WINDOW HOPPING (SIZE 9 SECONDS, ADVANCE BY 3 SECONDS)",
           "WINDOW SESSION (2 SECONDS)")  # fmt: skip
FILTERS = ("", "WHERE ms > 3", "WHERE page <> '/a' OR ms IS NULL", "WHERE user IN ('ann', 'bob')")
GROUPS = (("user",), ("page",), ("page", "user"), ("UCASE(page)",))


class Stream:
    """The tasks of a query, run in random order."""

    def __init__(self, topology: Topology, dice: random.Random) -> None:
        self._topology = topology
        self._dice = dice
        self._groups = topology.sub_topologies()
        self._saved: dict[tuple[int, int], TaskState] = {}
        self._waiting: dict[tuple[int, int], list[Input]] = defaultdict(list)
        self.results: list[ConsumerRecord] = []

    def give(self, given: ConsumerRecord) -> None:
        source = self._topology.source_of(given.topic)
        assert source is not None
        key = None if given.key is None else source.key_serde.deserialize(given.topic, given.key)
        value = None if given.value is None else source.value_serde.deserialize(given.topic, given.value)
        self._send(given.topic, key, value, given.timestamp)

    def _send(self, topic: str, key: Any, value: Any, timestamp: int) -> None:
        source = self._topology.source_of(topic)
        if source is None:
            self._keep(topic, key, value, timestamp)
            return
        partition = crc32(repr(key).encode()) % PARTITIONS
        for group in self._groups:
            if source.name in group.nodes:
                waiting = self._waiting[group.number, partition]
                waiting.append(Input(topic, key, value, timestamp, (), partition, len(waiting)))

    def _keep(self, topic: str, key: Any, value: Any, timestamp: int) -> None:
        (sink,) = (each for each in self._topology.sinks() if each.topic == topic)
        data = None if value is None else sink.value_serde.serialize(topic, value)
        number = len(self.results)
        self.results.append(
            ConsumerRecord(
                topic,
                0,
                number,
                timestamp,
                TimestampType.CREATE_TIME,
                sink.key_serde.serialize(topic, key),
                data,
                (),
                0,
            )
        )

    def run(self) -> None:
        while places := [place for place, records in self._waiting.items() if records]:
            self._batch(*self._dice.choice(places))

    def _batch(self, number: int, partition: int) -> None:
        task = Task(self._topology, self._groups[number].nodes, task_id=f"{number}_{partition}")
        state = self._saved.get((number, partition), task.export())
        task.restore(pickle.loads(pickle.dumps(state)))
        size = self._dice.randint(1, 20)
        waiting = self._waiting[number, partition]
        batch, self._waiting[number, partition] = waiting[:size], waiting[size:]
        queues = RecordQueues()
        for each in batch:
            queues.add(each, task.timestamp_of(each))
        while queues:
            task.take(*queues.take())
        changes = task.take_changes()
        stores = {name: merged(state.stores[name], each) for name, each in changes.stores.items()}
        self._saved[number, partition] = TaskState(stores, changes.operators, changes.task)
        for output in task.take_outputs():
            self._send(*output[:4])


def in_the_end(query: str, records: list[ConsumerRecord], dice: random.Random) -> list[dict[str, Any]]:
    """The rows of the table that the kept query writes."""
    plan, source = plan_create(
        cast(CreateAs, parse_statement(f"CREATE TABLE result AS {query} EMIT CHANGES")), CATALOGUE
    )
    stream = Stream(plan.topology, dice)
    for each in records:
        stream.give(each)
    stream.run()
    return run_over(plan_query(parse_query("SELECT * FROM result"), CATALOGUE.add(source)), stream.results)


def ordered(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(each.items())) for each in rows)


def clicks(dice: random.Random, count: int) -> list[ConsumerRecord]:
    """Clicks of three users; times go on, some values are missing."""
    found, time = [], 0
    for number in range(count):
        time += dice.choice((0, 100, 900, 2_500))
        value = {"page": dice.choice(("/a", "/b", "/c")), "ms": dice.choice((None, *range(9)))}
        found.append(record("clicks", dice.choice(("ann", "bob", "eve")), value, time, number))
    return found


@pytest.mark.parametrize("seed", range(25))
def test_groups(seed: int) -> None:
    dice = random.Random(seed)
    window, group = dice.choice(WINDOWS), dice.choice(GROUPS)
    keys = [f"{each} AS k{number}" for number, each in enumerate(group)]
    values = [f"{each} AS v{number}" for number, each in enumerate(dice.sample(AGGREGATES, 3))]
    columns = ", ".join([*keys, *values])
    query = f"SELECT {columns} FROM clicks {window} {dice.choice(FILTERS)} GROUP BY {', '.join(group)}"
    records = clicks(dice, 60)
    moment = dice.choice((records[-1].timestamp, records[30].timestamp))  # now, or as of then
    until = [each for each in records if each.timestamp <= moment]
    batch = run_over(plan_query(parse_query(query), CATALOGUE), until)
    kept = in_the_end(query, until, dice)
    bounds = ("WINDOWSTART", "WINDOWEND")
    plain = [{name: each for name, each in row.items() if name not in bounds} for row in kept]
    assert batch
    assert ordered(plain) == ordered(batch)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, name, level + 1 AS next FROM users WHERE level > 1",
        "SELECT id, name, title FROM users LEFT JOIN levels ON users.level = levels.level",
        "SELECT level, COUNT(*) AS n, SUM(level) AS total FROM users GROUP BY level",
    ],
)
def test_tables(seed: int, query: str) -> None:
    dice = random.Random(seed)
    records = []
    for number in range(60):
        if dice.random() < 0.3:
            title = None if dice.random() < 0.2 else {"title": f"t{number}"}
            records.append(record("levels", dice.randint(1, 4), title, number, number))
        else:
            user = None if dice.random() < 0.2 else {"name": f"n{number}", "level": dice.randint(1, 4)}
            records.append(record("users", dice.choice("abcde"), user, number, number))
    plan = plan_query(parse_query(query), CATALOGUE)
    known = [each for each in records if each.topic in plan.topics]
    assert ordered(in_the_end(query, known, dice)) == ordered(run_over(plan, known))
