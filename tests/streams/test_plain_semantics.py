"""``semantics="plain"``: five rules of Kafka Streams that look like defects, with and without them."""

from typing import Any

import pytest

from moldau.streams import (
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    StreamsError,
    Suppressed,
    TestDriver,
    TimeWindows,
    Windowed,
)


def results(builder: StreamsBuilder, *records: tuple[str, str, Any, int]) -> list[tuple[Any, Any]]:
    driver = TestDriver(builder.build())
    return [
        (output.key, output.value)
        for topic, key, value, timestamp in records
        for output in driver.pipe_input(topic, key, value, timestamp)
    ]


def test_a_session_lives_as_long_as_a_record_may_belong_to_it() -> None:
    def run(semantics: Any) -> Any:
        builder = StreamsBuilder(semantics=semantics)
        windows = SessionWindows.of_inactivity_gap_with_no_grace(10)
        builder.stream("in").group_by_key().windowed_by(windows).count("c").to_stream().to("out")
        return results(builder, ("in", "a", 1, 0), ("in", "b", 1, 10), ("in", "a", 1, 0))[-1]

    assert run("kafka") == (Windowed("a", 0, 0), 1)
    assert run("plain") == (Windowed("a", 0, 0), 2)


def test_a_window_is_sent_however_far_time_jumps() -> None:
    def run(semantics: Any) -> Any:
        builder = StreamsBuilder(semantics=semantics)
        windows = builder.stream("in").group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10))
        windows.emit_strategy(EmitStrategy.on_window_close()).count("c").to_stream().to("out")
        return results(builder, ("in", "a", 1, 0), ("in", "a", 1, 500), ("in", "a", 1, 900))

    assert run("kafka") == []
    assert run("plain") == [(Windowed("a", 0, 10), 1), (Windowed("a", 500, 510), 1)]


def test_unmatched_records_go_out_with_the_first_that_is_late_enough() -> None:
    def run(semantics: Any) -> Any:
        builder = StreamsBuilder(semantics=semantics)
        windows = JoinWindows.of_time_difference_with_no_grace(0).after(100)
        left, right = builder.stream("l"), builder.stream("r")
        left.outer_join(right, lambda one, other: f"{one}+{other}", windows).to("out")
        return results(builder, ("r", "a", "R", 0), ("l", "b", "L", 50), ("l", "b", "M", 60))

    assert run("kafka") == []
    assert run("plain") == [("a", "None+R")]


def test_a_table_joined_with_itself_speaks_once() -> None:
    def run(semantics: Any) -> Any:
        builder = StreamsBuilder(semantics=semantics)
        table = builder.table("t", "T")
        table.join(table, lambda one, other: one + other, "J").to_stream().to("out")
        return results(builder, ("t", "a", "x", 0), ("t", "a", None, 1))

    assert run("kafka") == [("a", "xx"), ("a", "xx")]
    assert run("plain") == [("a", "xx"), ("a", None)]


def test_a_sliding_window_is_closed_after_its_end() -> None:
    def run(semantics: Any) -> Any:
        builder = StreamsBuilder(semantics=semantics)
        windows = SlidingWindows.of_time_difference_with_no_grace(10)
        counts = builder.stream("in").group_by_key().windowed_by(windows).count("c")
        counts.suppress(Suppressed.until_window_closes()).to_stream().to("out")
        records = [("in", "a", 1, time) for time in (20, 25, 36, 60)]
        found = results(builder, *records)
        return len(found) - len(dict(found))

    assert run("kafka") == 1
    assert run("plain") == 0


def test_a_sliding_window_may_be_a_moment() -> None:
    builder = StreamsBuilder(semantics="plain")
    windows = SlidingWindows.of_time_difference_with_no_grace(0)
    builder.stream("in").group_by_key().windowed_by(windows).count("c").to_stream().to("out")
    assert results(builder, ("in", "a", 1, 5)) == [(Windowed("a", 5, 5), 1)]
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().windowed_by(windows).count("c")
    with pytest.raises(StreamsError):
        results(builder, ("in", "a", 1, 5))
