"""What Kafka Streams 4.3 answered to questions that the vectors leave open."""

from typing import Any

import pytest

from moldau.streams import (
    BufferConfig,
    EmitStrategy,
    Joined,
    JoinWindows,
    Materialized,
    Processor,
    ProcessorContext,
    Record,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    StreamsError,
    Suppressed,
    TestDriver,
    TopologyError,
    UnlimitedWindows,
)


def run(builder: StreamsBuilder, *records: str, optimization: str = "none") -> list[str]:
    """Records as "topic key value time", with - for None; results as "number topic key=value @time"."""
    driver = TestDriver(builder.build(optimization), wall_clock_ms=1_000_000)
    shown = []
    for number, record in enumerate(records):
        topic, *rest = record.split()
        if topic == "ADVANCE":
            outputs = driver.advance_wall_clock(int(rest[0]))
        else:
            key, value = (None if each == "-" else each for each in rest[:2])
            outputs = driver.pipe_input(topic, key, value, int(rest[2]))
        shown += [f"{number} {each.topic} {each.key}={each.value} @{each.timestamp}" for each in outputs]
    return shown


class Beat(Processor[Any, Any]):
    def __init__(self, start_ms: int, kind: Any) -> None:
        self.start_ms, self.kind = start_ms, kind

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        context.schedule(10, self.kind, self.beat, start_ms=self.start_ms)

    def process(self, record: Record) -> None:
        """Nothing."""

    def beat(self, time: int) -> None:
        self.context.forward(Record("p", "x", time))


@pytest.mark.parametrize(
    ("start_ms", "times"), [(999_990, [1_000_010, 1_000_020]), (1_000_000, [1_000_001, 1_000_010, 1_000_020])]
)
def test_a_schedule_that_began_in_the_past_goes_on_on_its_grid(start_ms: int, times: list[int]) -> None:
    builder = StreamsBuilder()
    builder.stream("l").process(lambda: Beat(start_ms, "wall_clock_time")).to("o")
    results = run(builder, "ADVANCE 1", "ADVANCE 9", "ADVANCE 10")
    assert [int(each.split("@")[1]) for each in results] == times


def test_a_schedule_by_stream_time_begins_at_its_start() -> None:
    builder = StreamsBuilder()
    builder.stream("l").process(lambda: Beat(7, "stream_time")).to("o")
    results = run(builder, "l a 1 3", "l a 1 7", "l a 1 16", "l a 1 17", "l a 1 50")
    assert [int(each.split("@")[1]) for each in results] == [7, 17, 50]


@pytest.mark.parametrize("optimization", ["none", "all"])
def test_a_self_join_gives_the_same_with_one_store(optimization: str) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("s")
    window = JoinWindows.of_time_difference_with_no_grace(10)
    stream.join(stream, lambda one, other: one + other, window).to("o")
    results = run(builder, "s a 1 0", "s a 2 5", optimization=optimization)
    assert results == ["0 o a=11 @0", "1 o a=21 @5", "1 o a=12 @5", "1 o a=22 @5"]


def test_readers_of_a_suppressed_table_see_what_was_sent() -> None:
    builder = StreamsBuilder()
    limit = Suppressed.until_time_limit(10, BufferConfig.unbounded())
    table = builder.table("t", "T").suppress(limit)
    builder.stream("l").left_join(table, lambda one, other: f"{one}+{other}").to("o")
    results = run(
        builder, "t a 1 0", "l a x 1", "t b 1 10", "l a y 11", "t a 2 12", "l a z 13", "t b 2 40", "l a w 41"
    )
    assert results == ["1 o a=x+None @1", "3 o a=y+1 @11", "5 o a=z+1 @13", "7 o a=w+2 @41"]


def test_a_foreign_key_join_with_itself() -> None:
    builder = StreamsBuilder()
    table = builder.table("t", "T")
    joined = table.left_join(table, lambda one, other: f"{one}+{other}", "J", foreign_key=lambda value: value)
    joined.to_stream().to("o")
    assert run(builder, "t a b 1", "t b a 2", "t a - 3") == [
        "0 o a=b+None @1",
        "1 o a=b+a @2",
        "1 o b=a+b @2",
        "2 o b=a+None @3",
        "2 o a=None @3",
    ]


