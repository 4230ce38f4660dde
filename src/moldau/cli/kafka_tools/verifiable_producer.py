"""``moldau kafka-verifiable-producer``: writes numbers, and a line of JSON about the success of each.

Test harnesses read it to know which records the cluster has acknowledged.

Invariant: every record that was sent has exactly one line, a success or an error. A signal ends the sending;
records in flight are waited for.
"""

import asyncio
import json
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moldau.base.clock import SystemClock
from moldau.cli.kafka_tools.console_producer import send_error
from moldau.cli.kafka_tools.framework.bootstrap import (
    BOOTSTRAP_SERVER,
    open_cluster,
    read_properties,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.client_settings import producer_options
from moldau.cli.kafka_tools.framework.exceptions import exception_name, sentence
from moldau.cli.kafka_tools.framework.line_reader import LineRecord
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options
from moldau.cli.kafka_tools.framework.tool import Console, Tool, report_usage_error, run_async
from moldau.client.producer.accumulator import OnDelivery, RecordMetadata
from moldau.client.producer.producer import Producer
from moldau.protocol.errors import KafkaError

TOOL = Tool(
    "kafka-verifiable-producer",
    "Writes the numbers from 0 on, and prints a line of JSON for each that is written or could not be.",
    Options(
        BOOTSTRAP_SERVER,
        Option("topic", "The topic to write to.", "topic"),
        Option("max-messages", "How many records to write; -1 until it is stopped.", "count", int, -1),
        Option("throughput", "About so many records a second; -1 for no limit.", "count", int, -1),
        Option("acks", "Whose word is waited for: 0, 1 or -1.", "acks", int, -1),
        Option("message-create-time", "The timestamp of the first record.", "ms", int, -1),
        Option("value-prefix", "A number before each value, with a dot between.", "number", int),
        Option("repeating-keys", "Keys from 0 up to this number, again and again.", "count", int),
        Option("command-config", "A properties file with settings of the producer.", "file"),
        Option("producer.config", "The old name of --command-config.", "file", hidden=True),
    ),
    ("--bootstrap-server localhost:9092 --topic numbers --max-messages 100",),
)


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments:
        console.print(TOOL.help())
        return 0
    try:
        given = parse(with_bootstrap_server(arguments, console))
    except OptionError as error:
        return report_usage_error(TOOL, OptionError(f"verifiable-producer: error: {error.message}"), console)
    if given.has("producer.config"):
        console.print(
            "Option --producer.config has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    properties = {"acks": str(given.value("acks"))}
    properties |= read_properties(given.value("command-config") or given.value("producer.config"))
    return run_async(_produce(given, properties, console))


def parse_arguments(tool: Tool, arguments: Sequence[str], required: Sequence[str]) -> Given:
    """Parses options as the verifiable tools do: none may be unknown, missing or a bad number."""
    try:
        given = tool.options.parse(arguments)
    except OptionError as error:
        name = error.message.removesuffix(" is not a recognized option")
        raise OptionError(f"unrecognized arguments: '--{name}'" if name != error.message else name) from None
    if given.rest:
        raise OptionError(f"unrecognized arguments: '{given.rest[0]}'")
    for name in required:
        if not given.has(name):
            raise OptionError(f"argument --{name} is required")
    for option in tool.options.options:
        given.value(option.name)  # reports a bad number before anything is done
    return given


def parse(arguments: Sequence[str]) -> Given:
    given = parse_arguments(TOOL, arguments, ("topic", "bootstrap-server"))
    if given.value("acks") not in (0, 1, -1):
        raise OptionError(
            f"argument --acks: invalid choice: '{given.value('acks')}' (choose from {{0,1,-1}})"
        )
    if given.has("producer.config") and given.has("command-config"):
        raise OptionError("Options --producer.config and --command-config are mutually exclusive.")
    return given


def print_event(console: Console, name: str, **more: Any) -> None:
    """Prints one line of JSON, as the verifiable tools do."""
    line = {"timestamp": SystemClock().now_ms(), "name": name, **more}
    console.print(json.dumps(line, ensure_ascii=False, separators=(",", ":")))


@dataclass(slots=True)
class Report:
    """Prints events, and counts records."""

    console: Console
    topic: str
    sent: int = 0
    acked: int = 0

    def event(self, name: str, **more: Any) -> None:
        print_event(self.console, name, **more)

    def delivered(self, key: str | None, value: str, where: RecordMetadata) -> None:
        self.acked += 1
        self.event(
            "producer_send_success",
            key=key,
            value=value,
            offset=where.offset,
            topic=where.topic,
            partition=where.partition,
        )

    def failed(self, key: str | None, value: str, error: KafkaError) -> None:
        self.event(
            "producer_send_error",
            key=key,
            value=value,
            exception=f"class {exception_name(error.code)}",
            message=sentence(error),
            topic=self.topic,
        )

    def callback(self, key: str | None, value: str) -> OnDelivery:
        def done(outcome: RecordMetadata | KafkaError) -> None:
            if isinstance(outcome, KafkaError):
                self.failed(key, value, outcome)
            else:
                self.delivered(key, value, outcome)

        return done


async def _produce(given: Given, properties: dict[str, str], console: Console) -> int:
    options = producer_options(properties)
    report = Report(console, given.value("topic"))
    now_ms = SystemClock().now_ms
    signals = _collect_signals()
    start_ms = now_ms()
    servers = given.value("bootstrap-server")
    async with await open_cluster(
        servers, properties, console, client_id="producer-1", call="metadata"
    ) as cluster:
        async with await Producer.open(cluster, **options) as producer:
            report.event("startup_complete")
            await _send_all(producer, given, report, signals)
        report.event("shutdown_complete")
    elapsed_ms = max(1, now_ms() - start_ms)
    report.event(
        "tool_data",
        sent=report.sent,
        acked=report.acked,
        target_throughput=given.value("throughput"),
        avg_throughput=1000 * report.acked / elapsed_ms,
    )
    return 128 + signals[0] if signals else 0


def _collect_signals() -> list[int]:
    """A list to which the numbers of received signals are added."""
    signals: list[int] = []
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signals.append, int(number))
    return signals


async def _send_all(producer: Producer, given: Given, report: Report, signals: list[int]) -> None:
    most, throughput = given.value("max-messages"), given.value("throughput")
    prefix, keys = given.value("value-prefix"), given.value("repeating-keys")
    timestamp_ms = given.value("message-create-time")
    clock = SystemClock()
    begin_ms = clock.now_ms()
    while not signals and (most < 0 or report.sent < most):
        index = report.sent
        value = f"{index}" if prefix is None else f"{prefix}.{index}"
        key = None if keys is None else str(index % keys if keys > 0 else index)
        await _send(producer, report, key, value, None if timestamp_ms == -1 else timestamp_ms)
        elapsed_ms = clock.now_ms() - begin_ms
        if timestamp_ms != -1:
            timestamp_ms += elapsed_ms
        if throughput > 0:
            ahead_s = report.sent / throughput - elapsed_ms / 1000
            await asyncio.sleep(max(0, ahead_s))


async def _send(
    producer: Producer, report: Report, key: str | None, value: str, timestamp_ms: int | None
) -> None:
    record = LineRecord(None if key is None else key.encode(), value.encode())
    report.sent += 1
    try:
        await producer.send(
            report.topic,
            record.value,
            record.key,
            timestamp_ms=timestamp_ms,
            on_delivery=report.callback(key, value),
        )
    except KafkaError as error:
        report.failed(key, value, send_error(error, report.topic, record, producer))
