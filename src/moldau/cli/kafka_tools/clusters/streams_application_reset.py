"""``moldau kafka-streams-application-reset``: an application begins anew, as with Kafka's StreamsResetter.

It works for Java's applications and for Moldau's: both keep their state in topics whose names begin with the
application id, and their place in a group of that name.

Invariant: nothing is changed while the group has members, nor with ``--dry-run``.
"""

import asyncio
from collections.abc import Sequence

from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.framework.bootstrap import (
    BOOTSTRAP_SERVER,
    open_cluster,
    read_properties,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options
from moldau.cli.kafka_tools.framework.tool import Console, Tool, report_failure
from moldau.cli.kafka_tools.group_offset_resets import parse_reset
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.groups.offset_resets import NoCommittedOffset, Reset, ResetTo, new_offsets
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.streams.internal_topics import is_internal

TOOL = Tool(
    "kafka-streams-application-reset",
    "Resets a Kafka Streams application: where it reads, and the topics it made for itself.",
    Options(
        BOOTSTRAP_SERVER,
        Option("application-id", "The application id.", "id"),
        Option("input-topics", "Input topics to go back in, separated by commas.", "topics"),
        Option("intermediate-topics", "Topics to skip to their end, separated by commas.", "topics"),
        Option("internal-topics", "Which of its topics to delete; all without.", "topics"),
        Option("config-file", "A file with settings of the client.", "file"),
        Option("dry-run", "Show what would be done."),
        Option("force", "Accepted; members must be gone all the same."),
        Option("to-offset", "Go on at this offset.", "offset", int),
        Option("shift-by", "Go on by so many records later, or earlier if negative.", "count", int),
        Option("to-datetime", "Go on at a time: 2026-01-31T12:00:00.000.", "time"),
        Option("by-duration", "Go on that long ago: P7D, PT1H30M.", "duration"),
        Option("to-earliest", "Go on at the first record; what happens without any of these."),
        Option("to-latest", "Go on behind the last record."),
    ),
    (
        "--bootstrap-server localhost:9092 --application-id app --input-topics in --dry-run",
        "--bootstrap-server localhost:9092 --application-id app --input-topics in,other",
    ),
)


def main(arguments: Sequence[str], console: Console) -> int:
    given = TOOL.options.parse(with_bootstrap_server(arguments, console))
    if not given.has("application-id"):
        raise OptionError("Missing required option(s) [application-id]")
    try:
        asyncio.run(_reset(given, console))
    except (KafkaError, ToolError) as error:
        return report_failure(error, console)
    return 0


async def _reset(given: Given, console: Console) -> None:
    application_id: str = given.value("application-id")
    properties = read_properties(given.value("config-file"))
    servers = given.value("bootstrap-server")
    async with await open_cluster(
        servers, properties, console, client_id="streams-reset", call="describeConsumerGroups"
    ) as cluster:
        await _refuse_members(cluster, application_id)
        if given.has("dry-run"):
            console.print(
                "----Dry run displays the actions which will be performed when running Streams Reset Tool----"
            )
        everything = await cluster.topics(None)
        names = {topic.name for topic in everything}
        await _go_back(cluster, application_id, names, given, console)
        await _delete(cluster, application_id, sorted(names), given, console)


async def _refuse_members(cluster: Cluster, application_id: str) -> None:
    described = (await Groups(cluster).describe([application_id]))[application_id]
    if isinstance(described, KafkaError):
        if described.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise described
    elif described.state not in ("Empty", "Dead"):
        raise ToolError(
            "java.lang.IllegalStateException",
            f"Consumer group '{application_id}' is still active and has following members. "
            "Make sure to stop all running application instances before running the reset tool.",
        )


async def _go_back(
    cluster: Cluster, application_id: str, names: set[str], given: Given, console: Console
) -> None:
    inputs, between = _listed(given, "input-topics"), _listed(given, "intermediate-topics")
    if not inputs and not between:
        console.print("No input or intermediate topics specified. Skipping seek.")
        return
    missing = [topic for topic in (*inputs, *between) if topic not in names]
    if missing:
        console.error(f"Following topics are not found, skipping them: [{', '.join(missing)}]")
    committed = {
        place: each
        for place, each in (await Groups(cluster).committed(application_id)).items()
        if isinstance(each, CommittedOffset)
    }
    moved: dict[TopicPartition, int] = {}
    for kind, topics, reset in (
        ("input", inputs, parse_reset(given) or Reset(ResetTo.EARLIEST)),
        ("intermediate", between, Reset(ResetTo.LATEST)),
    ):
        chosen = [topic for topic in topics if topic in names]
        if not chosen:
            continue
        console.print(
            f"{'Reset-offsets' if kind == 'input' else 'Seek-to-end'} for {kind} topics {_shown(chosen)}"
        )
        places = [
            TopicPartition(topic.name, partition.index)
            for topic in await cluster.topics(chosen)
            for partition in topic.partitions
        ]
        try:
            found = await new_offsets(Admin(cluster), reset, places, committed)
        except NoCommittedOffset as error:
            raise OptionError(
                f"Cannot shift offset for partition {error.partition}: there is no committed offset"
            ) from None
        console.print(
            f"Following {kind} topics offsets will be reset to (for consumer group {application_id})"
        )
        for place, offset in sorted(found.offsets.items()):
            console.print(f"Topic: {place.topic} Partition: {place.partition} Offset: {offset}")
        moved |= found.offsets
    if moved and not given.has("dry-run"):
        commits = {place: CommittedOffset(offset) for place, offset in moved.items()}
        raise_errors(await Groups(cluster).commit(application_id, commits))
    console.print("Done.")


async def _delete(
    cluster: Cluster, application_id: str, names: Sequence[str], given: Given, console: Console
) -> None:
    inferred = [name for name in names if is_internal(application_id, name)]
    wanted = _listed(given, "internal-topics")
    if unknown := [name for name in wanted if name not in inferred]:
        raise ToolError(
            "java.lang.IllegalArgumentException",
            f"Invalid topic specified for option --internal-topics, not internal topics: {_shown(unknown)}",
        )
    kind = "specified" if wanted else "inferred"
    doomed = wanted or inferred
    console.print(f"Deleting {kind} internal topics {_shown(doomed)}")
    if doomed and not given.has("dry-run"):
        raise_errors(await Admin(cluster).delete_topics(doomed))
    console.print("Done.")


def _listed(given: Given, option: str) -> list[str]:
    return [each.strip() for each in (given.value(option) or "").split(",") if each.strip()]


def _shown(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]"
