"""``moldau groups`` against a broker."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from moldau.base.names import TopicPartition
from moldau.cli.commands.data.groups import parse_where
from moldau.client.admin.admin import raise_errors
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.group_consumer import GroupConsumer
from moldau.client.groups.groups import Groups
from moldau.client.groups.offset_resets import Reset, ResetTo
from moldau.client.transport.cluster import Cluster
from moldau.testing import Broker


@pytest.fixture
def billing(broker: Broker) -> Broker:
    """Ten records in two partitions, of which a group without members has read three."""
    broker.create_topic("orders", 2)
    for index in range(10):
        broker.produce("orders", b"v", partition=index % 2, timestamp_ms=1000 + index)
    offsets = {
        TopicPartition("orders", 0): CommittedOffset(3),
        TopicPartition("orders", 1): CommittedOffset(0),
    }

    async def commit() -> None:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            raise_errors(await Groups(cluster).commit("billing", offsets))

    asyncio.run(commit())
    return broker


def test_list(billing: Broker, moldau: Callable[..., Result], moldau_json: Callable[..., Any]) -> None:
    assert moldau_json("groups", "list") == [
        {
            "name": "billing",
            "type": "Classic",
            "state": "Empty",
            "protocol": "",
            "members": 0,
            "topics": ["orders"],
            "lag": 7,
        }
    ]
    assert moldau("groups", "list", "--names").stdout == "billing\n"
    assert "billing" in moldau("groups", "list", "--state", "empty").stdout
    assert moldau_json("groups", "list", "--state", "stable") == []


def test_no_groups(moldau: Callable[..., Result]) -> None:
    assert "There are no groups" in moldau("groups", "list").stderr


def test_describe(billing: Broker, moldau: Callable[..., Result], moldau_json: Callable[..., Any]) -> None:
    (group,) = moldau_json("groups", "describe", "billing")
    assert (group["state"], group["lag"], group["members"]) == ("Empty", 7, [])
    assert group["partitions"][0] == {
        "topic": "orders",
        "partition": 0,
        "committed": 3,
        "end": 5,
        "lag": 2,
        "member": None,
    }
    shown = moldau("groups", "describe", "billing").stdout
    assert shown.startswith("billing: Empty, 0 members, lag 7, coordinated by broker ")
    wrong = moldau("groups", "describe", "nobody", code=1).stderr
    assert "Group nobody not found (GROUP_ID_NOT_FOUND). Next: 'moldau groups list'" in wrong


def test_why(billing: Broker, moldau: Callable[..., Result], moldau_json: Callable[..., Any]) -> None:
    said = moldau("groups", "why", "billing").stdout
    assert "nobody reads: the group has no member, and 7 records wait in 2 partitions" in said
    assert "Next: start a consumer with this group id" in said
    (finding,) = moldau_json("groups", "why", "billing")
    assert finding["severity"] == "problem"


def test_reset(billing: Broker, moldau: Callable[..., Result], moldau_json: Callable[..., Any]) -> None:
    plan = moldau_json("groups", "reset", "billing", "--topic", "orders:0", "--to", "-2", "--dry-run")
    assert plan == [{"topic": "orders", "partition": 0, "committed": 3, "new_offset": 1}]
    shown = moldau("groups", "reset", "billing", "--to", "99", "--dry-run").stderr
    assert "orders-0: 99 lies outside, 5 is taken" in shown
    assert moldau_json("groups", "describe", "billing")[0]["lag"] == 7
    assert "Set 2 partitions" in moldau("groups", "reset", "billing", "--to", "@1004", "--yes").stderr
    assert [p["committed"] for p in moldau_json("groups", "describe", "billing")[0]["partitions"]] == [2, 2]
    moldau("groups", "reset", "billing", "--to", "latest", input="n\n", code=1)
    moldau("groups", "reset", "billing", "--to", "latest", input="y\n")
    assert moldau_json("groups", "describe", "billing")[0]["lag"] == 0


def test_reset_that_cannot_be(billing: Broker, moldau: Callable[..., Result]) -> None:
    assert (
        "nothing to shift from"
        in moldau("groups", "reset", "new", "--topic", "orders", "--to", "+1", "--yes", code=1).stderr
    )
    assert "name a topic" in moldau("groups", "reset", "new", "--to", "earliest", code=1).stderr
    assert "do not exist" in moldau("groups", "reset", "new", "-t", "orders:7", "--to", "0", code=1).stderr
    assert "neither earliest" in moldau("groups", "reset", "new", "--to", "soon", code=2).stderr


def test_groups_with_members_are_left_alone(
    billing: Broker, moldau: Callable[..., Result], moldau_json: Callable[..., Any]
) -> None:
    async def work() -> None:
        async with (
            await Cluster.open(billing.bootstrap_servers, client_id="till") as cluster,
            GroupConsumer(cluster, "billing", ["orders"]) as consumer,
        ):
            await consumer.join()
            run = asyncio.get_running_loop().run_in_executor
            said = await run(
                None, lambda: moldau("groups", "reset", "billing", "--to", "earliest", code=1).stderr
            )
            assert "has 1 member(s)" in said
            said = await run(None, lambda: moldau("groups", "delete", "billing", "-y", code=1).stderr)
            assert "billing: it has members. Next: stop them first" in said
            said = await run(None, lambda: moldau("groups", "why", "billing", "--watch", "0").stdout)
            assert "7 records behind, and nothing is wrong with it" in said
            (group,) = await run(None, lambda: moldau_json("groups", "describe", "billing"))
            assert group["members"][0]["client_id"] == "till"

    asyncio.run(work())


def test_delete(billing: Broker, moldau: Callable[..., Result], moldau_json: Callable[..., Any]) -> None:
    assert moldau("groups", "delete", "billing", "--yes").stdout == "Deleted group billing\n"
    assert "there is no such group" in moldau("groups", "delete", "billing", "--yes", code=1).stderr
    assert moldau_json("groups", "list") == []


@pytest.mark.parametrize(
    ("text", "reset"),
    [
        ("earliest", Reset(ResetTo.EARLIEST)),
        ("latest", Reset(ResetTo.LATEST)),
        ("7", Reset(ResetTo.OFFSET, 7)),
        ("+7", Reset(ResetTo.SHIFT, 7)),
        ("-7", Reset(ResetTo.SHIFT, -7)),
        ("@7", Reset(ResetTo.TIMESTAMP, 7)),
        ("1s ago", Reset(ResetTo.TIMESTAMP, 9000)),
    ],
)
def test_where(text: str, reset: Reset) -> None:
    assert parse_where(text, 10_000) == reset
