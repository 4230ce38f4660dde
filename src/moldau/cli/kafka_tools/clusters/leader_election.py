"""``moldau kafka-leader-election``: elect leaders, preferred or unclean, as Kafka's LeaderElectionCommand."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.framework.bootstrap import (
    CLUSTER_OPTIONS,
    open_admin_cluster,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.exceptions import ToolError, exception_line
from moldau.cli.kafka_tools.framework.options import Given, Option, Options
from moldau.cli.kafka_tools.framework.tool import Console, Tool, report_failure
from moldau.client.admin.replicas import elect_leaders
from moldau.protocol.errors import ErrorCode, KafkaError

TOOL = Tool(
    "kafka-leader-election",
    "Elects leaders of partitions: preferred replicas, or any live one where there is no leader (unclean).",
    Options(
        *CLUSTER_OPTIONS,
        Option("election-type", "preferred, or unclean, which may lose records.", "type"),
        Option("topic", "The topic of one partition.", "name"),
        Option("partition", "Its number.", "number", int),
        Option("all-topic-partitions", "Every partition of every topic."),
        Option(
            "path-to-json-file", 'A file such as {"partitions": [{"topic": "a", "partition": 0}]}.', "file"
        ),
    ),
    (
        "--bootstrap-server localhost:9092 --election-type preferred --all-topic-partitions",
        "--bootstrap-server localhost:9092 --election-type unclean --topic orders --partition 0",
    ),
)
_FAILED = "org.apache.kafka.tools.AdminCommandFailedException"
_OPERATION = "org.apache.kafka.tools.AdminOperationException"
_TYPES = ("PREFERRED", "UNCLEAN")


def main(arguments: Sequence[str], console: Console) -> int:
    given = TOOL.options.parse(with_bootstrap_server(arguments, console))
    try:
        election, wanted = parse(given)
        asyncio.run(_elect(given, election, wanted, console))
    except (KafkaError, ToolError) as error:
        return report_failure(error, console)
    return 0


def parse(given: Given) -> tuple[int, list[TopicPartition] | None]:
    """The election (0 preferred, 1 unclean) and the partitions, None for all."""
    missing = [name for name in ("bootstrap-server", "election-type") if not given.has(name)]
    if missing:
        raise ToolError(_FAILED, f"Missing required option(s): {', '.join(missing)}")
    one_of = [name for name in ("topic", "all-topic-partitions", "path-to-json-file") if given.has(name)]
    if len(one_of) != 1:
        raise ToolError(
            _FAILED,
            "One and only one of the following options is required: topic, all-topic-partitions, "
            "path-to-json-file",
        )
    if given.has("topic") and not given.has("partition"):
        raise ToolError(_FAILED, "Missing required option(s): partition")
    election = str(given.value("election-type")).upper()
    if election not in _TYPES:
        raise ToolError(
            "joptsimple.OptionArgumentConversionException",
            f"Cannot parse argument '{given.value('election-type')}' of option election-type",
        )
    number = _TYPES.index(election)
    if given.has("topic"):
        return number, [TopicPartition(given.value("topic"), given.value("partition"))]
    if given.has("path-to-json-file"):
        return number, parse_file(given.value("path-to-json-file"))
    return number, None


def parse_file(path: str) -> list[TopicPartition]:
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        cause = f"java.io.IOException: Unable to read file {path}"
        unreadable = ToolError("java.lang.RuntimeException", cause)
        unreadable.causes = [f"Caused by: {cause}", f"Caused by: java.nio.file.NoSuchFileException: {path}"]
        raise unreadable from None
    try:
        document: Any = json.loads(text)
    except ValueError:
        raise ToolError(_OPERATION, "Replica election data is empty") from None
    if not isinstance(document, dict) or "partitions" not in document:
        raise ToolError(_OPERATION, 'Replica election data is missing "partitions" field')
    try:
        found = [
            TopicPartition(str(each["topic"]), int(each["partition"])) for each in document["partitions"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ToolError(_OPERATION, f"Replica election data is damaged: {error}") from None
    twice = list(dict.fromkeys(str(each) for each in found if found.count(each) > 1))
    if twice:
        raise ToolError(
            _OPERATION, f"Replica election data contains duplicate partitions: [{', '.join(twice)}]"
        )
    return found


async def _elect(given: Given, election: int, wanted: list[TopicPartition] | None, console: Console) -> None:
    async with await open_admin_cluster(given, console, call="electLeaders") as cluster:
        outcomes = await elect_leaders(cluster, election, wanted)
    for line in outcome_lines(_TYPES[election], outcomes):
        console.print(line)
    failures = [error for _, error in sorted(outcomes.items()) if _is_failure(error)]
    if failures:
        refused = ToolError(_FAILED, f"{len(failures)} replica(s) could not be elected")
        refused.causes = [f"\tSuppressed: {exception_line(error)}" for error in failures if error is not None]
        raise refused


def _is_failure(error: KafkaError | None) -> bool:
    return error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED


def outcome_lines(election: str, outcomes: Mapping[TopicPartition, KafkaError | None]) -> list[str]:
    """Those elected first, then those where it was not needed, then the failures."""
    ordered = sorted(outcomes.items())
    elected = [str(partition) for partition, error in ordered if error is None]
    needless = [
        str(partition)
        for partition, error in ordered
        if error is not None and error.code is ErrorCode.ELECTION_NOT_NEEDED
    ]
    lines = []
    if elected:
        listed = ", ".join(elected)
        lines.append(f"Successfully completed leader election ({election}) for partitions {listed}")
    if needless:
        lines.append(f"Valid replica already elected for partitions {', '.join(needless)}")
    for partition, error in ordered:
        if error is not None and _is_failure(error):
            lines.append(
                f"Error completing leader election ({election}) for partition: {partition}: "
                f"{exception_line(error)}"
            )
    return lines
