"""``moldau kafka-cluster``: the id of a cluster and its endpoints, as Kafka's ClusterTool prints them.

The first argument is the command: cluster-id, list-endpoints or unregister.
"""

import asyncio
from collections.abc import Sequence

from moldau.cli.kafka_tools.framework.bootstrap import open_cluster, read_properties, with_bootstrap_server
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options
from moldau.cli.kafka_tools.framework.tool import Console, Tool, report_failure, report_usage_error
from moldau.client.admin.admin import Admin
from moldau.client.transport.cluster import Broker
from moldau.protocol.errors import ErrorCode, KafkaError

_COMMANDS = ("cluster-id", "unregister", "list-endpoints")

TOOL = Tool(
    "kafka-cluster",
    "Shows the id of a cluster (cluster-id) or its brokers (list-endpoints), or forgets one (unregister).",
    Options(
        Option(
            "bootstrap-server",
            "The brokers to connect to, as host1:port1,host2:port2.",
            "servers",
            letter="b",
        ),
        Option("bootstrap-controller", "Not supported: give a broker.", "servers", letter="C"),
        Option("command-config", "A properties file with settings of the client.", "file", letter="c"),
        Option("config", "The old name of --command-config.", "file"),
        Option("id", "With unregister: the id of the broker to forget.", "id", int, letter="i"),
        Option("include-fenced-brokers", "With list-endpoints: brokers that are fenced too."),
    ),
    (
        "cluster-id --bootstrap-server localhost:9092",
        "list-endpoints --include-fenced-brokers --bootstrap-server localhost:9092",
        "unregister --id 7 --bootstrap-server localhost:9092",
    ),
)


def main(arguments: Sequence[str], console: Console) -> int:
    try:
        command, given = parse(arguments, console)
    except OptionError as error:
        return report_usage_error(TOOL, OptionError(f"kafka-cluster: error: {error.message}"), console)
    try:
        asyncio.run(_execute(command, given, console))
    except (KafkaError, ToolError) as error:
        return report_failure(error, console)
    return 0


def parse(arguments: Sequence[str], console: Console) -> tuple[str, Given]:
    """The command and its options; OptionError has the message of Kafka's tool."""
    if not arguments:
        raise OptionError("too few arguments")
    command = arguments[0]
    if command not in _COMMANDS:
        choices = ", ".join(f"'{name}'" for name in _COMMANDS)
        raise OptionError(f"invalid choice: '{command}' (choose from {choices})")
    try:
        given = TOOL.options.parse(with_bootstrap_server(arguments[1:], console))
    except OptionError as error:
        name = error.message.removesuffix(" is not a recognized option")
        raise OptionError(f"unrecognized arguments: '--{name}'" if name != error.message else name) from None
    if given.has("bootstrap-controller"):
        if given.has("bootstrap-server"):
            raise OptionError(
                "argument --bootstrap-controller/-C: not allowed with argument --bootstrap-server/-b"
            )
        raise OptionError("--bootstrap-controller is not supported: give a broker with --bootstrap-server")
    if not given.has("bootstrap-server"):
        raise OptionError("one of the arguments --bootstrap-server/-b --bootstrap-controller/-C is required")
    if command == "unregister":
        if not given.has("id"):
            raise OptionError("argument --id/-i is required")
        given.value("id")
    return command, given


def endpoint_lines(brokers: Sequence[Broker], fenced: frozenset[int]) -> list[str]:
    """A table with the column widths of Kafka's tool; the one of racks may be narrower than its title."""
    host = max((len(broker.host) for broker in brokers), default=100)
    rack = max((len(broker.rack) for broker in brokers if broker.rack), default=10)

    def line(*cells: str) -> str:
        widths = (10, host, 10, rack, 10, 15)
        return " ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))

    rows = [
        line(
            str(broker.node_id),
            broker.host,
            str(broker.port),
            broker.rack or "null",
            "fenced" if broker.node_id in fenced else "unfenced",
            "broker",
        )
        for broker in sorted(brokers, key=lambda broker: broker.node_id)
    ]
    return [line("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"), *rows]


async def _execute(command: str, given: Given, console: Console) -> None:
    if given.has("config"):
        console.print(
            "Option --config has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    properties = read_properties(given.value("command-config") or given.value("config"))
    call = "unregisterBroker" if command == "unregister" else "listNodes"
    async with await open_cluster(
        given.value("bootstrap-server"), properties, console, client_id="adminclient-1", call=call
    ) as cluster:
        admin = Admin(cluster)
        if command == "unregister":
            await _unregister(admin, given.value("id"), console)
            return
        found = await admin.describe_cluster(include_fenced_brokers=given.has("include-fenced-brokers"))
    if command == "cluster-id":
        if found.cluster_id:
            console.print(f"Cluster ID: {found.cluster_id}")
        else:
            console.print("No cluster ID found. The Kafka version is probably too old.")
        return
    for line in endpoint_lines(found.brokers, found.fenced):
        console.print(line)


async def _unregister(admin: Admin, broker: int, console: Console) -> None:
    try:
        await admin.unregister_broker(broker)
    except KafkaError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        console.print("The target cluster does not support the broker unregistration API.")
        return
    console.print(f"Broker {broker} is no longer registered.")
