"""Groups: lag, why, members, a reset that shows its plan first."""

from typing import Any

import pytest
from confluent_kafka import Consumer

from moldau.base.names import TopicPartition
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.testing import Broker
from tests.shared.waiting import wait_until


def commit(broker: Broker, group: str, **offsets: int) -> None:
    async def work() -> None:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            given = {TopicPartition(name, 0): CommittedOffset(offset) for name, offset in offsets.items()}
            await Groups(cluster).commit(group, given)

    broker.run(work())


@pytest.fixture
def billing(broker: Broker) -> Broker:
    for number in range(10):
        broker.produce("orders", b"x", timestamp_ms=1_000_000 + number * 1_000)
    commit(broker, "billing", orders=4)
    return broker


@pytest.mark.slow
def test_lag_is_listed_and_explained(console: Any, billing: Broker) -> None:
    assert "billing Empty Classic 0 6" in console.get("/groups").words
    assert "No group fits" in console.get("/groups", q="<nothing>").words
    page = console.get("/groups/view", group="billing")
    assert "nobody reads: the group has no member, and 6 records wait" in page.words
    assert "start a consumer" in page.words
    assert "orders 0 4 10 6 nobody not read yet" in page.words
    plotted = wait_until(
        lambda: "<polyline" in (found := console.get("/groups/view", group="billing").text) and found
    )
    assert "Records behind: 6 now" in plotted
    overview = wait_until(lambda: (found := console.get()) and "has no member" in found.words and found)
    assert "billing has no member, and 6 records wait for it" in overview.words


@pytest.mark.slow
@pytest.mark.parametrize("name", ["..", "a/b", "<script>boom()</script>", "a b&c=d", "%2e%2e", "Ž"])
def test_groups_of_any_name(console: Any, billing: Broker, name: str) -> None:
    commit(billing, name, orders=1)
    assert "<script>boom" not in console.get("/groups").text
    page = console.get("/groups/view", group=name)
    assert (page.status, "9 records wait" in page.words) == (200, True)
    assert "<script>boom" not in page.text


def test_a_lag_that_cannot_be_asked_for_is_not_nought(
    console: Any, billing: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not now")

    monkeypatch.setattr(Groups, "committed", refuse)
    assert "billing Empty Classic 0 –" in console.get("/groups").words


def test_partitions_of_a_group_have_pages(
    console: Any, billing: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.console.pages.groups._PARTITIONS", 1)
    billing.produce("returns", b"x")
    commit(billing, "billing", orders=4, returns=1)
    page = console.get("/groups/view", group="billing")
    assert ("1–1 of 2" in page.words, "returns 0 1 1" in page.words) == (True, False)
    assert "returns 0 1 1" in console.get("/groups/view", group="billing", page=1).words


def test_a_group_that_is_not_there(console: Any) -> None:
    page = console.get("/groups/view", group="nobody")
    assert (page.status, "GROUP_ID_NOT_FOUND" in page.words) == (404, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "offset"),
    [
        ({"to": "earliest"}, 0),
        ({"to": "latest"}, 10),
        ({"to": "offset", "number": "7"}, 7),
        ({"to": "shift", "number": "-2"}, 2),
        ({"to": "timestamp", "number": "1970-01-01T00:16:45Z"}, 5),
        ({"to": "offset", "number": "700"}, 10),
    ],
)
def test_a_reset_shows_its_plan(console: Any, billing: Broker, fields: dict[str, str], offset: int) -> None:
    plan = console.post("/groups/reset", group="billing", **fields)
    assert "nothing has changed yet" in plan.words
    assert f"orders-0 4 {offset} {offset - 4:+d}" in plan.words
    assert "orders 0 4 10" in console.get("/groups/view", group="billing").words
    done = console.post("/groups/reset", group="billing", confirmed=f"orders:0:{offset}")
    assert "are reset" in done.words
    assert f"orders 0 {offset} 10" in console.get("/groups/view", group="billing").words


def test_resets_that_cannot_be(console: Any, billing: Broker) -> None:
    for fields in ({"to": "sideways"}, {"to": "offset", "number": "x"}, {"to": "timestamp", "number": "x"}):
        page = console.post("/groups/reset", group="billing", **fields)
        assert page.status == 400
        assert all(f'value="{each}"' in page.text for each in fields.values() if each != "sideways")
    assert console.post("/groups/reset", group="billing", to="earliest", topic="other").status == 400
    assert console.post("/groups/reset", group="billing", confirmed="nonsense").status == 400


def test_a_group_with_members(console: Any, billing: Broker) -> None:
    servers = {"bootstrap.servers": billing.bootstrap_servers, "auto.offset.reset": "earliest"}
    consumer = Consumer({**servers, "group.id": "live", "client.id": "reader-1"})
    try:
        consumer.subscribe(["orders"])
        assert len(consumer.consume(10, timeout=60)) > 0
        consumer.commit(asynchronous=False)
        page = console.get("/groups/view", group="live")
        assert "reader-1" in page.words
        assert "orders-0" in page.words
        refused = console.post("/groups/reset", group="live", confirmed="orders:0:1")
        assert refused.status == 502
        assert "stop its consumers first" in refused.words
        assert "Nothing was deleted" in console.post("/groups/delete", group="live", name="x").words
    finally:
        consumer.close()
    assert "Group billing is deleted" in console.post("/groups/delete", group="billing", name="billing").words
