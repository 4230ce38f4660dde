"""``moldau lag`` against a broker: a group whose consumer is gone is seen, and said so by ``groups why``."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from moldau.base.clock import SteppedClock
from moldau.base.http_server import Request
from moldau.base.names import TopicPartition
from moldau.cli.monitoring.lag_monitor import LagMonitor, read_history
from moldau.client.admin.admin import raise_errors
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.metrics.lag.evaluation import Status
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.testing import Broker

PLACE = TopicPartition("orders", 0)


async def commit(cluster: Cluster, offset: int) -> None:
    raise_errors(await Groups(cluster).commit("billing", {PLACE: CommittedOffset(offset)}))


@pytest.fixture
def history(broker: Broker, tmp_path: Path) -> Path:
    """A group that has committed three times, and then no more, while records came."""
    path = tmp_path / "lag.jsonl"
    clock = SteppedClock(frozen=True)
    broker.create_topic("orders", 1)

    async def play() -> LagMonitor:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            monitor = LagMonitor(cluster, clock, path, lambda text: None)
            for round_ in range(8):
                await asyncio.to_thread(broker.produce, "orders", b"v")
                if round_ < 3:
                    await commit(cluster, round_)
                await monitor.look()
                clock.advance(10)
            page = await monitor.answer(Request("GET", "/v3/kafka/local/consumer/billing/lag", {}, {}))
            described = json.loads(page.body)["status"]
            assert (described["status"], described["totallag"]) == ("ERR", 6)
            assert described["partitions"][0]["status"] == "STOP"
            scraped = (await monitor.answer(Request("GET", "/metrics", {}, {}))).body.decode()
            assert 'moldau_lag_partition_status{group="billing",topic="orders",partition="0"} 5' in scraped
            listed = await monitor.answer(Request("GET", "/v3/kafka/local/consumer", {}, {}))
            assert json.loads(listed.body)["consumers"] == ["billing"]
            monitor.history.take("a b/č", {}, 0)
            odd = await monitor.answer(Request("GET", "/v3/kafka/local/consumer/a%20b%2F%C4%8D/lag", {}, {}))
            assert odd.status == 200
            missing = await monitor.answer(Request("GET", "/v3/kafka/local/consumer/nobody/lag", {}, {}))
            assert missing.status == 404
            return monitor

    asyncio.run(play())
    return path


def test_what_was_seen_survives_a_restart(history: Path) -> None:
    assert len(read_history(history).window("billing", PLACE)) == 3
    history.rename(history.with_name(history.name + ".1"))
    assert len(read_history(history).window("billing", PLACE)) == 3


def test_groups_why_tells_what_the_monitor_has_seen(
    history: Path, moldau: Callable[..., Result], moldau_json: Callable[..., Any]
) -> None:
    shown = moldau("groups", "why", "billing", "--watch", "0", "--history", str(history)).output
    assert "STOP over time" in shown
    assert "start a consumer of this group again" in shown
    nothing = history.with_name("empty")
    nothing.write_text("")
    found = moldau_json("groups", "why", "billing", "--watch", "0", "--history", str(nothing))
    assert found[-1]["severity"] == "note"


def test_a_monitor_outlives_its_cluster(broker: Broker, tmp_path: Path, monkeypatch: Any) -> None:
    """What it said last is no longer said as time passes: nobody has looked."""
    said: list[str] = []
    clock = SteppedClock(frozen=True)
    broker.create_topic("orders", 1)

    async def away(*_: object) -> None:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no broker answers")

    async def play() -> None:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            monitor = LagMonitor(cluster, clock, tmp_path / "lag.jsonl", said.append)
            for offset in range(3):
                await asyncio.to_thread(broker.produce, "orders", b"v")
                await asyncio.to_thread(broker.produce, "orders", b"v")
                await commit(cluster, offset)
                await monitor.try_to_look()
                clock.advance(10)
            before = monitor.status("billing").status
            with monkeypatch.context() as patched:
                patched.setattr(Groups, "list", away)
                for _ in range(3):
                    await monitor.try_to_look()
                    clock.advance(600)
            assert [each.partition(":")[0] for each in said] == ["the cluster cannot be looked at"]
            assert monitor.status("billing").status is before is Status.WARN
            await monitor.try_to_look()
            assert said[1:] == ["the cluster is looked at again"]

    asyncio.run(play())


def test_the_command_looks_and_ends(broker: Broker, history: Path, moldau_json: Callable[..., Any]) -> None:
    found = moldau_json("lag", "--every", "0.1", "--looks", "2", "--port", "0")
    assert [each["group"] for each in found] == ["billing"]
