"""The list of topics and the form for a new one, over HTTP against a real broker."""

from collections.abc import Callable
from typing import Any

import pytest

from moldau.testing import Broker
from tests.shared.waiting import wait_until


@pytest.mark.slow
def test_topics_are_listed_searched_and_paged(console: Any, broker: Broker) -> None:
    assert "There is no topic yet" in console.get("/topics").words
    for number in range(55):
        broker.create_topic(f"stream-{number:02d}")
    broker.create_topic("orders", 3)
    for value in (b"a", b"bb"):
        broker.produce("orders", value, partition=1)
    first = wait_until(lambda: (page := console.get("/topics")) and "56 topics" in page.words and page)
    assert "1–50 of 56" in first.words
    second = console.get("/topics", page=1)
    assert "51–56 of 56" in second.words
    assert "stream-54" in second.text
    assert console.get("/topics", page=99).words == second.words
    found = console.get("/topics", q="ORD")
    assert "1 topic" in found.words
    assert "orders 3 1 2" in found.words  # partitions, replicas, records
    assert "No topic fits “&lt;x&gt;”" in console.get("/topics", q="<x>").text
    by_size = console.get("/topics", sort="size").text
    assert by_size.index("orders") < by_size.index("stream-00")


def test_a_form_that_the_cluster_refuses_keeps_what_was_typed(console: Any, broker: Broker) -> None:
    refused = console.post(
        "/new-topic", name="t", partitions="2", cleanup="compact", retention="24", configs="retention.ms=soon"
    )
    assert (refused.status, "INVALID_CONFIG" in refused.words) == (502, True)
    for typed in ('value="t"', 'value="2"', 'value="24"', "retention.ms=soon", 'value="compact" selected'):
        assert typed in refused.text
    assert broker.topics() == []


def test_a_topic_is_made_by_the_form(console: Any, broker: Broker) -> None:
    made = console.post(
        "/new-topic",
        name="team.orders",
        partitions="2",
        cleanup="compact",
        retention="24",
        configs="max.message.bytes=2000000\n",
    )
    assert made.status == 200
    assert "Topic team.orders is there." in made.words
    configs = console.get("/topics/team.orders/configs").words
    assert "compact" in configs
    assert "86400000" in configs
    assert "2000000" in configs
    assert "team.orders" in broker.topics()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "a b"}, "characters other than"),
        ({"name": "ok", "partitions": "many"}, "whole number"),
        ({"name": "ok", "partitions": "0"}, "at least 1"),
        ({"name": "ok", "retention": "soon"}, "number of hours"),
        ({"name": "ok", "configs": "nonsense"}, "name=value"),
        ({"name": "<script>boom()</script>"}, "characters other than"),
    ],
)
def test_bad_input_is_refused(console: Any, broker: Broker, fields: dict[str, str], words: str) -> None:
    page = console.post("/new-topic", **fields)
    assert page.status == 400
    assert words in page.words
    assert "<script>boom" not in page.text
    if fields["name"] == "ok":
        assert 'value="ok"' in page.text  # what was typed is still there
    assert broker.topics() == []


def test_the_broker_may_refuse_too(console: Any) -> None:
    page = console.post("/new-topic", name="t", replicas="3")
    assert page.status == 502
    assert "INVALID_REPLICATION_FACTOR" in page.words
    assert "cannot have more replicas" in page.words


def test_a_rule_of_the_house(make_console: Callable[..., Any]) -> None:
    console = make_console(topic_pattern=r"[a-z]+\.[a-z]+", topic_rule="begin with the team: team.name")
    assert "begin with the team" in console.get("/new-topic").words
    assert "begin with the team" in console.post("/new-topic", name="orders").words
    assert console.post("/new-topic", name="shop.orders").status == 200
