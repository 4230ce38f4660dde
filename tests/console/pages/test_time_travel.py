"""A topic as it was: records and keys at a time, and forks."""

from collections.abc import Callable
from typing import Any

from moldau.testing import Broker


def test_tables_and_forks(console: Any, broker: Broker) -> None:
    for number, (key, value) in enumerate([("a", "1"), ("b", "2"), ("a", "3"), ("b", None)]):
        broker.produce("t", value, key=key, timestamp_ms=1_000_000 + number * 1_000)
    at = "1970-01-01T00:16:41.500Z"
    page = console.get("/topics/t/time-travel", at=at, show="table")
    assert "2 keys" in page.words
    assert "a 1 " in page.words
    assert "b 2 " in page.words
    later = console.get("/topics/t/time-travel", at="now", show="table").words
    assert "1 keys" in later
    assert "a 3 " in later
    records = console.get("/topics/t/time-travel", at=at, show="records").words
    assert "a 1" in records
    assert "a 3" not in records
    assert console.get("/topics/t/time-travel", at="whenever").status == 400
    made = console.post("/topics/t/time-travel", name="t-then", at=at)
    assert "t-then is a fork of t" in made.words
    assert len(broker.records("t-then")) == 2
    assert console.post("/topics/t/time-travel", name="t-then").status == 400
    refused = console.post("/topics/t/time-travel", name="a b", at="5m ago")
    assert refused.status == 400
    assert 'value="a b"' in refused.text
    assert 'value="5m ago"' in refused.text


def test_a_fork_shows_nothing_that_is_hidden(make_console: Callable[..., Any], broker: Broker) -> None:
    broker.produce("people", b'{"card": "4111"}')
    console = make_console(masks=["people*:value.card", "people:key"])
    refused = console.post("/topics/people/time-travel", name="mine")
    assert (refused.status, "Something in this topic is hidden" in refused.words) == (400, True)
    assert console.post("/topics/people/time-travel", name="people-2").status == 400
    assert broker.topics() == ["people"]
