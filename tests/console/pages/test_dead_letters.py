"""Dead letters are told from other records, shown with their reasons as text, and sent again."""

from collections.abc import Callable
from typing import Any

import pytest

from moldau.console.pages.dead_letters import failure_of
from moldau.testing import Broker

CONNECT = [
    ("mine", b"kept"),
    ("__connect.errors.topic", b"orders"),
    ("__connect.errors.partition", b"0"),
    ("__connect.errors.offset", b"7"),
    ("__connect.errors.connector.name", b"files"),
    ("__connect.errors.stage", b"VALUE_CONVERTER"),
    ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
    ("__connect.errors.exception.message", b"<script>boom()</script>"),
]


@pytest.fixture
def letters(broker: Broker) -> Broker:
    broker.create_topic("orders")
    broker.create_topic("dead")
    broker.produce("dead", b"one", key=b"k", headers=CONNECT)
    broker.produce("dead", b"two", headers=[("moldau.topic", b"orders"), ("moldau.error", b"no price")])
    broker.produce("dead", b"no letter")
    broker.produce("dead", b"three", headers=[("moldau.topic", b"gone"), ("moldau.error", b"x")])
    return broker


def test_what_headers_tell() -> None:
    found = failure_of({name: data.decode() for name, data in CONNECT})
    assert found is not None
    assert (found.topic, found.partition, found.offset) == ("orders", "0", "7")
    assert (found.who, found.why) == ("files, VALUE_CONVERTER", "DataException: <script>boom()</script>")
    ours = failure_of({"moldau.topic": "orders", "moldau.error": "no price"})
    assert ours is not None
    assert ours.why == "no price"
    assert failure_of({"other": "x"}) is None


def test_shown_and_sent_again(letters: Broker, make_console: Callable[..., Any]) -> None:
    console = make_console()
    page = console.get("/topics/dead/dead-letters")
    assert "files, VALUE_CONVERTER" in page.words
    assert "no price" in page.words
    assert "3 of the newest records" in page.words
    assert "<script>boom" not in page.text
    ticked = {"r0@0": "1", "r0@1": "1"}
    done = console.post("/topics/dead/dead-letters", **ticked)
    assert "2 records were sent again" in done.words
    sent = letters.records("orders")
    assert [(each.key, each.value) for each in sent] == [(b"k", b"one"), (None, b"two")]
    assert [name for name, _ in sent[0].headers] == ["mine"], "the failure is over"
    assert len(letters.records("dead")) == 4
    assert "try again" in console.get("/audit").words


@pytest.mark.parametrize(
    ("ticked", "said"),
    [
        ({}, "Nothing is ticked"),
        ({"r0@99": "1"}, "not there any more"),
        ({"r0@2": "1"}, "does not say where it came from"),
        ({"r0@3": "1"}, "gone"),
        ({"r0@x": "1"}, "no place of a record"),
    ],
)
def test_what_cannot_be_sent(
    ticked: dict[str, str], said: str, letters: Broker, make_console: Callable[..., Any]
) -> None:
    page = make_console().post("/topics/dead/dead-letters", **ticked)
    assert (page.status, said in page.words) == (400, True), page.words


def test_masks_and_read_only_consoles_hold(letters: Broker, make_console: Callable[..., Any]) -> None:
    masked = make_console(masks=["dead:value.x"]).post("/topics/dead/dead-letters", **{"r0@0": "1"})
    assert "hidden" in masked.words
    read_only = make_console(read_only=True)
    assert "Try again" not in read_only.get("/topics/dead/dead-letters").words
    page = read_only.post("/topics/dead/dead-letters", "/sql", **{"r0@0": "1"})
    assert page.status == 403
    assert letters.records("orders") == []
