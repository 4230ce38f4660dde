"""``moldau kafka-delete-records``: delete the records before given offsets, as Kafka's DeleteRecordsCommand.

Invariant: the whole file is read and checked before anything is deleted.
"""

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
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options, require
from moldau.cli.kafka_tools.framework.tool import Console, Tool, report_failure
from moldau.client.admin.admin import Admin
from moldau.protocol.errors import KafkaError

TOOL = Tool(
    "kafka-delete-records",
    "Deletes the records of partitions that lie before an offset.",
    Options(
        *CLUSTER_OPTIONS,
        Option(
            "offset-json-file",
            'A file such as {"version": 1, "partitions": [{"topic": "a", "partition": 0, "offset": 7}]}; '
            "an offset of -1 stands for everything.",
            "file",
        ),
    ),
    ("--bootstrap-server localhost:9092 --offset-json-file offsets.json",),
)

_OPERATION = "org.apache.kafka.tools.AdminOperationException"
_FAILED = "org.apache.kafka.tools.AdminCommandFailedException"
_MAPPING = "com.fasterxml.jackson.databind.JsonMappingException"


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments:
        raise OptionError(
            "This tool helps to delete records of the given partitions down to the specified offset."
        )
    given = TOOL.options.parse(with_bootstrap_server(arguments, console))
    require(given, "bootstrap-server", "offset-json-file")
    try:
        offsets = parse_offsets(read_file(given.value("offset-json-file")))
        asyncio.run(_delete(given, offsets, console))
    except (KafkaError, ToolError) as error:
        return report_failure(error, console)
    return 0


def read_file(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        unreadable = ToolError("java.io.IOException", f"Unable to read file {path}")
        if isinstance(error, FileNotFoundError):
            unreadable.causes = [f"Caused by: java.nio.file.NoSuchFileException: {path}"]
        raise unreadable from None


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """The offsets of the JSON file; ToolError says what is wrong with it."""
    try:
        document = json.loads(text)
    except ValueError:
        raise ToolError(_OPERATION, "The input string is not a valid JSON") from None
    if not isinstance(document, dict):
        raise ToolError(_OPERATION, "The input string is not a valid JSON")
    version = document.get("version", 1)
    if version != 1:
        raise ToolError(_OPERATION, f"Not supported version field value {version}")
    if not isinstance(document.get("partitions"), list):
        raise ToolError(_OPERATION, "Missing partitions field")
    found: dict[TopicPartition, int] = {}
    twice: dict[TopicPartition, None] = {}
    for entry in document["partitions"]:
        partition = TopicPartition(_field(entry, "topic", str), _field(entry, "partition", int))
        if partition in found:
            twice[partition] = None
        found[partition] = _field(entry, "offset", int)
    if twice:
        listed = ",".join(str(partition) for partition in twice)
        raise ToolError(_FAILED, f"Offset json file contains duplicate topic partitions: {listed}")
    return found


def _field(entry: object, name: str, kind: type) -> Any:
    if not isinstance(entry, dict) or name not in entry:
        raise ToolError(_MAPPING, f"No such field exists: `{name}`")
    value = entry[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = "String" if kind is str else "Integer"
        raise ToolError(_MAPPING, f"Expected `{expected}` value, received {json.dumps(value)}")
    return value


def outcome_lines(outcomes: Mapping[TopicPartition, int | KafkaError]) -> list[str]:
    return [
        f"partition: {partition}\terror: {exception_line(outcome)}"
        if isinstance(outcome, KafkaError)
        else f"partition: {partition}\tlow_watermark: {outcome}"
        for partition, outcome in outcomes.items()
    ]


async def _delete(given: Given, offsets: dict[TopicPartition, int], console: Console) -> None:
    async with await open_admin_cluster(given, console, call="deleteRecords") as cluster:
        console.print("Executing records delete operation")
        outcomes = await Admin(cluster).delete_records(offsets)
    console.print("Records delete operation completed:")
    for line in outcome_lines({partition: _plain(outcomes[partition]) for partition in offsets}):
        console.print(line)


def _plain(outcome: int | KafkaError) -> int | KafkaError:
    """Errors of partitions with their standard messages: Kafka's response has only codes here."""
    return KafkaError(outcome.code) if isinstance(outcome, KafkaError) else outcome
