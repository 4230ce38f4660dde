"""The same walks through the console, against Moldau and against a real Apache Kafka."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.moldau_broker import MoldauBroker
from moldau.base.names import TopicPartition
from moldau.client.admin.admin import raise_errors
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.console.settings import ClusterSettings, ConsoleSettings
from moldau.web.server import ListenerOptions
from tests.console.conftest import Browser, running_console
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(params=["moldau", "kafka"])
def servers(request: pytest.FixtureRequest) -> str:
    broker: MoldauBroker | ApacheKafka = request.getfixturevalue(request.param)
    return broker.bootstrap_servers


@pytest.fixture
def console(servers: str) -> Iterator[Browser]:
    settings = ConsoleSettings(
        (ClusterSettings("local", servers),), ListenerOptions(stop_timeout_seconds=2), sample_seconds=0.5
    )
    with running_console(settings) as url:
        yield Browser(url)


def test_walks(console: Browser, servers: str) -> None:
    name = f"walk-{random.randrange(10**6)}"
    assert "Brokers" in console.get().words
    made = console.post("/new-topic", name=name, partitions="2", cleanup="delete", retention="24")
    assert made.status == 200, made.words
    assert (
        name
        in wait_until(
            lambda: (page := console.get("/topics", q=name)) and "1 topic" in page.words and page
        ).text
    )
    changed = console.post(f"/topics/{name}/configs", config="retention.ms", value="7200000", action="set")
    assert "7200000" in changed.words
    producer = Producer({"bootstrap.servers": servers})
    for at in range(20):
        value = json.dumps({"price": at, "town": "Praha"})
        producer.produce(name, value, f"k{at % 3}", at % 2, headers=[("n", b"%d" % at)])
    assert producer.flush(60) == 0
    sent = console.post(
        f"/topics/{name}/produce", form="json", value='{"price": 99}', key="typed", partition="0"
    )
    assert "Sent: partition 0" in sent.words
    assert "Praha" in console.get(f"/topics/{name}/messages").words
    found = console.get(f"/topics/{name}/messages", filter="value.price >= 18", noscript="1")
    assert "99" in found.words
    groups_walk(console, servers, name)
    created = f"CREATE STREAM s (price INT) WITH (KAFKA_TOPIC='{name}', VALUE_FORMAT='JSON');"
    rows = console.post("/sql", statement=f"{created} SELECT price FROM s WHERE price > 17;")
    assert "3 rows" in rows.words
    for path in ("/brokers", "/transactions", "/access", "/schemas", "/connect", "/audit"):
        assert console.get(path).status == 200, path
    assert console.get(f"/topics/{name}/time-travel", at="1m ago").status == 200
    assert f"Topic {name} is deleted" in console.post(f"/topics/{name}/delete", name=name).words


def groups_walk(console: Browser, servers: str, topic: str) -> None:
    async def commit() -> None:
        async with await Cluster.open(servers) as cluster:
            wanted = {TopicPartition(topic, 0): CommittedOffset(3)}
            raise_errors(await Groups(cluster).commit(f"{topic}-group", wanted))

    asyncio.run(commit())
    assert f"{topic}-group" in console.get("/groups", q=topic).words
    page = console.get("/groups/view", group=f"{topic}-group")
    assert page.status == 200
    assert "8" in page.words, "eleven records, three read"
