"""``describe()`` of programs beyond the vectors, as Kafka Streams 4.3 prints them (``described.txt``)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.streams import (
    BufferConfig,
    Consumed,
    Joined,
    JoinWindows,
    Materialized,
    Processor,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
)

TEXTS = {
    name: text.rstrip("\n")
    for name, _, text in (
        part.partition("\n")
        for part in (Path(__file__).parent / "described.txt").read_text().split("## ")[1:]
    )
}
Programs = dict[str, tuple[Callable[[StreamsBuilder], Any], str]]
PROGRAMS: Programs = {}
WINDOW = JoinWindows.of_time_difference_with_no_grace(10)


def program(name: str, optimization: str = "none") -> Callable[[Any], Any]:
    def keep(build: Callable[[StreamsBuilder], Any]) -> Callable[[StreamsBuilder], Any]:
        PROGRAMS[name] = (build, optimization)
        return build

    return keep


def same(value: Any) -> Any:
    return value


def first(one: Any, other: Any) -> Any:
    return one


@program("fk")
def foreign_key(builder: StreamsBuilder) -> None:
    orders, customers = builder.table("orders", "O"), builder.table("customers", "C")
    orders.join(customers, first, "J", foreign_key=same).to_stream().to("out")


@program("fk-named-left")
def named_foreign_key(builder: StreamsBuilder) -> None:
    orders, customers = builder.table("orders", "O"), builder.table("customers", "C")
    orders.left_join(customers, first, None, "fk", foreign_key=same).to_stream().to("out")


@program("global")
def global_table(builder: StreamsBuilder) -> None:
    stream = builder.stream("s")
    stream.join(builder.global_table("g", "G"), first, key=same).to("o")


@program("global-first")
def global_table_first(builder: StreamsBuilder) -> None:
    table = builder.global_table("g", "G")
    builder.stream("s").join(table, first, key=same).to("o")


@program("table-table")
def tables_without_stores(builder: StreamsBuilder) -> None:
    builder.table("l").outer_join(builder.table("r"), first).to_stream().to("o")


@program("table-table-named")
def tables(builder: StreamsBuilder) -> None:
    builder.table("l", "L").left_join(builder.table("r", "R"), first, "J").to_stream().to("o")


@program("cogroup")
def cogroup(builder: StreamsBuilder) -> None:
    left, right = builder.stream("l").group_by(same), builder.stream("r").group_by_key()
    both = left.cogroup(lambda key, value, so_far: so_far).cogroup(right, lambda key, value, so_far: so_far)
    both.aggregate(str, "st").to_stream().to("o")


@program("left-selectkey")
def left_join_after_a_new_key(builder: StreamsBuilder) -> None:
    builder.stream("l").select_key(same).left_join(builder.stream("r"), first, WINDOW).to("o")


@program("unnamed-repartition")
def repartition(builder: StreamsBuilder) -> None:
    builder.stream("l").repartition().to("o")


@program("toTable-map")
def to_table(builder: StreamsBuilder) -> None:
    builder.stream("l").map(lambda key, value: (value, value)).to_table().to_stream().to("o")


@program("process")
def processors(builder: StreamsBuilder) -> None:
    builder.stream("l").process(Processor).to("o")
    builder.stream("m").process_values(Processor).to("o2")


@program("named-table")
def named_tables(builder: StreamsBuilder) -> None:
    builder.table("t", "T", Consumed.as_("nm")).to_stream().to("o")
    builder.global_table("g", "G", Consumed.as_("gn"))


@program("multi-topics")
def several_topics(builder: StreamsBuilder) -> None:
    builder.stream(["x", "y", "abc"]).to("o")


@program("ktable-group")
def grouped_table(builder: StreamsBuilder) -> None:
    builder.table("t", "T").group_by(lambda key, value: (value, value)).count("c").to_stream().to("o")


@program("ktable-filter-map")
def derived_tables(builder: StreamsBuilder) -> None:
    builder.table("t").filter(same).map_values(same, "m").to_stream().to("o")


def self_join(builder: StreamsBuilder) -> None:
    stream = builder.stream("s")
    stream.join(stream, first, WINDOW).to("o")


PROGRAMS["self-join"] = (self_join, "none")
PROGRAMS["self-join-opt"] = (self_join, "all")


@program("self-left", "single.store.self.join")
def left_self_join(builder: StreamsBuilder) -> None:
    stream = builder.stream("s")
    stream.left_join(stream, first, WINDOW).to("o")


@program("opt-merge", "all")
def merged_repartitions(builder: StreamsBuilder) -> None:
    stream = builder.stream("s").select_key(same)
    counts = stream.map_values(same).group_by_key().count("c1")
    counts.to_stream().map_values(str).to("o1")
    stream.group_by_key().count("c2")
    stream.filter(same).group_by_key().count("c3")


@program("opt-join", "merge.repartition.topics, reuse.ktable.source.topics")
def merged_with_a_join(builder: StreamsBuilder) -> None:
    stream = builder.stream("s").select_key(same)
    stream.join(builder.table("t", "T"), first).to("o")
    stream.group_by_key().count("c2")


@program("left-grace-nullkey")
def join_with_grace(builder: StreamsBuilder) -> None:
    stream, table = builder.stream("l"), builder.table("r", Materialized.as_versioned("R", 100))
    stream.left_join(table, first, options=Joined.with_(grace=5)).to("o")


@program("named-all")
def names(builder: StreamsBuilder) -> None:
    stream = builder.stream("s", "src")
    limit = Suppressed.until_time_limit(5, BufferConfig.max_records(3)).with_name("sup")
    counts = stream.filter(same, "f").group_by(same, "g").count("c", "cnt").suppress(limit)
    counts.to_stream(None, "ts").map_values(str, "mv").to("o", "snk")
    stream.left_join(builder.table("t", "T", "tb"), first, options=Joined.as_("jn")).to("o2")
    named = StreamJoined.with_(store_name="st", name="sj")
    stream.join(builder.stream("r"), first, WINDOW, named).to("o3")
    joined = builder.table("x", "X").join(builder.table("y", "Y"), first, "Z", "tj")
    joined.filter(same, None, "tf")


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_is_kafkas(name: str) -> None:
    build, optimization = PROGRAMS[name]
    builder = StreamsBuilder()
    build(builder)
    assert builder.build(optimization).describe().rstrip("\n") == TEXTS[name]
