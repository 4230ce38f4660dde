"""kafka-cluster: its table, its options."""

from collections.abc import Callable
from typing import Any

import pytest

from moldau.cli.kafka_tools.cluster import endpoint_lines
from moldau.client.transport.cluster import Broker


def test_endpoints_with_racks() -> None:
    brokers = [Broker(2, "127.0.0.1", 22312, "r2"), Broker(1, "127.0.0.1", 22311, "r1")]
    assert endpoint_lines(brokers, frozenset({2})) == [
        "ID         HOST      PORT       RACK STATE      ENDPOINT_TYPE  ",
        "1          127.0.0.1 22311      r1 unfenced   broker         ",
        "2          127.0.0.1 22312      r2 fenced     broker         ",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "too few arguments"),
        (("foo",), "invalid choice: 'foo' (choose from 'cluster-id', 'unregister', 'list-endpoints')"),
        (("cluster-id",), "one of the arguments --bootstrap-server/-b --bootstrap-controller/-C is required"),
        (
            ("cluster-id", "-b", "x:1", "-C", "y:1"),
            "argument --bootstrap-controller/-C: not allowed with argument --bootstrap-server/-b",
        ),
        (("unregister", "-b", "x:1"), "argument --id/-i is required"),
        (("unregister", "-b", "x:1", "-i", "abc"), "Cannot parse argument 'abc' of option id"),
        (("cluster-id", "-b", "x:1", "--frob"), "unrecognized arguments: '--frob'"),
        (
            ("cluster-id", "-C", "x:1"),
            "--bootstrap-controller is not supported: give a broker with --bootstrap-server",
        ),
    ],
)
def test_options(tool: Callable[..., Any], words: tuple[str, ...], message: str) -> None:
    result = tool("kafka-cluster", *words)
    assert result.errors[0] == f"kafka-cluster: error: {message}"
    assert result.code == 1


def test_the_old_name_of_an_option(tool_at: Callable[..., Any], tmp_path: Any) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=me\n")
    result = tool_at("kafka-cluster", "cluster-id", "--config", str(file))
    assert result.lines[0].startswith("Option --config has been deprecated")
    assert result.lines[1].startswith("Cluster ID: ")
    missing = tool_at("kafka-cluster", "cluster-id", "--command-config", "/none")
    assert missing.errors == ["/none", "java.nio.file.NoSuchFileException: /none"]


def test_unregister_is_answered_one_way_or_another(tool_at: Callable[..., Any]) -> None:
    result = tool_at("kafka-cluster", "unregister", "--id", "9")
    known = "The target cluster does not support the broker unregistration API."
    assert result.lines == [known] or "BrokerIdNotRegisteredException" in result.stderr
