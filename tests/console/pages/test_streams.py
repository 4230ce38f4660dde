"""Streams of events: a search with its progress, a live tail, and their end."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.testing import Broker
from tests.shared.waiting import wait_until


def events(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    name, data = "", []
    for line in lines:
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            data.append(line[6:])
        elif not line and name:
            yield name, "\n".join(data)
            name, data = "", []


def test_a_search_tells_its_progress(console: Any, broker: Broker) -> None:
    broker.create_topic("orders", 2)
    for number in range(50):
        broker.produce("orders", json.dumps({"id": number}), partition=number % 2)
    url = "/c/local/topics/orders/messages/search"
    with console.http.stream("GET", url, params={"filter": "value.id >= 45", "from": "earliest"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = list(events(answer.iter_lines()))
    rows = "".join(text for name, text in found if name == "rows")
    assert rows.count("<tr>") == 5
    last = [json.loads(text) for name, text in found if name == "progress"][-1]
    assert last == {"words": "50 records looked at, 5 fit", "share": 1.0}
    assert found[-1] == ("end", "50 records looked at, 5 fit; everything was looked at.")


def test_a_search_that_was_cut_says_where_it_goes_on(
    console: Any, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.console.pages.streams._SEARCH_MOST", 3)
    for number in range(5):
        broker.produce("orders", json.dumps({"id": number}))
    url = "/c/local/topics/orders/messages/search"
    with console.http.stream("GET", url, params={"filter": "value.id >= 0"}) as answer:
        found = dict(events(answer.iter_lines()))
    assert found["more"] == "/c/local/topics/orders/messages?filter=value.id+%3E%3D+0&at=0%3A3"
    assert "stopped after 3 records that fit" in found["end"]


def test_too_many_streams_are_refused_in_words(
    console: Any, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser takes a connection that breaks for a reason to try again, and again."""
    monkeypatch.setattr("moldau.console.pages.streams.MAX_STREAMS", 0)
    broker.create_topic("orders")
    with console.http.stream("GET", "/c/local/topics/orders/messages/tail") as answer:
        ((name, words),) = events(answer.iter_lines())
    assert (name, "close some" in words) == ("end", True)


def test_a_page_asks_for_its_stream(console: Any, broker: Broker) -> None:
    broker.produce("orders", b"x")
    page = console.get("/topics/orders/messages", filter="offset >= 0").text
    assert 'data-stream="/c/local/topics/orders/messages/search?filter=offset+%3E%3D+0"' in page
    live = console.get("/topics/orders/messages", live="true").text
    assert 'data-stream="/c/local/topics/orders/messages/tail"' in live


@pytest.mark.slow
def test_a_live_tail_shows_what_comes(console: Any, broker: Broker) -> None:
    broker.produce("orders", b"before")
    url = "/c/local/topics/orders/messages/tail"
    with console.http.stream("GET", url) as answer:
        stream = events(answer.iter_lines())
        assert "waiting" in next(stream)[1]
        # The reader begins at the end as it is then; a record that came before it did is not shown.
        shown = ""
        number = 0
        while "<tr>" not in shown:
            broker.produce("orders", f"after <b>{number}</b>".encode())
            number += 1
            name, text = next(stream)
            shown += text if name == "rows" else ""
        assert "after &lt;b&gt;" in shown
        assert "before" not in shown


def test_a_reader_that_goes_ends_its_stream(console: Any, broker: Broker) -> None:
    broker.create_topic("orders")
    with console.http.stream("GET", "/c/local/topics/orders/messages/tail") as answer:
        next(events(answer.iter_lines()))
    # A console that stops waits for its streams: the end of this test would be late if this one stayed.
    assert wait_until(lambda: console.get("/topics").status == 200)


def test_wrong_filters_are_refused_before_the_stream(console: Any, broker: Broker) -> None:
    broker.create_topic("orders")
    for kind in ("search", "tail"):
        assert console.get(f"/topics/orders/messages/{kind}", filter="(((").status == 400
