"""From a command line to a cluster."""

import asyncio
import io
import socket
from pathlib import Path

import pytest

from moldau.cli.kafka_tools.framework.bootstrap import (
    cluster_options,
    number,
    open_cluster,
    read_properties,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.framework.tool import Console
from moldau.client.transport.security import Security
from moldau.protocol.errors import ErrorCode, KafkaError


class Quiet(Console):
    def __init__(self) -> None:
        self.told = io.BytesIO()
        super().__init__(io.BytesIO(), io.BytesIO(), self.told)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--zookeeper", "zk:2181", "--list"], ["--list", "--bootstrap-server", "127.0.0.1:9092"]),
        (["--zookeeper=zk:2181", "--list"], ["--list", "--bootstrap-server", "127.0.0.1:9092"]),
        (["--broker-list", "a:1,b:2"], ["--bootstrap-server", "a:1,b:2"]),
        (["--broker-list", "a:1", "--bootstrap-server", "b:2"], ["--bootstrap-server", "b:2"]),
        (["--zookeeper", "zk", "--bootstrap-server=b:2"], ["--bootstrap-server=b:2"]),
    ],
)
def test_old_names_are_taken_with_a_hint(words: list[str], expected: list[str]) -> None:
    console = Quiet()
    assert with_bootstrap_server(words, console) == expected
    assert console.told.getvalue().startswith(b"hint: --")
    assert console.told.getvalue().count(b"\n") == 1


def test_where_the_broker_list_means_something_else_it_stays() -> None:
    console = Quiet()
    assert with_bootstrap_server(["--broker-list", "1,2"], console, broker_list=False) == [
        "--broker-list",
        "1,2",
    ]
    assert console.told.getvalue() == b""


def test_properties_files(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=me\n")
    assert read_properties(str(file)) == {"client.id": "me"}
    assert read_properties(None) == {}
    with pytest.raises(ToolError) as missing:
        read_properties(str(tmp_path / "none"))
    assert missing.value.name == "java.nio.file.NoSuchFileException"
    file.write_bytes(b"\xff")
    with pytest.raises(ToolError):
        read_properties(str(file))
    with pytest.raises(ToolError):
        read_properties(str(tmp_path))


def test_settings_of_the_client() -> None:
    options = cluster_options({"request.timeout.ms": "5", "retry.backoff.ms": "7", "x.y": "z"}, "tool")
    assert options == {
        "client_id": "tool",
        "request_timeout_ms": 5,
        "retry_backoff_ms": 7,
        "security": Security(),
    }
    assert cluster_options({"client.id": "me"}, "tool") == {"client_id": "me", "security": Security()}
    with pytest.raises(ToolError, match=r"sasl\.mechanism must be set"):
        cluster_options({"security.protocol": "SASL_SSL"}, "tool")
    with pytest.raises(ToolError, match=r"Invalid value x for configuration a\.b: Not a number of type LONG"):
        number({"a.b": "x"}, "a.b")


def test_a_cluster_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    console = Quiet()
    opening = open_cluster(f"127.0.0.1:{port}", {}, console, client_id="tool", call="listTopics")
    with pytest.raises(
        KafkaError, match=r"Timed out waiting for a node assignment\. Call: listTopics"
    ) as error:
        asyncio.run(opening)
    assert error.value.code == ErrorCode.REQUEST_TIMED_OUT
    assert b"hint: nothing listens" in console.told.getvalue()


def test_an_address_that_is_none() -> None:
    with pytest.raises(ToolError, match=r"Invalid url in bootstrap\.servers: foo:bar"):
        asyncio.run(open_cluster("foo:bar", {}, Quiet(), client_id="tool", call="x"))
