"""moldau transactions, with a real producer that forgets to end what it began."""

from typing import Any

import click
import pytest
from confluent_kafka import KafkaException, Producer

from moldau.cli.commands.data.transactions import age_text, parse_duration
from moldau.testing import Broker

PATIENCE_SECONDS = 30


def begin(broker: Broker, transactional_id: str) -> Producer:
    """A producer with an open transaction that has written one record."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": transactional_id, "log_level": 0}
    )
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    producer.produce("orders", b"v", partition=1)
    producer.flush(PATIENCE_SECONDS)
    return producer


@pytest.fixture
def forgotten(broker: Broker) -> Producer:
    broker.create_topic("orders", 2)
    done = begin(broker, "refunds")
    done.commit_transaction(PATIENCE_SECONDS)
    return begin(broker, "payments")


def test_list(moldau: Any, moldau_json: Any, forgotten: Producer) -> None:
    payments, refunds = moldau_json("transactions", "list")
    assert (payments["transactional_id"], payments["state"]) == ("payments", "Ongoing")
    assert (payments["coordinator_id"], payments["partitions"]) == (1, 1)
    assert payments["start_ms"] > 0
    assert (refunds["transactional_id"], refunds["state"]) == ("refunds", "CompleteCommit")
    assert "start_ms" not in refunds
    table = [line.split() for line in moldau("transactions", "list").stdout.splitlines()]
    assert ["payments", "Ongoing"] in [cells[:2] for cells in table]
    assert ["refunds", "CompleteCommit"] in [cells[:2] for cells in table]


def test_list_what_was_forgotten(broker: Broker, moldau: Any, moldau_json: Any, forgotten: Producer) -> None:
    def ids(*words: str) -> list[str]:
        return [row["transactional_id"] for row in moldau_json("transactions", "list", *words)]

    assert ids("--open") == ["payments"]
    assert ids("--older-than", "10m") == []
    broker.clock.advance(20)
    assert ids("--older-than", "10s") == ["payments"]
    assert ids("--pattern", "ref.*") == ["refunds"]
    assert "is not a time" in moldau("transactions", "list", "--older-than", "soon", code=2).stderr


def test_describe(moldau: Any, moldau_json: Any, forgotten: Producer) -> None:
    payments, refunds = moldau_json("transactions", "describe", "payments", "refunds")
    # The record and the commit marker of refunds lie before it.
    assert payments["partitions"] == [{"topic": "orders", "partition": 1, "start_offset": 2}]
    assert payments["timeout_ms"] == 60_000
    assert (refunds["partitions"], refunds["age_ms"]) == ([], None)
    shown = moldau("transactions", "describe", "payments").stdout
    assert shown.startswith("payments: Ongoing, producer id ")
    assert ["orders", "1", "2"] in [line.split() for line in shown.splitlines()]


def test_abort_ends_it_and_fences_the_producer(moldau: Any, moldau_json: Any, forgotten: Producer) -> None:
    said = moldau("transactions", "abort", "payments", input="y\n").stdout
    assert "Aborted payments: producer id " in said
    assert moldau_json("transactions", "list", "--open") == []
    with pytest.raises(KafkaException, match="_FENCED"):
        forgotten.commit_transaction(PATIENCE_SECONDS)
    (again,) = moldau_json("transactions", "abort", "payments", "--yes")
    assert again["aborted"] is False
    assert (
        "Nothing to abort for payments: it is in state"
        in moldau("transactions", "abort", "payments", "-y").stdout
    )


def test_mistakes_change_nothing(moldau: Any, moldau_json: Any, forgotten: Producer) -> None:
    moldau("transactions", "abort", "payments", input="n\n", code=1)
    assert "no producer has used the transactional id 'nope'" in (
        moldau("transactions", "abort", "payments", "nope", "--yes", code=1).stderr
    )
    moldau("transactions", "describe", "nope", code=1)
    rows = moldau_json("transactions", "list")
    assert [row["transactional_id"] for row in rows] == ["payments", "refunds"]
    assert rows[0]["state"] == "Ongoing"


@pytest.mark.parametrize(
    ("age_ms", "text"),
    [(-5, "0ms"), (999, "999ms"), (61_000, "1m 1s"), (3_600_000, "1h"), (90_061_000, "1d 1h")],
)
def test_age(age_ms: int, text: str) -> None:
    assert age_text(age_ms) == text


def test_durations() -> None:
    assert [parse_duration(text) for text in ("500ms", "10m", "1.5h")] == [500, 600_000, 5_400_000]
    for wrong in ("", "10", "10m ago", "2026-01-31"):
        with pytest.raises(click.BadParameter):
            parse_duration(wrong)
