"""One topic: partitions, configs, its groups, and changes that cannot be made by mistake."""

from typing import Any

import pytest

from moldau.testing import Broker


def test_partitions_and_configs(console: Any, broker: Broker) -> None:
    broker.create_topic("orders", 2, {"retention.ms": "3600000"})
    broker.produce("orders", b"x", partition=1)
    page = console.get("/topics/orders")
    assert "Records 1" in page.words
    configs = console.get("/topics/orders/configs").words
    assert "retention.ms" in configs
    assert "60 min" in configs
    assert "set here" in configs
    assert "604800000" in configs  # the default, beside it
    changed = console.post("/topics/orders/configs", config="retention.ms", value="7200000", action="set")
    assert "retention.ms is 7200000 now." in changed.words
    reset = console.post("/topics/orders/configs", config="retention.ms", action="reset")
    assert "back at its default" in reset.words
    refused = console.post("/topics/orders/configs", config="retention.ms", value="soon", action="set")
    assert (refused.status, "INVALID_CONFIG" in refused.words) == (502, True)
    assert 'value="soon"' in refused.text


def test_a_topic_that_is_not_there(console: Any) -> None:
    page = console.get("/topics/nowhere")
    assert page.status == 404
    assert "There is no topic nowhere" in page.words


def test_many_partitions_and_groups_have_pages(
    console: Any, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.console.pages.topic._PAGE", 2)
    broker.create_topic("wide", 3)
    first, second = console.get("/topics/wide"), console.get("/topics/wide", page=1)
    assert "1–2 of 3" in first.words
    assert "partition=1" in first.text
    assert "partition=2" not in first.text
    assert "partition=2" in second.text
    assert "partition=1" not in second.text


def test_partitions_can_be_added(console: Any, broker: Broker) -> None:
    broker.create_topic("t")
    assert "t has 3 partitions now" in console.post("/topics/t/partitions", partitions="3").words
    assert "INVALID_PARTITIONS" in console.post("/topics/t/partitions", partitions="2").words


def test_nothing_is_deleted_without_its_name(console: Any, broker: Broker) -> None:
    broker.produce("t", b"x")
    for action in ("empty", "delete"):
        page = console.post(f"/topics/t/{action}", name="other")
        assert page.status == 400
        assert "Nothing was deleted" in page.words
    assert len(broker.records("t")) == 1
    assert "The records of t are deleted" in console.post("/topics/t/empty", name="t").words
    assert broker.records("t") == []
    assert "Topic t is deleted" in console.post("/topics/t/delete", name="t").words
    assert broker.topics() == []
