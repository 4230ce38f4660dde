"""``moldau kafka-get-offsets``: offsets of partitions at a time, as Kafka's GetOffsetShell prints them."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence

from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.framework.bootstrap import (
    CLUSTER_OPTIONS,
    open_admin_cluster,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.exceptions import ToolError, exception_line, execution_lines, sentence
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options, require
from moldau.cli.kafka_tools.framework.tool import Console, Tool, report_usage_error
from moldau.cli.kafka_tools.framework.topic_filter import include_list, select
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    ListedOffset,
    TopicDescription,
)
from moldau.client.transport.connection import parse_address
from moldau.protocol.errors import KafkaError

TOOL = Tool(
    "kafka-get-offsets",
    "Prints offsets of partitions: topic, partition and offset, with colons between.",
    Options(
        *CLUSTER_OPTIONS,
        Option("topic", "A topic or a regular expression; all topics without it.", "topic"),
        Option("partitions", "Partition numbers with commas between; all without it.", "numbers"),
        Option("topic-partitions", "Patterns such as orders:1,audit:0-3,logs:5-,all:-3.", "patterns"),
        Option(
            "time",
            "A timestamp in ms, or latest (-1), earliest (-2), max-timestamp (-3), earliest-local (-4), "
            "latest-tiered (-5), earliest-pending-upload (-6).",
            "time",
            default="latest",
        ),
        Option("exclude-internal-topics", "Leave internal topics out."),
    ),
    (
        "--bootstrap-server localhost:9092 --topic orders",
        "--bootstrap-server localhost:9092 --topic orders --time earliest",
        "--bootstrap-server localhost:9092 --topic-partitions orders:0-2,payments",
    ),
)

_TIMES = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL,
    "latest-tiered": LATEST_TIERED,
    "earliest-pending-upload": EARLIEST_PENDING_UPLOAD,
}
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
_TERSE = "org.apache.kafka.tools.TerseException"

Filter = Callable[[TopicPartition], bool]


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments:
        raise OptionError("An interactive shell for getting topic-partition offsets.")
    try:
        given = TOOL.options.parse(with_bootstrap_server(arguments, console))
    except OptionError as error:
        return report_usage_error(TOOL, OptionError(f"Error occurred: {error.message}"), console)
    require(given, "bootstrap-server")
    check_addresses(given.value("bootstrap-server"))
    try:
        offsets = asyncio.run(_offsets(given, console))
    except (KafkaError, ToolError) as error:
        console.error(f"Error occurred: {_error_text(error)}")
        return 1
    for line in offset_lines(offsets):
        console.print(line)
    return 0


def _error_text(error: KafkaError | ToolError) -> str:
    """An error of a broker with the name of its exception; an error of the tool without one."""
    return exception_line(error) if isinstance(error, KafkaError) else sentence(error)


def check_addresses(text: str) -> None:
    """Refuses a bootstrap server that is not a list of host:port."""
    parts = text.split(",")
    try:
        if any(":" not in part for part in parts):
            raise ValueError
        for part in parts:
            parse_address(part)
    except ValueError:
        raise OptionError("Please provide valid host:port like host1:9091,host2:9092\n") from None


def parse_time(text: str) -> int:
    if text in _TIMES:
        return _TIMES[text]
    try:
        return int(text)
    except ValueError:
        raise ToolError(
            _TERSE,
            f"Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp "
            "/ -4 or earliest-local / -5 or latest-tiered / -6 or earliest-pending-upload, "
            "or a specified long format timestamp",
        ) from None


def parse_filter(topic: str | None, partitions: str | None, patterns: str | None) -> Filter:
    """The filter for the partitions that the options select."""
    if patterns is not None and (topic is not None or partitions is not None):
        raise ToolError(_TERSE, "--topic-partitions cannot be used with --topic or --partitions")
    if patterns is not None:
        rules = [_rule(part) for part in patterns.split(",")]
        return lambda tp: any(rule(tp) for rule in rules)
    topics = include_list(".*" if topic is None else topic)
    numbers = _numbers(partitions)
    return lambda tp: topics(tp.topic) and (not numbers or tp.partition in numbers)


def _numbers(text: str | None) -> set[int]:
    if not text:
        return set()
    try:
        return {int(word) for word in text.split(",")}
    except ValueError:
        raise ToolError(
            _TERSE,
            f"--partitions expects a comma separated list of numeric partition ids, but received: {text}",
        ) from None


def _rule(text: str) -> Filter:
    """A filter for ``topic``, ``topic:3``, ``topic:1-4`` (without 4), ``topic:1-`` or ``topic:-4``."""
    match = _RULE.fullmatch(text)
    if match is None:
        raise ToolError("java.lang.RuntimeException", f"{_TERSE}: Invalid rule specification: {text}")
    topics = include_list(match[1] or ".*")
    if match[2]:
        only = int(match[2])
        return lambda tp: topics(tp.topic) and tp.partition == only
    first = int(match[3]) if match[3] else 0
    behind = int(match[4]) if match[4] else None
    return lambda tp: topics(tp.topic) and first <= tp.partition and (behind is None or tp.partition < behind)


def offset_lines(offsets: Mapping[TopicPartition, int]) -> list[str]:
    """Lines sorted as text, as in Kafka's tool: partition 10 comes before partition 2."""
    return [
        f"{tp.topic}:{tp.partition}:{offset}"
        for tp, offset in sorted(offsets.items(), key=lambda i: str(i[0]))
    ]


async def _offsets(given: Given, console: Console) -> dict[TopicPartition, int]:
    wanted = parse_filter(given.value("topic"), given.value("partitions"), given.value("topic-partitions"))
    time = parse_time(given.value("time"))
    async with await open_admin_cluster(
        given, console, call="listTopics", client_id="GetOffsetShell"
    ) as cluster:
        admin = Admin(cluster)
        exclude = given.has("exclude-internal-topics")
        names = select(await admin.list_topics(), None, exclude_internal=exclude)
        topics = [t for t in (await admin.describe_topics(names)).values() if isinstance(t, TopicDescription)]
        partitions = [TopicPartition(t.name, p.index) for t in topics for p in t.partitions]
        partitions = [tp for tp in partitions if wanted(tp)]
        if not partitions:
            raise ToolError(_TERSE, "Could not match any topic-partitions with the specified filters")
        outcomes = await admin.list_offsets(dict.fromkeys(partitions, time))
    return _known(outcomes, console)


def _known(
    outcomes: Mapping[TopicPartition, ListedOffset | KafkaError], console: Console
) -> dict[TopicPartition, int]:
    """The known offsets; a partition with an error is reported and left out."""
    found: dict[TopicPartition, int] = {}
    for partition, outcome in outcomes.items():
        if isinstance(outcome, KafkaError):
            cause = execution_lines(outcome)[0].removeprefix("java.util.concurrent.ExecutionException: ")
            console.error(f"Skip getting offsets for topic-partition {partition} due to error: {cause}")
        elif outcome.offset >= 0:
            found[partition] = outcome.offset
    return found
