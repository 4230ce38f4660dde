"""The start page: figures, plots and what is wrong; the page of brokers."""

from collections.abc import Callable
from typing import Any

import pytest

from moldau.testing import Broker, Cluster
from tests.shared.waiting import wait_until


def test_rates_are_seen(console: Any, broker: Broker) -> None:
    broker.create_topic("orders", 2)
    page = console.get()
    assert "Brokers 1" in page.words
    assert "Topics 1 without internal ones Partitions 2 all in sync" in page.words
    assert "no group is left alone" in page.words

    def busy() -> Any:
        broker.produce("orders", b"x")
        found = console.get()
        return "records a second of orders" in found.text and found

    shown = wait_until(busy)
    assert "Records a second:" in shown.text
    brokers = console.get("/brokers").words
    assert "controller" in brokers
    assert "No replica is being moved" in brokers
    assert "led by its preferred replica" in brokers


@pytest.mark.slow
def test_a_broker_that_is_gone_is_named(make_console: Callable[..., Any]) -> None:
    with Cluster(2) as cluster:
        console = make_console(broker=cluster)
        console.post("/new-topic", name="orders", partitions="4", replicas="2")
        gone = next(each for each in cluster.running if each != cluster.controller_id)
        cluster.kill(gone)
        for path in ("/brokers", "/topics", "/topics/orders", "/groups"):
            assert console.get(path).status == 200, f"{path} does without the broker from the first moment on"
        page = wait_until(
            lambda: (found := console.get()) and f"broker {gone} is not there" in found.words and found,
            lambda: console.get().words,
        )
        assert "have one replica less" in page.words
        assert f"start broker {gone}" in page.words
        cluster.restart(gone)
        wait_until(lambda: "is not there" not in console.get().words, lambda: console.get().words)
