"""``moldau kafka-verifiable-producer``: numbers as records, and a line of JSON for the fate of each.

What a test harness reads to know which records the cluster has promised to keep.

Invariant: every record that was sent has exactly one line, a success or an error; a signal ends the
sending, and what is on its way is waited for.
"""

import asyncio
import json
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moldau.base.clock import SystemClock
from moldau.cli.kafka_tools.console_producer import send_error
from moldau.cli.kafka_tools.framework.bootstrap import BOOTSTRAP_SERVER, modern, open_cluster, read_properties
from moldau.cli.kafka_tools.framework.client_settings import producer_options
from moldau.cli.kafka_tools.framework.exceptions import exception_name, sentence
from moldau.cli.kafka_tools.framework.line_reader import LineRecord
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options
from moldau.cli.kafka_tools.framework.tool import Console, Tool, complain, run_async
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


def main(words: Sequence[str], console: Console) -> int:
    if not words:
        console.print(TOOL.help())
        return 0
    try:
        given = parse(modern(words, console))
    except OptionError as error:
        return complain(TOOL, OptionError(f"verifiable-producer: error: {error.message}"), console)
    if given.has("producer.config"):
        console.print(
            "Option --producer.config has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    properties = {"acks": str(given.value("acks"))}
    properties |= read_properties(given.value("command-config") or given.value("producer.config"))
    return run_async(_produce(given, properties, console))


def parse_words(tool: Tool, words: Sequence[str], required: Sequence[str]) -> Given:
    """Options as the verifiable tools check them: nothing unknown, nothing missing, no bad number."""
    try:
        given = tool.options.parse(words)
    except OptionError as error:
        name = error.message.removesuffix(" is not a recognized option")
        raise OptionError(f"unrecognized arguments: '--{name}'" if name != error.message else name) from None
    if given.rest:
        raise OptionError(f"unrecognized arguments: '{given.rest[0]}'")
    for name in required:
        if not given.has(name):
            raise OptionError(f"argument --{name} is required")
    for option in tool.options.options:
        given.value(option.name)  # a bad number is told before anything is done
    return given


def parse(words: Sequence[str]) -> Given:
    given = parse_words(TOOL, words, ("topic", "bootstrap-server"))
    if given.value("acks") not in (0, 1, -1):
        raise OptionError(
            f"argument --acks: invalid choice: '{given.value('acks')}' (choose from {{0,1,-1}})"
        )
    if given.has("producer.config") and given.has("command-config"):
        raise OptionError("Options --producer.config and --command-config are mutually exclusive.")
    return given


def print_event(console: Console, name: str, **more: Any) -> None:
    """One line of JSON, as the verifiable tools print them."""
    line = {"timestamp": SystemClock().now_ms(), "name": name, **more}
    console.print(json.dumps(line, ensure_ascii=False, separators=(",", ":")))


@dataclass(slots=True)
class Report:
    """Prints what happened, and counts."""

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
    heard = _listen()
    start_ms = now_ms()
    servers = given.value("bootstrap-server")
    async with await open_cluster(
        servers, properties, console, client_id="producer-1", call="metadata"
    ) as cluster:
        async with await Producer.open(cluster, **options) as producer:
            report.event("startup_complete")
            await _send_all(producer, given, report, heard)
        report.event("shutdown_complete")
    elapsed_ms = max(1, now_ms() - start_ms)
    report.event(
        "tool_data",
        sent=report.sent,
        acked=report.acked,
        target_throughput=given.value("throughput"),
        avg_throughput=1000 * report.acked / elapsed_ms,
    )
    return 128 + heard[0] if heard else 0


def _listen() -> list[int]:
    """Numbers of the signals that will have come."""
    heard: list[int] = []
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, heard.append, int(number))
    return heard


async def _send_all(producer: Producer, given: Given, report: Report, heard: list[int]) -> None:
    most, throughput = given.value("max-messages"), given.value("throughput")
    prefix, keys = given.value("value-prefix"), given.value("repeating-keys")
    timestamp_ms = given.value("message-create-time")
    clock = SystemClock()
    begin_ms = clock.now_ms()
    while not heard and (most < 0 or report.sent < most):
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
