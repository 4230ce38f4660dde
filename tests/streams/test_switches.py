"""A new version in the place of an old one, on a real broker: nothing is lost, nothing comes twice."""

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.streams import StreamsError
from moldau.testing import Broker

pytest.importorskip("pyspark")

from moldau.spark.background_loop import connect
from moldau.streams.runner.application import StreamsOptions
from moldau.streams.runner.programs import Program
from moldau.streams.runner.resets import carry_out, planned
from moldau.streams.switches import Switch, Version
from tests.streams.driving import Driving

HEAD = """
from moldau.streams import *
builder = StreamsBuilder()
texts = Consumed.with_(Serdes.string(), Serdes.string())
longs = Produced.with_(Serdes.string(), Serdes.long())
"""
#: By key, so without a repartition topic.
COUNTS = HEAD + 'builder.stream("in", texts).group_by_key().count("counts").to_stream().to("out", longs)\n'
#: The same with operators in front, so that all others have other names; and an output of its own.
COUNTS_2 = (
    HEAD
    + """
lines = builder.stream("in", texts).filter(lambda value: value != "skip")
lines.map_values(str.upper).to("upper", Produced.with_(Serdes.string(), Serdes.string()))
lines.group_by_key().count("counts").to_stream().to("out", longs)
"""
)
#: Through a repartition topic.
WORDS = (
    HEAD
    + """
words = builder.stream("in", texts).flat_map_values(str.split)
words.group_by(lambda word: word).count("counts").to_stream().to("out", longs)
"""
)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def version(text: str, name: str) -> Version:
    return Version(name, Program(f"{name}.py", text=text))


def drive(broker: Broker, which: Version, **given: Any) -> Driving:
    return Driving(which.program, which.application_id, StreamsOptions(broker.bootstrap_servers, **given))


def switch(broker: Broker, old: Version, new: Version, **given: Any) -> Switch:
    return Switch(old, new, StreamsOptions(broker.bootstrap_servers), **given)


def results(broker: Broker, topic: str = "out") -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for record in broker.records(topic):
        found.setdefault(record.key.decode(), []).append(int.from_bytes(record.value, "big"))
    return found


def fill(broker: Broker, count: int, partitions: int = 1) -> None:
    for number in range(count):
        broker.produce("in", "x y", key=f"k{number % 3}", partition=number % partitions)


def test_counts_go_on(broker: Broker) -> None:
    broker.create_topic("in", 1)
    old, new = version(COUNTS, "one"), version(COUNTS_2, "two")
    fill(broker, 6)
    drive(broker, old).run()
    fill(broker, 3)  # after the old version has ended, before the new one begins
    plan = switch(broker, old, new).carry_out()
    assert (plan.rows, plan.offsets) == ({"counts": 3}, {TopicPartition("in", 0): 6})
    drive(broker, new).run()
    fill(broker, 3)
    drive_again = drive(broker, new)
    assert drive_again.run() == 1
    assert results(broker) == {f"k{n}": [1, 2, 3, 4] for n in range(3)}
    assert [record.value for record in broker.records("upper")] == [b"X Y"] * 6


def test_records_between_sub_topologies_are_carried_over(broker: Broker) -> None:
    """The old version ends where words wait in its repartition topic."""
    broker.create_topic("in", 2)
    old, new = version(WORDS, "one"), version(WORDS.replace("str.split", "lambda line: line.split()"), "two")
    fill(broker, 10, partitions=2)
    drive(broker, old).run(1)
    assert results(broker) == {}
    plan = switch(broker, old, new).carry_out()
    assert len(plan.waiting) == 2
    fill(broker, 10, partitions=2)
    drive(broker, new).run()
    assert results(broker) == {word: list(range(1, 21)) for word in ("x", "y")}


def test_a_batch_that_was_decided_and_not_told_counts(broker: Broker) -> None:
    """A version without state, whose driver dies after the decision: the group does not know of the batch."""
    broker.create_topic("in", 1)
    text = HEAD + 'builder.stream("in", texts).map_values(len).to("out", longs)\n'
    old, new = version(text, "one"), version(text.replace("len", "lambda value: len(value) + 10"), "two")
    fill(broker, 3)
    life = drive(broker, old)
    life.run()
    fill(broker, 3)
    life.run(tell_group=False)
    switch(broker, old, new).carry_out()
    fill(broker, 3)
    drive(broker, new).run()
    assert results(broker) == {f"k{n}": [3, 3, 13] for n in range(3)}


def test_windows_keep_their_rows_and_their_time(broker: Broker) -> None:
    """Late for the old version is late for the new one, though all operators have other names."""
    windows = (
        HEAD
        + """
window = TimeWindows.of_size_with_no_grace(1_000)
lines = builder.stream("in", texts)
counts = lines.group_by_key().windowed_by(window).count("counts")
counts.to_stream(lambda window, count: f"{window.key}@{window.start}").to("out", longs)
"""
    )
    broker.create_topic("in", 1, {"retention.ms": -1})
    for name in ("out",):
        broker.create_topic(name, 1, {"retention.ms": -1})
    old = version(windows, "one")
    new = version(windows.replace("lines.group", "lines.filter(lambda value: True).group"), "two")
    for time in (100, 200, 5_000):
        broker.produce("in", "x", key="a", timestamp_ms=time)
    drive(broker, old).run()
    switch(broker, old, new).carry_out()
    for time in (300, 5_100):
        broker.produce("in", "x", key="a", timestamp_ms=time)
    drive(broker, new).run()
    assert results(broker) == {"a@0": [1, 2], "a@5000": [1, 2]}