def test_a_chain_of_table_joins_without_stores() -> None:
    builder = StreamsBuilder()
    left, right, third = (builder.table(each, each.upper()) for each in "lrq")
    both = left.left_join(right, lambda one, other: f"{one}+{other}")
    both.outer_join(third, lambda one, other: f"{one}/{other}").to_stream().to("o")
    results = run(
        builder, "l a 1 1", "q a 9 2", "r a 5 3", "l a - 4", "q a - 5", "r a 6 6", "l a 2 7", "r a - 8"
    )
    assert [each.split("=")[1] for each in results] == [
        "1+None/None @1",
        "1+None/9 @2",
        "1+5/9 @3",
        "None/9 @4",
        "None @5",
        "2+6/None @7",
        "2+None/None @8",
    ]


def test_records_without_key_cannot_wait_for_a_table() -> None:
    builder = StreamsBuilder()
    table = builder.table("r", Materialized.as_versioned("R", 100))
    builder.stream("l").left_join(table, lambda one, other: one, options=Joined.with_(grace=5)).to("o")
    with pytest.raises(StreamsError) as caught:
        run(builder, "l a 1 1", "l - x 2")
    assert str(caught.value.__cause__) == "key cannot be null"


def test_unlimited_windows_have_no_end() -> None:
    builder = StreamsBuilder()
    windows = builder.stream("l").group_by_key().windowed_by(UnlimitedWindows.of().start_on(5))
    windows.count("u").to_stream(lambda key, value: f"{key.start}-{key.end}").to("o")
    assert run(builder, "l a 1 3", "l a 2 5", "l b 3 100", "l a 4 6") == [
        "1 o 5-9223372036854775807=1 @5",
        "2 o 5-9223372036854775807=1 @100",
        "3 o 5-9223372036854775807=2 @6",
    ]
    with pytest.raises(ValueError, match="cannot be used for UnlimitedWindows"):
        windows.emit_strategy(EmitStrategy.on_window_close())


def test_options_without_a_name_take_a_number_in_counts() -> None:
    names = []
    for options in (None, Materialized.with_()):
        for windows in (None, SessionWindows.of_inactivity_gap_with_no_grace(1)):
            group: Any = StreamsBuilder().stream("l").group_by_key()
            group = group if windows is None else group.windowed_by(windows)
            names.append(group.count(options).queryable_store_name)
        sliding = SlidingWindows.of_time_difference_with_no_grace(1)
        counted = StreamsBuilder().stream("l").group_by_key().windowed_by(sliding).count(options)
        names.append(counted.queryable_store_name)
    assert [int(name[-2:]) for name in names] == [1, 1, 1, 2, 2, 1]


def test_streams_that_join_twice_are_repartitioned_once() -> None:
    """Also a stream with itself; a join with a name has a topic of its own."""
    builder = StreamsBuilder()
    table = builder.table("t", "T")
    stream = builder.stream("l").select_key(lambda key, value: value)
    stream.join(table, lambda one, other: f"{one}+{other}").to("o")
    stream.left_join(table, lambda one, other: f"{one}-{other}").to("p")
    window = JoinWindows.of_time_difference_with_no_grace(10)
    stream.join(stream, lambda one, other: f"{one}*{other}", window).to("q")
    named = Joined.as_("mine")
    stream.join(table, lambda one, other: f"{one}/{other}", options=named).to("r")
    assert sorted(builder.build().repartition_topics) == [
        "KSTREAM-KEY-SELECT-0000000003-repartition",
        "mine-repartition",
    ]
    results = run(builder, "t a 1 0", "l x a 1")
    assert sorted(results) == ["1 o a=a+1 @1", "1 p a=a-1 @1", "1 q a=a*a @1", "1 r a=a/1 @1"]


def test_wrong_windows_are_refused_in_kafkas_words() -> None:
    with pytest.raises(ValueError, match=r"Gap time cannot be negative\."):
        SessionWindows.of_inactivity_gap_with_no_grace(-1)
    with pytest.raises(ValueError, match=r"Grace period cannot be negative\."):
        SessionWindows.of_inactivity_gap_and_grace(1, -1)
    with pytest.raises(ValueError, match=r"Window grace period must not be negative\."):
        SlidingWindows.of_time_difference_and_grace(1, -1)
    with pytest.raises(ValueError, match="beforeMs\\+afterMs"):
        JoinWindows.of_time_difference_with_no_grace(5).before(-6)


def test_topics_of_two_sources_are_equal_or_have_nothing_in_common() -> None:
    builder = StreamsBuilder()
    builder.stream(["a", "b"])
    builder.stream("a")
    with pytest.raises(TopologyError, match="overlapping but not equal input topics"):
        builder.build()
