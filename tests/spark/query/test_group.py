"""What the member of a query's group says of itself."""

import json
from collections.abc import Iterator

import pytest

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.client.groups.descriptions import GroupDescription
from moldau.client.groups.groups import Groups
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.spark.background_loop import open_loop
from moldau.spark.options import ClusterOptions
from moldau.spark.query.group import QueryGroup
from moldau.testing import Broker

PARTITION = TopicPartition("t", 0)


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("t")
        loop = open_loop(ClusterOptions(broker.bootstrap_servers, "p-counts.an-id"))
        yield loop
        loop.close()


def said(loop: BackgroundLoop) -> dict[str, object]:
    found = loop.run(Groups(loop.cluster).describe(["p-counts"]))["p-counts"]
    assert isinstance(found, GroupDescription)
    (member,) = found.members
    assert member.client_id == "p-counts.an-id"
    return json.loads(member.user_data)  # type: ignore[no-any-return]


def test_a_member_tells_its_query_and_its_rate(loop: BackgroundLoop) -> None:
    clock = SteppedClock()
    group = QueryGroup(loop, "p-counts", clock)
    group.commit({PARTITION: 10})
    assert said(loop)["query"] == "p-counts.an-id"
    assert said(loop)["records/s"] == 0.0
    clock.advance(10)
    group.commit({PARTITION: 100})
    assert said(loop)["records/s"] == 0.0, "it does not join again for every batch"
    clock.advance(30)
    group.commit({PARTITION: 170})
    assert said(loop)["records/s"] == pytest.approx(4.0, abs=0.1)
    group.leave()
