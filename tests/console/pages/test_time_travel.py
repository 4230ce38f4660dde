"""A topic as it was: records and keys at a time, and forks."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.client.snapshots.files import read_snapshot
from moldau.console.pages import time_travel
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


def test_a_snapshot_is_a_file_that_can_be_read(console: Any, broker: Broker, tmp_path: Path) -> None:
    for at_ms in (1_000_000, 2_000_000):
        broker.produce("t", b"x", timestamp_ms=at_ms)
    assert "Download the snapshot" in console.get("/topics/t/time-travel").text

    def ends(**parameters: str) -> list[int]:
        answer = console.get("/topics/t/time-travel/snapshot", **parameters)
        assert answer.response.headers["content-disposition"].endswith("t.tar.zst")
        (tmp_path / "t.tar.zst").write_bytes(answer.response.content)
        files = dict(read_snapshot(str(tmp_path / "t.tar.zst")))
        return [each["log_end_offset"] for each in json.loads(files["manifest.json"])["partitions"]]

    assert ends() == [2]
    assert ends(at="1970-01-01T00:20:00Z") == [1]
    assert console.get("/topics/t/time-travel/snapshot", at="whenever").status == 400
    assert "snapshot" in console.get("/audit").words


def test_a_snapshot_has_a_bound_and_shows_nothing_that_is_hidden(
    make_console: Callable[..., Any], broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.produce("people", b'{"card": "4111"}')
    hidden = make_console(masks=["people:value.card"])
    assert "Take a snapshot" not in hidden.get("/topics/people/time-travel").words
    refused = hidden.get("/topics/people/time-travel/snapshot")
    assert (refused.status, "is hidden" in refused.words) == (400, True)
    monkeypatch.setattr(time_travel, "_SNAPSHOT_BYTES", 10)
    large = make_console().get("/topics/people/time-travel/snapshot")
    assert (large.status, "takes larger ones" in large.words) == (400, True)
