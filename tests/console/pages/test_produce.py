"""Records written by hand, and sent again."""

import json
from collections.abc import Callable
from typing import Any

from moldau.testing import Broker


def test_a_record_is_sent(console: Any, broker: Broker) -> None:
    broker.create_topic("t", 2)
    page = console.post(
        "/topics/t/produce", key="k", form="json", value='{"a":  1}', headers="trace=7\n\nb=", partition="1"
    )
    assert "Sent: partition 1, offset 0." in page.words
    (record,) = broker.records("t", 1)
    assert (record.key, record.value) == (b"k", b'{"a":1}')
    assert [(name, bytes(value)) for name, value in record.headers] == [("trace", b"7"), ("b", b"")]
    console.post("/topics/t/produce", form="null", value="ignored", key="k", partition="1")
    assert broker.records("t", 1)[1].value is None


def test_what_is_wrong_is_said_and_what_was_typed_stays(console: Any, broker: Broker) -> None:
    broker.create_topic("t")
    for fields, words in (
        ({"form": "json", "value": "{x"}, "no JSON"),
        ({"form": "text", "value": "v", "headers": "oops"}, "name=value"),
        ({"form": "text", "value": "v", "partition": "7"}, "partition"),
        ({"form": "schema", "value": "1"}, "knows no schema registry"),
        ({"form": "text", "value": "x" * 1_100_000}, "MESSAGE_TOO_LARGE"),
    ):
        page = console.post("/topics/t/produce", key="typed", **fields)
        assert page.status == 400, page.words[:500]
        assert words in page.words
        assert 'value="typed"' in page.text
    assert broker.records("t") == []


def test_a_record_is_sent_again_byte_by_byte(console: Any, broker: Broker) -> None:
    broker.create_topic("other")
    broker.produce("t", b"\x00\xff", key=b"\xfe", headers=(("h", b"\x01"),))
    page = console.post("/topics/t/messages/again", partition="0", offset="0", to="other")
    assert "Sent again: other, partition 0, offset 0." in page.words
    (record,) = broker.records("other")
    assert (bytes(record.value), bytes(record.key)) == (b"\x00\xff", b"\xfe")
    gone = console.post("/topics/t/messages/again", partition="0", offset="9", to="other")
    assert "not there any more" in gone.words
    missing = console.post("/topics/t/messages/again", partition="0", offset="0", to="nowhere")
    assert missing.status == 404
    assert broker.topics() == ["other", "t"]
    assert json.dumps("send again").strip('"') in console.get("/audit").words


def test_json_that_only_python_takes_is_refused(console: Any, broker: Broker) -> None:
    broker.create_topic("t")
    for wrong in ('{"a": NaN}', "[1e999]"):
        page = console.post("/topics/t/produce", form="json", value=wrong)
        assert (page.status, "no JSON" in page.words) == (400, True)
    sent = console.post("/topics/t/produce", form="json", value='{"a": "\\ud800"}')
    assert "Sent: partition 0, offset 0" in sent.words
    assert broker.records("t")[0].value == b'{"a":"\\ud800"}'


def test_a_registry_that_is_away_costs_nothing_that_was_typed(
    make_console: Callable[..., Any], broker: Broker
) -> None:
    broker.create_topic("t")
    console = make_console(schema_registry="http://127.0.0.1:9")
    page = console.post("/topics/t/produce", form="schema", key="k1", value='{"id": 8}')
    assert (page.status, "cannot be reached" in page.words) == (400, True)
    assert 'value="k1"' in page.text
    assert "{&quot;id&quot;: 8}</textarea>" in page.text
