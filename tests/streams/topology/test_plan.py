"""Topologies as graphs of plain values."""

from typing import Any

import pytest

from moldau.streams import StreamsBuilder
from moldau.streams.topology import plan as module
from moldau.streams.topology.plan import plan


def program() -> Any:
    builder = StreamsBuilder()
    counted = builder.stream("lines").group_by(lambda value: value).count("c")
    counted.to_stream().to("counts")
    return builder.build()


def test_sub_topologies_are_joined_by_their_topics() -> None:
    nodes = {each["id"]: each for each in plan(program(), lambda topic: f"app-{topic}")}
    between = next(each for each in nodes.values() if each["kind"] == "internal")
    assert between["topic"] == f"app-{between['label']}"
    seen, todo = set(), ["in:lines"]
    while todo:
        seen.add(each := todo.pop())
        todo += nodes[each]["after"]
    assert {"in:lines", between["id"], "out:counts"} <= seen == set(nodes)
    assert [each["stores"] for each in nodes.values() if each.get("stores")] == [["c"]]


def test_a_topic_that_is_read_and_written_is_no_circle() -> None:
    builder = StreamsBuilder()
    builder.stream("t").filter(lambda key, value: True).to("t")
    assert {each["id"] for each in plan(builder.build())} >= {"in:t", "out:t"}


def test_a_sink_with_a_topic_for_each_record_has_a_place() -> None:
    builder = StreamsBuilder()
    builder.stream("t").to(lambda key, value, context: "x")
    assert [each["label"] for each in plan(builder.build()) if each["kind"] == "sink"] == [
        "a topic for each record"
    ]


def test_a_program_that_is_too_large_has_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NODES", 2)
    assert plan(program()) == ()
