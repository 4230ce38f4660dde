"""``moldau kafka-groups``: lists the groups of every type, as Kafka's GroupsCommand does."""

import asyncio
from collections.abc import Sequence

from moldau.cli.kafka_tools.framework.bootstrap import (
    CLUSTER_OPTIONS,
    open_admin_cluster,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.exceptions import (
    ToolError,
    illegal_argument,
)
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options, refuse_with
from moldau.cli.kafka_tools.framework.tool import Console, Tool, report_failure
from moldau.client.groups.descriptions import CLASSIC, CONSUMER, SHARE, STREAMS, GroupListing
from moldau.client.groups.groups import Groups
from moldau.protocol.errors import KafkaError

_FILTERS = ("consumer", "share", "streams")
_NARROW = 20

TOOL = Tool(
    "kafka-groups",
    "Lists groups with their type and protocol.",
    Options(
        *CLUSTER_OPTIONS,
        Option("list", "List the groups."),
        Option("group-type", "Only groups of this type: classic, consumer, share, streams.", "type"),
        Option("protocol", "Only groups with this protocol.", "protocol"),
        Option("consumer", "Only consumer groups, of the classic and the newer protocol."),
        Option("share", "Only share groups."),
        Option("streams", "Only streams groups."),
    ),
    (
        "--bootstrap-server localhost:9092 --list",
        "--bootstrap-server localhost:9092 --list --consumer",
    ),
)


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments:
        raise OptionError("This tool helps to list groups of all types.")
    given = TOOL.options.parse(with_bootstrap_server(arguments, console))
    check(given)
    try:
        group_type = parse_type(given.value("group-type"))
        found = asyncio.run(_groups(given, console))
    except (KafkaError, ToolError) as error:
        return report_failure(error, console)
    for line in group_lines([group for group in found if fits(group, given, group_type)]):
        console.print(line)
    return 0


def check(given: Given) -> None:
    if not given.has("list"):
        raise OptionError("Command must include exactly one action: --list.")
    if not given.has("bootstrap-server"):
        raise OptionError("--bootstrap-server must be specified")
    for name in _FILTERS:
        refuse_with(given, name, ("group-type", "protocol", *(other for other in _FILTERS if other != name)))


def parse_type(text: str | None) -> str | None:
    if text is None:
        return None
    found = text.capitalize()
    if found not in (CLASSIC, CONSUMER, SHARE, STREAMS):
        raise illegal_argument("--group-type must be a valid group type.")
    return found


def fits(group: GroupListing, given: Given, group_type: str | None) -> bool:
    if given.has("consumer"):
        return group.is_consumer_group
    if given.has("share"):
        return group.group_type == SHARE
    if given.has("streams"):
        return group.group_type == STREAMS
    protocol = given.value("protocol")
    return (group_type is None or group.group_type == group_type) and (
        protocol is None or group.protocol_type == protocol
    )


def group_lines(groups: Sequence[GroupListing]) -> list[str]:
    """All columns are as wide as the longest name, and a row ends with a blank, as in Kafka's tool."""
    width = max((_NARROW, *(len(group.group_id) for group in groups)))
    lines = [" ".join(title.ljust(width) for title in ("GROUP", "TYPE", "PROTOCOL"))]
    for group in groups:
        cells = (group.group_id, group.group_type, group.protocol_type)
        lines.append("".join(f"{cell.ljust(width)} " for cell in cells))
    return lines


async def _groups(given: Given, console: Console) -> list[GroupListing]:
    async with await open_admin_cluster(given, console, call="listGroups") as cluster:
        return await Groups(cluster).list()
