"""kafka-broker-api-versions: the table of a real broker, and a small one."""

import re
from collections.abc import Callable
from typing import Any

from moldau.cli.kafka_tools.broker_api_versions import version_lines
from moldau.client.transport.cluster import Broker
from moldau.protocol.schema import Versions

BROKER = Broker(1, "127.0.0.1", 9092)


def test_the_table_of_kafka(transcript: Callable[[str], list[Any]]) -> None:
    (block,) = transcript("broker-api-versions")
    offered = {}
    for line in block.stdout:
        found = re.match(r"\t\w+\((\d+)\): (\d+)(?: to (\d+))? \[", line)
        if found:
            offered[int(found[1])] = Versions(int(found[2]), int(found[3] or found[2]))
    lines = version_lines(BROKER, offered)
    assert lines[0] == "127.0.0.1:9092 (id: 1 rack: null isFenced: false) -> ("
    assert lines[1:] == block.stdout[1:]


def test_what_does_not_fit() -> None:
    lines = version_lines(
        Broker(2, "h", 1, "r"),
        {0: Versions(0, 2), 1: Versions(1, 3), 3: Versions(90, 99), 1000: Versions(0, 1)},
    )
    assert lines[0] == "h:1 (id: 2 rack: r isFenced: false) -> ("
    assert "\tProduce(0): 0 to 2 [usable: 2]," in lines
    assert "\tFetch(1): 1 to 3 [unusable: node too old]," in lines
    assert "\tMetadata(3): 90 to 99 [unusable: node too new]," in lines
    assert "\tJoinGroup(11): UNSUPPORTED," in lines
    assert lines[-2:] == ["\tUNKNOWN(1000): 0 to 1", ")"]


def test_our_broker(tool_at: Callable[..., Any], tool: Callable[..., Any]) -> None:
    result = tool_at("kafka-broker-api-versions")
    assert result.code == 0
    assert "\tMetadata(3): 0 to 13 [usable: 13]," in result.lines
    refused = tool("kafka-broker-api-versions", "--bootstrap-server", "127.0.0.1:1")
    assert (
        "Request METADATA failed on brokers [127.0.0.1:1 (id: -1 rack: null isFenced: false)]"
        in refused.errors
    )
    assert refused.code == 1
