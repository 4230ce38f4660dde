"""What the streams engine does with a record: ``python -m benchmarks.streams_engine [ROWS]``.

Rows per second of CPU time of this process, for records that are there already as Python values: neither a
broker nor serdes are in it. Every update is a result, the state of changed keys is taken after every batch of
10,000, and there are 1,000 keys. Each program runs record by record through the operators, and as columns: a
loop where the operators can be written out as one, marked with *. The best of three rounds counts.
"""

import operator
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from moldau.streams import (
    JoinWindows,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    col,
)
from moldau.streams.engine.fused import Columns
from moldau.streams.engine.records import Input
from moldau.streams.engine.task import Task

_BATCH = 10_000
_KEYS = 1_000
_ROUNDS = 3

Program = Callable[[StreamsBuilder], None]


def count_per_key(builder: StreamsBuilder) -> None:
    builder.stream("in").group_by_key().count("counts").to_stream().to("out")


def sum_per_key(builder: StreamsBuilder) -> None:
    prices = builder.stream("in").map_values(col("price"))
    prices.group_by_key().reduce(operator.add, "sums").to_stream().to("out")


def filter_and_map(builder: StreamsBuilder) -> None:
    builder.stream("in").filter(col("price") > 50).map_values(col("price") * 2).to("out")


def python_functions(builder: StreamsBuilder) -> None:
    stream = builder.stream("in").filter(lambda value: value["price"] > 50)
    stream.map_values(lambda value: value["price"] * 2).to("out")


def tumbling_count(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_with_no_grace(5_000)
    builder.stream("in").group_by_key().windowed_by(windows).count("counts").to_stream().to("out")


def hopping_average(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_with_no_grace(5_000).advance_by(1_000)
    grouped = builder.stream("in").map_values(col("price")).group_by_key().windowed_by(windows)
    sums = grouped.aggregate(
        lambda: (0, 0), lambda key, price, so_far: (so_far[0] + 1, so_far[1] + price), "sums"
    )
    sums.map_values(lambda so_far: so_far[1] / so_far[0]).to_stream().to("out")


def session_count(builder: StreamsBuilder) -> None:
    windows = SessionWindows.of_inactivity_gap_with_no_grace(50)
    builder.stream("in").group_by_key().windowed_by(windows).count("visits").to_stream().to("out")


def final_windows(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_with_no_grace(100)
    counts = builder.stream("in").group_by_key().windowed_by(windows).count("counts")
    counts.suppress(Suppressed.until_window_closes()).to_stream().to("out")


def stream_table_join(builder: StreamsBuilder) -> None:
    stream, table = builder.stream("in"), builder.table("other", "table")
    stream.join(table, lambda value, row: row).to("out")


def stream_stream_join(builder: StreamsBuilder) -> None:
    windows = JoinWindows.of_time_difference_with_no_grace(100)
    builder.stream("in").left_join(builder.stream("other"), lambda one, other: one, windows).to("out")


#: With the topics that batches come from in turn, and by how much fewer rows are enough.
PROGRAMS: list[tuple[Program, tuple[str, ...], int]] = [
    (count_per_key, ("in",), 1),
    (sum_per_key, ("in",), 1),
    (filter_and_map, ("in",), 1),
    (python_functions, ("in",), 1),
    (tumbling_count, ("in",), 1),
    (hopping_average, ("in",), 4),
    (session_count, ("in",), 2),
    (final_windows, ("in",), 2),
    (stream_table_join, ("in", "other"), 1),
    (stream_stream_join, ("in", "other"), 4),
]


def batches(topics: tuple[str, ...], rows: int) -> list[tuple[str, Columns]]:
    """The same records in every run: keys and prices at random, ten records for each millisecond."""
    chance = random.Random(1)
    made = []
    for number in range(rows // _BATCH):
        at = range(number * _BATCH, (number + 1) * _BATCH)
        columns = Columns(
            [f"key-{chance.randrange(_KEYS)}" for _ in at],
            [{"price": chance.randrange(100)} for _ in at],
            [each // 10 for each in at],
        )
        made.append((topics[number % len(topics)], columns))
    return made


def inputs(topic: str, columns: Columns) -> list[Input]:
    rows = zip(columns.keys, columns.values, columns.timestamps, strict=True)
    return [Input(topic, *row) for row in rows]


def rate(run: Callable[[], Any], rows: int) -> float:
    best = 0.0
    for _ in range(_ROUNDS):
        start = time.process_time()
        run()
        best = max(best, rows / (time.process_time() - start))
    return best


def by_record(topology: Topology, given: list[list[Input]]) -> None:
    task = Task(topology)
    for each in given:
        task.process(each)
        task.take_changes()


def by_column(topology: Topology, given: list[tuple[str, Columns]]) -> None:
    task = Task(topology)
    for topic, columns in given:
        task.process_columns(topic, columns)
        task.take_changes()


def main(arguments: list[str]) -> None:
    wanted = int(arguments[0]) if arguments else 200_000
    print(f"{'':20}{'by record':>14}{'by column':>14}   rows per CPU second")
    for program, topics, divisor in PROGRAMS:
        rows = max(_BATCH * 2, wanted // divisor // _BATCH * _BATCH)
        builder = StreamsBuilder()
        program(builder)
        topology = builder.build()
        columns = batches(topics, rows)
        records = [inputs(topic, each) for topic, each in columns]
        one = rate(lambda topology=topology, given=records: by_record(topology, given), rows)
        other = rate(lambda topology=topology, given=columns: by_column(topology, given), rows)
        mark = "*" if set(topics) <= Task(topology).fused_topics() else " "
        print(f"{program.__name__.replace('_', ' '):20}{one:14,.0f}{other:14,.0f} {mark}")


if __name__ == "__main__":
    main(sys.argv[1:])
