"""From a command line to a cluster: addresses, properties files, and options of older versions.

Invariant: only here the Kafka tools open connections. A cluster that does not answer is reported with the
message of Kafka's tools, and the reason on standard error.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from moldau.base.settings import parse_properties
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.framework.options import Given, Option
from moldau.cli.kafka_tools.framework.tool import Console
from moldau.client.transport.cluster import Cluster
from moldau.client.transport.connection import BrokerNotAvailable
from moldau.client.transport.security import Security
from moldau.protocol.errors import ErrorCode, KafkaError

DEFAULT_SERVER = "127.0.0.1:9092"

BOOTSTRAP_SERVER = Option(
    "bootstrap-server", "The brokers to connect to, as host1:port1,host2:port2.", "servers"
)
COMMAND_CONFIG = Option("command-config", "A properties file with settings of the client.", "file")
#: What ``open_admin_cluster`` asks for.
CLUSTER_OPTIONS = (BOOTSTRAP_SERVER, COMMAND_CONFIG)

#: Settings of Kafka's clients that ours has, too.
_SETTINGS = {
    "request.timeout.ms": "request_timeout_ms",
    "default.api.timeout.ms": "api_timeout_ms",
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
}


def with_bootstrap_server(
    arguments: Sequence[str], console: Console, *, broker_list: bool = True
) -> list[str]:
    """The command line with ``--bootstrap-server`` instead of the options of older versions.

    Clients no longer connect to ZooKeeper, so ``--zookeeper`` means the default server; ``--broker-list`` is
    the old name of the bootstrap server. Books and scripts still use both, so they are accepted, with a hint.
    """
    old = {"--zookeeper": DEFAULT_SERVER} | ({"--broker-list": ""} if broker_list else {})
    left = list(arguments)
    kept: list[str] = []
    servers = ""
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if name not in old:
            kept.append(word)
            continue
        if not equals:
            value = left.pop(0) if left else ""
        servers = servers or old[name] or value
        console.error(f"hint: {name} is of older versions; use --bootstrap-server {old[name] or value}")
    has_server = any(word.partition("=")[0] == "--bootstrap-server" for word in kept)
    return kept if has_server or not servers else [*kept, "--bootstrap-server", servers]


def read_properties(path: str | None) -> dict[str, str]:
    """The settings of a properties file; none without a path."""
    if path is None:
        return {}
    try:
        return parse_properties(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise ToolError("java.nio.file.NoSuchFileException", path) from None
    except (OSError, ValueError) as error:
        raise ToolError("java.io.IOException", f"{path}: {error}") from None


async def open_cluster(
    servers: str, properties: Mapping[str, str], console: Console, *, client_id: str, call: str
) -> Cluster:
    """A connected cluster; ``call`` is the first call of Kafka's tool, which its timeout message names."""
    options = cluster_options(properties, client_id)
    try:
        return await Cluster.open(servers, **options)
    except ValueError:
        raise ToolError(
            "org.apache.kafka.common.config.ConfigException", f"Invalid url in bootstrap.servers: {servers}"
        ) from None
    except BrokerNotAvailable as error:
        console.error(f"hint: {error}")
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"Timed out waiting for a node assignment. Call: {call}"
        ) from None


async def open_admin_cluster(
    given: Given, console: Console, *, call: str, client_id: str = "adminclient-1"
) -> Cluster:
    """The cluster of ``--bootstrap-server``, with the settings of ``--command-config``."""
    properties = read_properties(given.value("command-config"))
    servers = given.value("bootstrap-server")
    return await open_cluster(servers, properties, console, client_id=client_id, call=call)


def cluster_options(properties: Mapping[str, str], client_id: str) -> dict[str, Any]:
    """Settings of Kafka's clients as options of ``Cluster``; those without a meaning here are ignored."""
    try:
        security = Security.of(properties)
    except ValueError as error:
        raise ToolError("org.apache.kafka.common.config.ConfigException", str(error)) from None
    options: dict[str, Any] = {"client_id": properties.get("client.id", client_id), "security": security}
    for name, option in _SETTINGS.items():
        if name in properties:
            options[option] = number(properties, name)
    return options


def number(properties: Mapping[str, str], name: str, default: int = 0) -> int:
    """A setting that is a whole number."""
    value = properties.get(name)
    if value is None:
        return default
    try:
        return int(value.strip())
    except ValueError:
        raise ToolError(
            "org.apache.kafka.common.config.ConfigException",
            f"Invalid value {value} for configuration {name}: Not a number of type LONG",
        ) from None
