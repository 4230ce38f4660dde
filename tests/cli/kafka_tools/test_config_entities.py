"""What kafka-configs is about, and what it complains of."""

# ruff: noqa: E501 -- a message of Kafka's tools stands in one line, as long as it is

from collections.abc import Callable
from typing import Any

import pytest

from moldau.cli.kafka_tools.config_entities import Entity, parse_added, parse_deleted, parse_entity
from moldau.cli.kafka_tools.configs import TOOL, config_line, describe_lines
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.client.admin.descriptions import ConfigEntry, ConfigSource, ConfigSynonym

SERVER = ["--bootstrap-server", "x:1"]


def entity(*words: str) -> Entity:
    return parse_entity(TOOL.options.parse([*SERVER, *words]))


def test_entities() -> None:
    assert entity("--describe", "--topic", "t") == Entity("topics", "t")
    assert entity("--describe", "--entity-type", "topics", "--entity-name", "t") == Entity("topics", "t")
    assert entity("--describe", "--entity-type", "brokers") == Entity("brokers", None)
    assert entity("--describe", "--broker-defaults") == Entity("brokers", "")
    assert entity("--describe", "--entity-type", "brokers", "--entity-default") == Entity("brokers", "")
    assert entity("--describe", "--client-metrics", "m").kind == "client-metric"
    assert Entity("brokers", "").source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert Entity("brokers", "1").source == ConfigSource.DYNAMIC_BROKER_CONFIG
    assert Entity("broker-loggers", "1").source is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Command must include exactly one action: --describe, --alter"),
        (["--describe", "--alter", "--topic", "x"], "Command must include exactly one action: --describe, --alter"),
        (["--describe"], "At least one entity type must be specified"),
        (["--alter", "--topic", "x"], "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"),
        (["--alter", "--entity-type", "topics", "--add-config", "a=b"], "An entity name must be specified with --alter of topics"),
        (["--alter", "--entity-type", "topics", "--entity-default", "--add-config", "a=b"], "An entity name must be specified with --alter of topics"),
        (["--alter", "--entity-type", "brokers", "--add-config", "a=b"], "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"),
        (["--describe", "--topic", "x", "--entity-type", "topics"], "Duplicate entity type(s) specified: topics"),
        (["--alter", "--broker-defaults", "--broker", "1", "--add-config", "a=b"], "Duplicate entity type(s) specified: brokers"),
        (["--describe", "--broker", "xyz"], "The entity name for brokers must be a valid integer broker id, but it is: xyz"),
        (["--describe", "--entity-type", "users", "--entity-type", "topics"], "Only 'users' and 'clients' entity types may be specified together"),
        (["--alter", "--topic", "x", "--add-config", "a=b", "--add-config-file", "f"], "Only one of --add-config or --add-config-file must be specified"),
        (["--describe", "--entity-type", "topics", "--entity-default"], "--entity-default must not be specified with --describe of topics"),
        (["--describe", "--broker", "1", "--entity-default"], "--entity-{type,name,default} should not be used in conjunction with specific entity flags"),
        (["--describe", "--entity-type", "broker-loggers"], "An entity name must be specified with --describe of broker-loggers"),
        (["--alter", "--entity-type", "topics", "--entity-name", "x", "--entity-name", "y", "--add-config", "a=b"], "An entity name must be specified for every entity type"),
        (["--describe", "--topic", "x", "--bootstrap-controller", "c:1"], "Only one of --bootstrap-server or --bootstrap-controller can be specified"),
        (["--describe", "--topic", "x", "--add-config", "a=b"], 'Option "[describe]" can\'t be used with option "[add-config]"'),
        (["--alter", "--topic", "x", "--add-config", "foo"], 'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val" or  "key=[val1,val2]" to group values which contain commas.'),
    ],
)  # fmt: skip
def test_complaints(tool: Callable[..., Any], words: list[str], message: str) -> None:
    result = tool("kafka-configs", *SERVER, *words)
    assert result.errors[0] == message
    assert (result.code, result.stdout) == (1, "")


def test_no_server(tool: Callable[..., Any]) -> None:
    said = "Either --bootstrap-server or --bootstrap-controller must be specified."
    assert tool("kafka-configs", "--describe", "--topic", "x").errors == [said]


def test_changes() -> None:
    assert parse_added("a=1,b=[x,y],c=,match=[client_id=a.*]") == {
        "a": "1",
        "b": "x,y",
        "c": "",
        "match": "client_id=a.*",
    }
    assert parse_deleted(["a,b", " c"]) == ["a", "b", "c"]
    for bad in ("", "a", "a=b=c"):
        with pytest.raises(ToolError):
            parse_added(bad)


def test_lines() -> None:
    entries = [
        ConfigEntry("b", None, ConfigSource.DEFAULT_CONFIG, sensitive=True),
        ConfigEntry(
            "a",
            "1",
            ConfigSource.DYNAMIC_TOPIC_CONFIG,
            synonyms=(
                ConfigSynonym("a", "1", ConfigSource.DYNAMIC_TOPIC_CONFIG),
                ConfigSynonym("log.a", "2", ConfigSource.DEFAULT_CONFIG),
            ),
        ),
    ]
    own = "  a=1 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:a=1, DEFAULT_CONFIG:log.a=2}"
    assert describe_lines(Entity("topics", "t"), entries) == ["Dynamic configs for topic t are:", own]
    assert describe_lines(Entity("topics", "t"), entries, everything=True) == [
        "All configs for topic t are:",
        own,
        "  b=null sensitive=true synonyms={}",
    ]
    assert describe_lines(Entity("brokers", ""), []) == ["Default configs for brokers in the cluster are:"]
    assert config_line(entries[0]) == "  b=null sensitive=true synonyms={}"


def test_loggers_of_a_broker(tool_at: Callable[..., Any]) -> None:
    described = tool_at("kafka-configs", "--describe", "--broker-logger", "1")
    assert described.lines[0] == "Dynamic configs for broker-logger 1 are:"
    logger = described.lines[1].split("=")[0].strip()
    changed = tool_at("kafka-configs", "--alter", "--broker-logger", "1", "--add-config", f"{logger}=ERROR")
    assert changed.lines == ["Completed updating config for broker-logger 1."]
    restored = tool_at("kafka-configs", "--alter", "--broker-logger", "1", "--add-config", f"{logger}=INFO")
    assert restored.code == 0
    unknown = tool_at("kafka-configs", "--alter", "--broker-logger", "1", "--add-config", "no.such=INFO")
    assert unknown.errors == ["Invalid broker logger(s): no.such"]
    assert tool_at("kafka-configs", "--describe", "--broker-logger", "9").lines == [
        "The broker-logger '9' doesn't exist and doesn't have dynamic config."
    ]


def test_configs_from_a_file(tool_at: Callable[..., Any], tmp_path: Any) -> None:
    file = tmp_path / "topic.properties"
    file.write_text("retention.ms=5\n")
    tool_at("kafka-topics", "--create", "--topic", "t")
    assert tool_at("kafka-configs", "--alter", "--topic", "t", "--add-config-file", str(file)).code == 0
    assert tool_at("kafka-configs", "--describe", "--topic", "t").lines[1].startswith("  retention.ms=5 ")
    missing = tool_at("kafka-configs", "--alter", "--topic", "t", "--add-config-file", "/none")
    assert missing.errors[1] == "java.nio.file.NoSuchFileException: /none"
    assert missing.code == 1
    bad = tool_at("kafka-configs", "--describe", "--topic", "a b")
    assert bad.errors[0].startswith("Topic name is invalid: 'a b' contains")
