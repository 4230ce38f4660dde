"""Lines and checks of kafka-topics; the calls themselves are in test_transcripts."""

# ruff: noqa: E501 -- a message of Kafka's tools stands in one line, as long as it is

from collections.abc import Callable
from typing import Any

import pytest

from moldau.base.names import ZERO_UUID
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.topics import (
    TOOL,
    Reports,
    describe_lines,
    new_topic,
    parse_assignment,
    parse_configs,
    partition_line,
)
from moldau.client.admin.descriptions import ConfigEntry, ConfigSource, PartitionDescription, TopicDescription
from moldau.protocol.errors import KafkaError

TOPIC_ID = bytes(15) + b"\1"
SOUND = PartitionDescription(0, 1, 0, (1, 2, 3), (1, 2, 3), (), ())
SHRUNK = PartitionDescription(1, 2, 0, (2, 3, 1), (2, 1), (), ())
ALONE = PartitionDescription(2, 1, 0, (3, 1, 2), (1,), (2,), ())
LEADERLESS = PartitionDescription(3, -1, 0, (3,), (), (3,), (3,))
TOPIC = TopicDescription("rep", TOPIC_ID, False, (SOUND, SHRUNK, ALONE, LEADERLESS))
CONFIGS = [
    ConfigEntry("min.insync.replicas", "2", ConfigSource.DYNAMIC_TOPIC_CONFIG),
    ConfigEntry("retention.ms", "-1", ConfigSource.STATIC_BROKER_CONFIG),
    ConfigEntry("segment.bytes", "7", ConfigSource.DEFAULT_CONFIG),
]
LIVE = frozenset({1, 2})


def partitions(reports: Reports) -> list[str]:
    return [
        line.split("\t")[2].removeprefix("Partition: ")
        for line in describe_lines(TOPIC, CONFIGS, LIVE, reports)
    ]


def test_describe() -> None:
    lines = describe_lines(TOPIC, CONFIGS, LIVE, Reports())
    assert lines[0] == (
        "Topic: rep\tTopicId: AAAAAAAAAAAAAAAAAAAAAQ\tPartitionCount: 4\tReplicationFactor: 3\t"
        "Configs: min.insync.replicas=2,retention.ms=-1"
    )
    assert (
        lines[1]
        == "\tTopic: rep\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3\tElr: \tLastKnownElr: "
    )
    assert lines[4] == "\tTopic: rep\tPartition: 3\tLeader: none\tReplicas: 3\tIsr: \tElr: 3\tLastKnownElr: 3"


def test_what_a_broker_does_not_tell() -> None:
    unknown = PartitionDescription(0, 1, 0, (1,), (1,))
    assert partition_line("t", unknown).endswith("\tIsr: 1\tElr: N/A\tLastKnownElr: N/A")
    nameless = TopicDescription("t", ZERO_UUID, False, (unknown,))
    assert describe_lines(nameless, [], LIVE, Reports())[0] == (
        "Topic: t\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: "
    )


def test_reports_show_partitions_that_are_not_as_they_should_be() -> None:
    assert partitions(Reports(under_replicated=True)) == ["1", "2", "3"]
    assert partitions(Reports(unavailable=True)) == ["3"]
    assert partitions(Reports(under_min_isr=True)) == ["2", "3"]
    assert partitions(Reports(at_min_isr=True)) == ["1"]
    assert describe_lines(TOPIC, CONFIGS, frozenset({2}), Reports(unavailable=True))[0].startswith(
        "\tTopic: rep\tPartition: 0\tLeader: 1"
    )


def test_topics_with_overrides() -> None:
    only = Reports(overrides_only=True)
    assert len(describe_lines(TOPIC, CONFIGS, LIVE, only)) == 1
    assert describe_lines(TOPIC, CONFIGS[2:], LIVE, only) == []


