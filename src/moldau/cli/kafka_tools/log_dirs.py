"""``moldau kafka-log-dirs``: what is in the log directories of brokers, as Kafka's LogDirsCommand prints it.

Standard output is two lines of progress and one line of JSON.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence

from moldau.cli.kafka_tools.framework.bootstrap import (
    CLUSTER_OPTIONS,
    open_admin_cluster,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.exceptions import (
    ToolError,
    exception_name,
)
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options, require
from moldau.cli.kafka_tools.framework.tool import Console, Tool, report_failure
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import LogDir
from moldau.client.transport.connection import error_code
from moldau.protocol.errors import KafkaError

TOOL = Tool(
    "kafka-log-dirs",
    "Shows the log directories of brokers and the sizes of the partitions in them.",
    Options(
        *CLUSTER_OPTIONS,
        Option("describe", "Describe the log directories."),
        Option("topic-list", "Topics with commas between; all without it.", "topics", default=""),
        Option("broker-list", "Ids of brokers with commas between; all without it.", "ids", default=""),
    ),
    ("--bootstrap-server localhost:9092 --describe --topic-list orders,payments",),
)


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments:
        raise OptionError("This tool helps to query log directory usage on the specified brokers.")
    given = TOOL.options.parse(with_bootstrap_server(arguments, console, broker_list=False))
    require(given, "bootstrap-server", "describe")
    try:
        return asyncio.run(_describe(given, console))
    except (KafkaError, ToolError) as error:
        return report_failure(error, console)


def parse_brokers(text: str) -> list[int]:
    """The ids in their order, without duplicates."""
    try:
        return list(dict.fromkeys(int(word) for word in text.split(",") if word))
    except ValueError:
        bad = next(word for word in text.split(",") if word and not word.lstrip("-").isdecimal())
        raise ToolError("java.lang.NumberFormatException", f'For input string: "{bad}"') from None


def describe_json(brokers: Mapping[int, Sequence[LogDir]], topics: Sequence[str]) -> str:
    """All directories as one line of JSON, with the partitions of the named topics (none means all)."""
    found = [
        {"broker": broker, "logDirs": [_directory(directory, topics) for directory in directories]}
        for broker, directories in brokers.items()
    ]
    return json.dumps({"brokers": found, "version": 1}, separators=(",", ":"), ensure_ascii=False)


def _directory(directory: LogDir, topics: Sequence[str]) -> dict[str, object]:
    error = exception_name(error_code(directory.error_code)) if directory.error_code else None
    partitions = [
        {
            "partition": f"{topic}-{index}",
            "size": replica.size,
            "offsetLag": replica.offset_lag,
            "isFuture": replica.is_future,
        }
        for (topic, index), replica in directory.replicas.items()
        if not topics or topic in topics
    ]
    return {"partitions": partitions, "error": error, "logDir": directory.path}


async def _describe(given: Given, console: Console) -> int:
    wanted = parse_brokers(given.value("broker-list"))
    topics = [topic for topic in given.value("topic-list").split(",") if topic]
    async with await open_admin_cluster(given, console, call="listNodes") as cluster:
        admin = Admin(cluster)
        existing = sorted(broker.node_id for broker in (await admin.describe_cluster()).brokers)
        missing = [broker for broker in wanted if broker not in existing]
        if missing:
            console.error(
                f"ERROR: The given brokers do not exist from --broker-list: {_listed(missing)}. "
                f"Current existent brokers: {_listed(existing)}"
            )
            return 1
        console.print("Querying brokers for log directories information")
        asked = wanted or existing
        outcomes = await admin.describe_log_dirs(asked)
    found: dict[int, list[LogDir]] = {}
    failed: dict[int, KafkaError] = {}
    for broker, outcome in outcomes.items():
        if isinstance(outcome, KafkaError):
            failed[broker] = outcome
        else:
            found[broker] = outcome
    if failed and not found:
        raise next(iter(failed.values()))
    for broker, error in failed.items():
        console.error(f"ERROR: Broker {broker} did not answer: {error}")
    console.print(f"Received log directory information from brokers {_listed(list(found))}")
    console.print(describe_json(found, topics))
    return 1 if failed else 0


def _listed(brokers: Sequence[int]) -> str:
    return ",".join(str(broker) for broker in brokers)
