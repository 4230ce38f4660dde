"""The assistant's tools, called by the client of the protocol's own library."""

import asyncio
import json
from typing import Any

import pytest
from mcp import Client

from moldau.base.clock import SystemClock
from moldau.console.assistant import assistant_server
from moldau.console.masks import Masks, parse_mask
from moldau.console.settings import ClusterSettings
from moldau.console.workspace import Workspace
from moldau.testing import Broker

READS = {
    "list_topics",
    "describe_topic",
    "list_groups",
    "describe_cluster",
    "sample_records",
    "why_group",
    "query_records",
    "list_subjects",
    "show_schema",
}


async def ask(
    broker: Broker, *calls: tuple[str, dict[str, Any]], may_write: bool = False
) -> tuple[set[str], list[Any]]:
    settings = ClusterSettings("local", broker.bootstrap_servers)
    workspace = Workspace(settings, settings.security(), None, SystemClock())
    masks = Masks([parse_mask("*:value.card")])
    try:
        async with Client(assistant_server(workspace, masks, may_write=may_write)) as client:
            names = {each.name for each in (await client.list_tools()).tools}
            found: list[Any] = []
            for name, arguments in calls:
                answer = await client.call_tool(name, arguments)
                assert answer.structured_content is not None or answer.is_error, answer
                found.append("error" if answer.is_error else answer.structured_content)
            return names, found
    finally:
        await workspace.close()


@pytest.mark.slow
def test_looking(broker: Broker) -> None:
    for number in range(20):
        broker.produce("orders", json.dumps({"id": number, "card": "4111"}), key=f"k{number}")
    names, found = asyncio.run(
        ask(
            broker,
            ("list_topics", {}),
            ("describe_topic", {"topic": "orders"}),
            ("sample_records", {"topic": "orders", "limit": 2}),
            ("query_records", {"topic": "orders", "filter": "value.id in (3, 4)"}),
            ("query_records", {"topic": "orders", "filter": "value.id in (3, 4)", "start": "now"}),
            ("describe_cluster", {}),
            ("list_groups", {}),
            ("list_subjects", {}),
            ("why_group", {"group": "nobody"}),
            ("query_records", {"topic": "orders", "filter": "((("}),
            ("describe_topic", {"topic": "nowhere"}),
        )
    )
    assert names == READS
    topics, topic, sample, query, nothing, cluster, groups, subjects, *errors = found
    assert topics["result"][0]["name"] == "orders"
    assert topic["partitions"][0]["next_offset"] == 20
    assert [each["value"]["id"] for each in sample["result"]] == [19, 18]
    assert sample["result"][0]["value"]["card"] == "•••"
    assert [each["value"]["id"] for each in query["records"]] == [3, 4]
    assert query["scanned"] == 20
    assert nothing["records"] == []
    assert cluster["problems"] == []
    assert (groups["result"], subjects["result"]) == ([], [])
    assert errors == ["error"] * 3


@pytest.mark.parametrize("may_write", [False, True])
def test_writing_is_asked_for(broker: Broker, may_write: bool) -> None:
    record = {"topic": "made", "value": "v", "key": "k"}
    calls = (("create_topic", {"name": "made"}), ("produce_record", record))
    if not may_write:
        names, _ = asyncio.run(ask(broker))
        assert not names & {"create_topic", "produce_record"}
        return
    names, found = asyncio.run(ask(broker, *calls, may_write=True))
    assert {"create_topic", "produce_record"} <= names
    assert found[1] == {"partition": 0, "offset": 0}
    assert [record.value for record in broker.records("made")] == [b"v"]