def test_assignments() -> None:
    assert parse_assignment("1:2,2:3") == {0: [1, 2], 1: [2, 3]}
    assert parse_assignment(" 1 , 2 ") == {0: [1], 1: [2]}
    with pytest.raises(ToolError, match=r"Partition 1 has different replication factor: \[3\]"):
        parse_assignment("1:2,3")
    with pytest.raises(ToolError, match="Partition replica lists may not contain duplicate entries: 1"):
        parse_assignment("1:1")
    with pytest.raises(ToolError, match='For input string: "x"'):
        parse_assignment("x")


def test_configs() -> None:
    assert parse_configs(["a = b", "c=d"]) == {"a": "b", "c": "d"}
    for bad in ("a", "a=", "a=b=c"):
        with pytest.raises(ToolError, match="must be in the format"):
            parse_configs([bad])


def test_a_new_topic() -> None:
    topic = new_topic(TOOL.options.parse(["--topic", "t", "--partitions", "3", "--config", "a=b"]))
    assert (topic.num_partitions, topic.replication_factor, topic.configs) == (3, -1, {"a": "b"})
    with pytest.raises(KafkaError, match="The given topic name '' cannot be represented in a request"):
        new_topic(TOOL.options.parse(["--topic", ""]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--list", "--create"], "Command must include exactly one action: --list, --describe, --create, --alter or --delete"),
        (["--bootstrap-server", "x:1", "--describe", "--partitions", "3"], 'Option "[partitions]" can\'t be used with option "[describe]"'),
        (["--bootstrap-server", "x:1", "--delete", "--topic", "x", "--if-not-exists"], 'Option "[if-not-exists]" can\'t be used with option "[delete]"'),
        (["--bootstrap-server", "x:1", "--describe", "--if-exists"], "--topic or --topic-id is required to describe a topic"),
        (["--bootstrap-server", "x:1", "--alter", "--topic", "x"], 'Missing required argument "[partitions]"'),
        (["--bootstrap-server", "x:1", "--describe", "--topics-with-overrides", "--at-min-isr-partitions"], 'Option "[at-min-isr-partitions]" can\'t be used with option "[topics-with-overrides]"'),
        (["--list"], "--bootstrap-server must be specified"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together(tool: Callable[..., Any], words: list[str], message: str) -> None:
    result = tool("kafka-topics", *words)
    assert result.errors[0] == message
    assert (result.code, result.stdout) == (1, "")


def test_a_number_that_is_none(tool_at: Callable[..., Any]) -> None:
    result = tool_at("kafka-topics", "--create", "--topic", "x", "--partitions", "abc")
    assert result.lines == [
        "Error while executing topic command : Cannot parse argument 'abc' of option partitions"
    ]
    assert result.code == 1


def test_a_pattern_that_is_none(tool_at: Callable[..., Any]) -> None:
    assert tool_at("kafka-topics", "--describe", "--topic", "(").lines == [
        "Error while executing topic command : ( is an invalid regex."
    ]


def test_describe_by_id(tool_at: Callable[..., Any]) -> None:
    tool_at("kafka-topics", "--create", "--topic", "orders")
    line = tool_at("kafka-topics", "--describe", "--topic", "orders").lines[0]
    topic_id = line.split("\t")[1].removeprefix("TopicId: ")
    found = tool_at("kafka-topics", "--describe", "--topic-id", topic_id)
    assert found.lines[0] == line
    assert found.lines[1].endswith("Elr: N/A\tLastKnownElr: N/A")
    assert tool_at("kafka-topics", "--describe", "--topic-id", "x").code == 1


def test_alter_with_an_assignment(tool_at: Callable[..., Any]) -> None:
    tool_at("kafka-topics", "--create", "--topic", "orders")
    grown = ("--alter", "--topic", "orders", "--partitions", "3", "--replica-assignment", "1,1,1")
    assert tool_at("kafka-topics", *grown).code == 0
    assert "PartitionCount: 3" in tool_at("kafka-topics", "--describe").stdout
