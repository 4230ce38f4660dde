"""Statuses of queries, as whoever may write them."""

import json
from typing import Any

import pytest

from moldau.console.seen.statuses import TOPIC, Statuses, parsed, plan_of, read_status
from moldau.spark.query.listener import PIPELINES_TOPIC
from moldau.spark.query.progress import FAILED, RUNNING, STARTING, STOPPED, QueryStatus
from moldau.streams import StreamsBuilder
from moldau.streams.topology.plan import plan


def as_read(status: QueryStatus, time_ms: int = 1_000) -> Any:
    return read_status(status.name, time_ms, parsed(json.dumps(status.to_json()).encode()))


def test_what_a_query_writes_is_what_is_read() -> None:
    assert TOPIC == PIPELINES_TOPIC
    builder = StreamsBuilder()
    builder.stream("lines").to("copies")
    status = QueryStatus(
        "shop-totals",
        group="g",
        host="h",
        state=RUNNING,
        batch_id=4,
        rows=90,
        processed_rows_per_second=12.5,
        batch_duration_ms=321,
        lag=({"orders": 5}, {"orders": 2, "users": 1}),
        late_rows=3,
        dropped={"late": 3},
        kind="streams",
        pipeline="shop",
        output="topic totals",
        state_rows=7,
        state_bytes=700,
        plan=plan(builder.build()),
        error="no",
    )
    read = as_read(status)
    assert (read.name, read.kind, read.state, read.pipeline, read.group) == (
        "shop-totals", "streams", "running", "shop", "g",
    )  # fmt: skip
    assert (read.batch_id, read.rows, read.rows_per_second, read.batch_ms) == (4, 90, 12.5, 321)
    assert (read.lag, read.total_lag) == ({"orders": 7, "users": 1}, 8)
    assert (read.late_rows, read.dropped, read.state_rows, read.error) == (3, {"late": 3}, 7, "no")
    assert [node.label for node in plan_of(read)] == ["lines", "copies"]


@pytest.mark.parametrize("state", [STARTING, RUNNING, STOPPED, FAILED])
def test_a_query_that_should_speak_and_does_not_is_silent(state: str) -> None:
    read = as_read(QueryStatus("q", state=state), 1_000)
    assert read.silent_ms(50_000) == 0
    assert bool(read.silent_ms(90_000)) == (state in (STARTING, RUNNING))


def test_a_query_of_spark_stands_between_its_topics() -> None:
    read = as_read(QueryStatus("q", state=RUNNING, lag=({"a": 0, "b": 1},), output="topic c"))
    assert [(node.label, node.topic, node.after) for node in plan_of(read)] == [
        ("a", "a", ("query",)),
        ("b", "b", ("query",)),
        ("q", "", ("out",)),
        ("c", "c", ()),
    ]
    assert [node.kind for node in plan_of(as_read(QueryStatus("q")))] == ["processor"]


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"[]", b"7", b"null", b'{"state": 1}', b"[" * 100_000, b"\xff"],
)
def test_what_is_no_status_is_left_out(value: bytes) -> None:
    statuses = Statuses()
    statuses.take(1, b"q", parsed(value))
    assert not statuses.queries


@pytest.mark.parametrize(
    "wrong", ["x", [1], {"a": "b"}, -1, 1e300, float("nan"), None, True, [[]], [{"id": 1}]]
)
def test_wrong_values_are_not_known(wrong: Any) -> None:
    names = set(QueryStatus.__dataclass_fields__) - {"name", "state"}
    read = read_status("q", 1, {"state": "running", **dict.fromkeys(names, wrong)})
    assert read is not None
    assert read.rows_per_second is None
    assert read.plan == ()


def test_the_newest_counts_and_the_others_are_its_history() -> None:
    statuses = Statuses()
    statuses.begin("one")
    for time, lag in ((1, 5), (2, 3)):
        value = QueryStatus("q", state=RUNNING, lag=({"t": lag},)).to_json()
        statuses.take(time, b"q", value)
    assert statuses.queries["q"].status.total_lag == 3
    assert statuses.queries["q"].lag.points == [(1, 5), (2, 3)]
    statuses.positions[0] = 2
    statuses.begin("one")
    assert statuses.queries
    statuses.begin("made again")
    assert not statuses.queries
    assert not statuses.positions


def test_a_tombstone_forgets_a_query_and_their_number_is_bounded() -> None:
    statuses = Statuses()
    for number in range(1_200):
        statuses.take(1, b"q%d" % number, {"state": "running"})
    assert len(statuses.queries) == 1_000
    statuses.take(2, b"q1199", None)
    assert "q1199" not in statuses.queries
