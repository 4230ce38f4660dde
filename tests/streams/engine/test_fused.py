"""Loops over columns give what the operators give, record by record: results, state, counts."""

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.streams import (
    KEY,
    VALUE,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    StreamsError,
    TestDriver,
    TimeWindows,
    col,
)
from moldau.streams.engine.fused import Columns
from moldau.streams.engine.records import Input
from moldau.streams.engine.task import Task
from tests.streams.play import Play, cases, differences, internal_topics, named_stores

VECTORS = sorted((Path(__file__).parents[1] / "vectors").glob("*.json"))
FAMILIES = [path for path in VECTORS if path.stem not in ("copartitioning", "topology")]


class ColumnDriver(TestDriver):
    """A driver that sends every record through the loop, if its topic has one."""

    fused = 0

    def _take(self, record: Input, time: int) -> None:
        headers = [record.headers] if record.headers else None
        columns = Columns([record.key], [record.value], [time], headers, [record.offset])
        for topic, results in self._task.process_columns(record.topic, columns).items():
            self._task.context.outputs += results.rows(topic)
        ColumnDriver.fused += record.topic in self._task.fused_topics()


@pytest.mark.parametrize("path", FAMILIES, ids=lambda path: path.stem)
def test_vectors_hold_in_columns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.streams.play.TestDriver", ColumnDriver)
    for _, vector, _ in cases(path):
        if "error" in vector:
            continue
        playing = Play(vector)
        topology = playing.topology()
        driver = playing.driver(topology)
        for number, given_input in enumerate(vector["inputs"]):
            playing.number = number
            playing.feed(driver, given_input)
        got = {
            "outputs": playing.outputs,
            "side_effects": playing.side_effects,
            "stores": named_stores(vector, driver),
            "dropped_records": driver.dropped_records,
            "internal_topics": internal_topics(driver),
            "describe": topology.describe(),
        }
        assert differences(vector, got) == [], vector["name"]


def test_many_vectors_went_through_loops() -> None:
    assert ColumnDriver.fused > 500 or ColumnDriver.fused == 0


def count(builder: StreamsBuilder) -> None:
    builder.stream("in").group_by_key().count("s").to_stream().to("out")


def total(builder: StreamsBuilder) -> None:
    builder.stream("in").filter(VALUE > 2).group_by_key().reduce(operator.add, "s").to_stream().to("out")


def smallest(builder: StreamsBuilder) -> None:
    builder.stream("in").group_by_key().reduce(min, "s").map_values(lambda v: v * 2).to_stream().to("out")


def tumbling(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_and_grace(10, 3)
    builder.stream("in").group_by_key().windowed_by(windows).count("s").to_stream().to("out")


def hopping(builder: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_with_no_grace(10).advance_by(4)
    grouped = builder.stream("in").map_values(VALUE + 1).group_by_key().windowed_by(windows)
    grouped.aggregate(tuple, lambda k, v, a: (*a, v)[-3:], "s").to_stream().to("out")


def visits(builder: StreamsBuilder) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(5, 12)
    builder.stream("in").group_by_key().windowed_by(windows).count("s").to_stream().to("out")


def pages(builder: StreamsBuilder) -> None:
    """Twice, so that two operators stand behind what is taken back."""
    windows = SessionWindows.of_inactivity_gap_with_no_grace(9)
    visits = builder.stream("in").group_by_key().windowed_by(windows)
    pages = visits.aggregate(tuple, lambda k, v, a: (*a, v), "s", merger=lambda k, a, b: (*a, *b))
    stream = pages.map_values(len).to_stream(lambda window, value: window.key)
    stream.filter(VALUE.is_not_null()).to("out")
    stream.filter(VALUE.is_not_null()).group_by_key().reduce(max, "longest").to_stream().to("longest")


def two_ways(builder: StreamsBuilder) -> None:
    stream = builder.stream("in")
    stream.flat_map_values(lambda v: [v, v + 1]).to("out")
    stream.filter_not(VALUE == 1).map(lambda k, v: (v, k)).peek(lambda v: None).to("other")
    stream.join(builder.table("t", "T"), lambda one, other: one + other).to("joined")


PROGRAMS = [count, total, smallest, tumbling, hopping, visits, pages, two_ways]


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(0, 60)), min_size=1, max_size=40
    ),
    st.integers(1, 7),
)
def test_columns_give_what_records_give(
    program: Callable[[StreamsBuilder], None], records: list[tuple[str, int, int]], size: int
) -> None:
    builder = StreamsBuilder()
    program(builder)
    topology = builder.build()
    by_record, by_column = Task(topology), Task(topology)
    assert "in" in by_column.fused_topics()
    expected: dict[str, list[Any]] = {}
    got: dict[str, list[Any]] = {}
    for number, (key, value, timestamp) in enumerate(records):
        for output in by_record.process([Input("in", key, value, timestamp, (), 0, number)]):
            expected.setdefault(output.topic, []).append(output)
    for at in range(0, len(records), size):
        keys, values, timestamps = map(list, zip(*records[at : at + size], strict=True))
        for topic, results in by_column.process_columns("in", Columns(keys, values, timestamps)).items():
            got.setdefault(topic, []).extend(results.rows(topic))
    assert got == expected
    assert by_column.export() == by_record.export()
    assert by_column.counters.dropped == by_record.counters.dropped
    counts = [
        {name: store.changelog_records for name, store in task.stores.items()}
        for task in (by_column, by_record)
    ]
    assert counts[0] == counts[1]


def test_what_a_loop_cannot_do_goes_record_by_record() -> None:
    builder = StreamsBuilder()
    windows = SlidingWindows.of_time_difference_with_no_grace(5)
    builder.stream("in").group_by_key().windowed_by(windows).count("s").to_stream().to("out")
    task = Task(builder.build())
    assert task.fused_topics() == set()
    results = task.process_columns("in", Columns(["a", "a"], [1, 1], [0, 3]))
    assert results["out"].values == [1, 1, 2]


def test_a_function_that_raises_stops_the_batch() -> None:
    builder = StreamsBuilder()
    builder.stream("in").map_values(lambda v: 1 / v).to("out")
    task = Task(builder.build())
    with pytest.raises(
        StreamsError, match="processor=KSTREAM-MAPVALUES-0000000001, key='b', timestamp=7"
    ) as caught:
        task.process_columns("in", Columns(["a", "b"], [1, 0], [0, 7]))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_fields_of_values() -> None:
    price = col("price")
    assert ((price * 2 + 1) >= 7)("k", {"price": 3}) is True
    assert (~(price.is_null()) & (KEY == "k"))("k", {"price": 3}) is True
    assert (price.is_null() | (10 - price < 8))("k", {}) is True
    assert price.is_in(1, 2)("k", {"price": 2}) is True
    assert (price.is_not_null())("k", None) is False
    assert (price / 2 + price)("k", {"price": 4}) == 6