def test_classes_of_the_programs_own_file(broker: Broker) -> None:
    text = (
        HEAD
        + """
class Total:
    def __init__(self, of=0):
        self.of = of

totals = builder.stream("in", texts).group_by_key().aggregate(
    Total, lambda key, value, total: Total(total.of + 1), "totals")
totals.map_values(lambda total: total.of).to_stream().to("out", longs)
"""
    )
    broker.create_topic("in", 1)
    old, new = version(text, "one"), version(text.replace("+ 1", "+ 10"), "two")
    fill(broker, 3)
    drive(broker, old).run()
    switch(broker, old, new).carry_out()
    fill(broker, 3)
    drive(broker, new).run()
    assert results(broker) == {f"k{n}": [1, 11] for n in range(3)}
    third = version(text.replace("Total", "Sum"), "three")
    with pytest.raises(StreamsError, match="a row of the state has a value of"):
        switch(broker, new, third).carry_out()


def test_a_plan_changes_nothing(broker: Broker) -> None:
    broker.create_topic("in", 1)
    old, new = version(COUNTS, "one"), version(COUNTS_2, "two")
    fill(broker, 3)
    life = drive(broker, old)
    life.run()
    before = {topic for topic in broker.topics() if not topic.startswith("__")}
    plan = switch(broker, old, new).planned()
    assert (plan.problems, plan.rows) == ([], {"counts": 3})
    assert {topic for topic in broker.topics() if not topic.startswith("__")} == before
    fill(broker, 3)
    assert life.run() == 1  # it was not fenced


def test_stores_that_differ_are_refused(broker: Broker) -> None:
    broker.create_topic("in", 1)
    fill(broker, 3)
    old = version(COUNTS, "one")
    drive(broker, old).run()
    windowed = COUNTS.replace(".count", ".windowed_by(TimeWindows.of_size_with_no_grace(1_000)).count")
    with pytest.raises(StreamsError, match="store counts is a WindowStore, and was a TableStore"):
        switch(broker, old, version(windowed, "two")).carry_out()
    renamed = version(COUNTS.replace('"counts"', '"totals"'), "two")
    with pytest.raises(StreamsError, match="--store totals=OLD"):
        switch(broker, old, renamed).carry_out()
    switch(broker, old, renamed, renamed={"totals": "counts"}).carry_out()
    fill(broker, 3)
    drive(broker, renamed).run()
    assert results(broker) == {f"k{n}": [1, 2] for n in range(3)}
    with pytest.raises(StreamsError, match="two has run already"):
        switch(broker, old, renamed, renamed={"totals": "counts"}).carry_out()


def test_what_cannot_be_switched(broker: Broker) -> None:
    broker.create_topic("in", 1)
    old = version(COUNTS, "one")
    with pytest.raises(StreamsError, match="both versions are called one"):
        switch(broker, old, version(COUNTS_2, "one"))
    with pytest.raises(StreamsError, match="nothing to take over"):
        switch(broker, old, version(COUNTS_2, "two")).planned()


def test_another_number_of_partitions_is_refused(broker: Broker) -> None:
    broker.create_topic("in", 1)
    broker.create_topic("more", 2)
    fill(broker, 3)
    old = version(COUNTS, "one")
    drive(broker, old).run()
    new = version(COUNTS.replace('"in"', '"more"'), "two")
    with pytest.raises(StreamsError, match="are in 2 partitions now, and were in 1"):
        switch(broker, old, new).carry_out()


def test_a_new_topic_is_read_from_its_start(broker: Broker) -> None:
    for name in ("in", "extra"):
        broker.create_topic(name, 1)
    fill(broker, 3)
    for _ in range(2):
        broker.produce("extra", "x", key="k0")
    old = version(COUNTS, "one")
    drive(broker, old).run()
    both = COUNTS.replace('builder.stream("in", texts)', 'builder.stream(["in", "extra"], texts)')
    new = version(both, "two")
    plan = switch(broker, old, new).carry_out()
    assert (plan.new_topics, plan.left_topics) == (["extra"], [])
    drive(broker, new).run()
    assert results(broker) == {"k0": [1, 2, 3], "k1": [1], "k2": [1]}


def test_a_switch_is_undone_with_what_the_new_version_did(broker: Broker) -> None:
    """Back to the old program under its old name, after a reset: counts go on from the new version's."""
    broker.create_topic("in", 1)
    old, new = version(COUNTS, "one"), version(COUNTS_2, "two")
    fill(broker, 3)
    drive(broker, old).run()
    switch(broker, old, new).carry_out()
    fill(broker, 3)
    drive(broker, new).run()
    with pytest.raises(StreamsError, match="one has run already: begin it anew"):
        switch(broker, new, old).carry_out()
    reset(broker, "one")
    plan = switch(broker, new, old).carry_out()
    assert (plan.rows, plan.offsets) == ({"counts": 3}, {TopicPartition("in", 0): 6})
    fill(broker, 3)
    drive(broker, old).run()
    assert results(broker) == {f"k{n}": [1, 2, 3] for n in range(3)}


def test_a_switch_leaves_the_old_version_as_it_was(broker: Broker) -> None:
    """Without a reset the old version goes on at the switch, as though there had been none."""
    broker.create_topic("in", 1)
    old, new = version(COUNTS, "one"), version(COUNTS_2, "two")
    fill(broker, 3)
    life = drive(broker, old)
    life.run()
    switch(broker, old, new).carry_out()
    fill(broker, 3)
    assert life.run() == 1
    assert results(broker) == {f"k{n}": [1, 2] for n in range(3)}


def reset(broker: Broker, name: str) -> None:
    loop = connect(StreamsOptions(broker.bootstrap_servers).cluster)
    loop.run(carry_out(loop.cluster, loop.run(planned(loop.cluster, name, []))))
