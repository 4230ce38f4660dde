"""What the member of a query's group says of itself."""

import json
from collections.abc import Iterator

import pytest

from moldau.base.clock import SteppedClock
from moldau.base.names import TopicPartition
from moldau.client.groups.descriptions import GroupDescription
from moldau.client.groups.groups import Groups
from moldau.spark.options import ClusterOptions
from moldau.spark.query.group import QueryGroup
from moldau.spark.wire import Wire
from moldau.testing import Broker

PARTITION = TopicPartition("t", 0)


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("t")
        wire = Wire(ClusterOptions(broker.bootstrap_servers, "p-counts.an-id"))
        yield wire
        wire.close()


def said(wire: Wire) -> dict[str, object]:
    found = wire.ask(Groups(wire.cluster).describe(["p-counts"]))["p-counts"]
    assert isinstance(found, GroupDescription)
    (member,) = found.members
    assert member.client_id == "p-counts.an-id"
    return json.loads(member.user_data)  # type: ignore[no-any-return]


def test_a_member_tells_its_query_and_its_rate(wire: Wire) -> None:
    clock = SteppedClock()
    group = QueryGroup(wire, "p-counts", clock)
    group.commit({PARTITION: 10})
    assert said(wire)["query"] == "p-counts.an-id"
    assert said(wire)["records/s"] == 0.0
    clock.advance(10)
    group.commit({PARTITION: 100})
    assert said(wire)["records/s"] == 0.0, "it does not join again for every batch"
    clock.advance(30)
    group.commit({PARTITION: 170})
    assert said(wire)["records/s"] == pytest.approx(4.0, abs=0.1)
    group.leave()
