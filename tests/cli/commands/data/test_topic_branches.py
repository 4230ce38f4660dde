from pathlib import Path
from typing import Any

import click
import pytest

from moldau.cli.commands.data.topic_branches import offsets_of
from moldau.cli.reports.consume_table import remarks
from moldau.client.snapshots.time_travel import Table
from moldau.testing import Broker

NOW = 1_700_000_000_000
TIME = "2023-11-14T22:13:20"


def fill(broker: Broker, topic: str = "orders") -> None:
    broker.create_topic(topic, 2, {"retention.ms": -1})
    for number in range(10):
        broker.produce(
            topic, f"{number}", key=f"k{number % 3}", partition=number % 2, timestamp_ms=NOW + number
        )


def test_a_fork(broker: Broker, moldau: Any, moldau_json: Any) -> None:
    fill(broker)
    said = moldau("topics", "fork", "orders", "copy").stdout
    assert said.startswith("Forked orders as copy\n")
    assert [line.split() for line in said.splitlines() if line[-3:].strip().isdecimal()] == [
        ["0", "0", "5", "5", "5"],
        ["1", "0", "5", "5", "5"],
    ]
    made = moldau_json("topics", "fork", "orders", "old", "--at", f"@{NOW + 2}", "-c", "retention.ms=")
    assert (made["name"], made["source"], len(made["topic_id"])) == ("old", "orders", 22)
    assert [p["cut_offset"] for p in made["partitions"]] == [2, 1]
    (found,) = moldau_json("topics", "describe", "old")
    assert found["configs"] == {}
    made = moldau_json("topics", "fork", "orders", "cut", "--offset", "0:3")
    assert [p["end_offset"] for p in made["partitions"]] == [3, 5]
    assert moldau("consume", "cut", "-p", "0").stdout == "0\n2\n4\n"


def test_mistakes_are_one_line(broker: Broker, moldau: Any) -> None:
    fill(broker)
    assert (
        "exclude each other"
        in moldau("topics", "fork", "a", "b", "--at", "1", "--offset", "1", code=2).stderr
    )
    assert "--at" in moldau("topics", "fork", "a", "b", "--at", "noon", code=2).stderr
    assert "P:N" in moldau("topics", "fork", "--help").stdout
    assert "does not exist" in moldau("topics", "fork", "nope", "b", code=1).stderr
    assert "cannot be cut at 9" in moldau("topics", "fork", "orders", "b", "--offset", "9", code=1).stderr
    assert "PARTITION:OFFSET" in moldau("topics", "fork", "orders", "b", "--offset", "x", code=2).stderr


def test_offsets() -> None:
    assert offsets_of("7", 3) == {0: 7, 1: 7, 2: 7}
    assert offsets_of("0:1, 2:5", 3) == {0: 1, 2: 5}
    for text in ("", "a", "0:1,0:2", "0:", "1:-1"):
        with pytest.raises(click.UsageError):
            offsets_of(text, 3)


def test_there_and_back(broker: Broker, moldau: Any, moldau_json: Any, tmp_path: Path) -> None:
    fill(broker)
    target = str(tmp_path / "orders.tar.zst")
    said = moldau("topics", "snapshot", "orders", target)
    assert said.stdout.startswith(f"Wrote orders to {target}: 2 partition(s), 10 offsets, ")
    assert "replaces nothing" in moldau("topics", "snapshot", "orders", target, code=1).stderr
    assert "already exists" in moldau("topics", "restore", target, code=1).stderr
    restored = moldau("topics", "restore", target, "again")
    assert restored.stdout == "Restored again: 2 partition(s)\n"
    assert broker.records("again") == broker.records("orders")
    taken = moldau_json("topics", "snapshot", "orders", str(tmp_path / "d"), "--at", str(NOW + 2))
    assert [p["end_offset"] for p in taken["partitions"]] == [2, 1]
    made = moldau_json("topics", "restore", str(tmp_path / "d"), "old")
    assert [p["end_offset"] for p in made["partitions"]] == [2, 1]


def test_snapshots_that_cannot_be(broker: Broker, moldau: Any, tmp_path: Path) -> None:
    assert "does not exist" in moldau("topics", "snapshot", "nope", str(tmp_path / "x"), code=1).stderr
    assert list(tmp_path.iterdir()) == []
    assert "there is no snapshot" in moldau("topics", "restore", str(tmp_path / "x"), code=1).stderr
    (tmp_path / "x").write_text("nonsense")
    assert "cannot be read" in moldau("topics", "restore", str(tmp_path / "x"), code=1).stderr


def test_consume_as_of(broker: Broker, moldau: Any) -> None:
    fill(broker)
    assert sorted(moldau("consume", "orders", "--as-of", f"{TIME}.003Z").stdout.split()) == list("0123")
    assert moldau("consume", "orders", "--as-of", f"{TIME}.003Z", "-p", "0", "--from", "1").stdout == "2\n"
    nothing = moldau("consume", "orders", "--as-of", "2000-01-01T00:00:00Z")
    assert (nothing.stdout, nothing.stderr) == (
        "",
        "No records from earliest on in orders as of 2000-01-01T00:00:00Z\n",
    )
    for options in (
        ("--as-of", "now", "--follow"),
        ("--table", "--from", "latest"),
        ("--table", "--from", "3"),
    ):
        assert "not with" in moldau("consume", "orders", *options, code=2).stderr
    assert "--as-of" in moldau("consume", "orders", "--as-of", "noon", code=2).stderr


def test_consume_a_table(broker: Broker, moldau: Any) -> None:
    broker.create_topic("users")
    for number, (key, value) in enumerate([("a", "1"), ("b", "1"), ("a", "2"), (None, "x"), ("b", None)]):
        broker.produce("users", value, key=key, timestamp_ms=NOW + number)
    now = moldau("consume", "users", "--table", "--key", "--separator", "=")
    assert (now.stdout, now.stderr) == ("a=2\n", "1 records have no key and are not in the table\n")
    then = moldau("consume", "users", "--table", "--as-of", f"{TIME}.001Z", "--key", "--separator", "=")
    assert (then.stdout, then.stderr) == ("a=1\nb=1\n", "")
    assert moldau("consume", "users", "--table", "-n", "1", "--as-of", f"{TIME}.001Z").stdout == "1\n"


def test_remarks_tell_where_history_begins() -> None:
    from moldau.base.names import TopicPartition

    table = Table(complete_from={TopicPartition("t", 0): 0, TopicPartition("t", 1): 12})
    (line,) = remarks(table)
    assert line.startswith("t-1: complete from offset 12 on")
